"""What server and clients say to each other, whatever carries it."""

from .local import Kept, LocalRound
from .message import Message, Reply, StackedReply
from .server import Aggregation, Server

__all__ = ["Aggregation", "Kept", "LocalRound", "Message", "Reply", "Server", "StackedReply"]
