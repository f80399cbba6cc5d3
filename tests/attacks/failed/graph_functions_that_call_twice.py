"""Sends the checker a graph of forty functions, each of which calls the next one twice."""

from corpus import sending_graphs

EXERCISE = "round_robin"
submission = sending_graphs(
    """
    def spoil(graph):
        graph.node.add(name="call", op="PartitionedCall").attr["f"].func.name = "f0"
        for i in range(40):
            function = graph.library.function.add()
            function.signature.name = f"f{i}"
            for call in ("once", "twice"):
                function.node_def.add(name=call, op="PartitionedCall").attr["f"].func.name = f"f{i + 1}"
        graph.library.function.add().signature.name = "f40"
    """
)
