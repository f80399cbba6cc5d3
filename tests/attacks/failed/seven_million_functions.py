"""Sends a graph of seven million empty functions, 15 MB that take 3 GB when they are read."""

from corpus import sending_graphs

EXERCISE = "round_robin"
submission = sending_graphs(
    """
    class GraphDef:
        def SerializeToString(self):
            length, size = 14_000_000, bytearray()
            while length > 127:
                size.append(length & 127 | 128)
                length >>= 7
            return bytes([18, *size, length]) + bytes([10, 0]) * 7_000_000


    def spoil(graph):
        return GraphDef()
    """
)
