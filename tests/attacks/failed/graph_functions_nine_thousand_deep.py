"""Sends the checker a graph of functions that call one another, 9,000 deep."""

from corpus import sending_graphs

EXERCISE = "round_robin"
submission = sending_graphs(
    """
    def spoil(graph):
        graph.node.add(name="call", op="PartitionedCall").attr["f"].func.name = "f0"
        for i in range(9_000):
            function = graph.library.function.add()
            function.signature.name = f"f{i}"
            function.node_def.add(name="call", op="PartitionedCall").attr["f"].func.name = f"f{i + 1}"
        graph.library.function.add().signature.name = "f9000"
    """
)
