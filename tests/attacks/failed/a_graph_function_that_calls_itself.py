"""Sends the checker a graph whose function calls itself, which ends the process that runs it."""

from corpus import sending_graphs

EXERCISE = "round_robin"
submission = sending_graphs(
    """
    def spoil(graph):
        function = graph.library.function.add()
        function.signature.name = "again"
        for nodes in (function.node_def, graph.node):
            nodes.add(name="call", op="PartitionedCall").attr["f"].func.name = "again"
    """
)
