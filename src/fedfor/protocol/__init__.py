"""What server and clients say to each other, whatever carries it."""

from .local import Kept, LocalRound
from .message import Message, Reply
from .server import Server

__all__ = ["Kept", "LocalRound", "Message", "Reply", "Server"]
