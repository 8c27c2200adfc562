"""What server and clients say to each other, whatever carries it."""

from .aggregation import Aggregation
from .local import Kept, LocalRound
from .message import Message, Reply, StackedReply
from .moves import Agreement
from .partial import Partial
from .server import Server

__all__ = [
    "Aggregation",
    "Agreement",
    "Kept",
    "LocalRound",
    "Message",
    "Partial",
    "Reply",
    "Server",
    "StackedReply",
]
