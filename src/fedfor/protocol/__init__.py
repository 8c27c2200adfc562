"""What server and clients say to each other, whatever carries it."""

from .local import Kept, LocalRound
from .message import Message, Reply, StackedReply
from .moves import Agreement
from .server import Aggregation, Server

__all__ = [
    "Aggregation",
    "Agreement",
    "Kept",
    "LocalRound",
    "Message",
    "Reply",
    "Server",
    "StackedReply",
]
