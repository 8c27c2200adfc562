"""Replies as they come: whose they are, which can be used, and why the others cannot."""

from collections.abc import Callable, Mapping, Sequence
from logging import INFO, WARNING
from typing import TypeVar

from flwr.app import Message
from flwr.supercore import log

from .. import protocol
from ..algorithms import Algorithm
from .outbox import Outbox
from .replies import (
    BadReplyError,
    GoodReply,
    Rejected,
    Tested,
    needs_model,
    read_reply,
    read_test,
)
from .wire import DIFFERENCE

T = TypeVar("T")

NO_ANSWER = "no answer in time"


class Inbox:
    """Sorts the answers to what an Outbox has sent. What is rejected is named in the log."""

    def __init__(self, outbox: Outbox, algorithm: Algorithm, longest: Mapping[str, float]) -> None:
        self.outbox, self.algorithm, self.longest = outbox, algorithm, longest
        self._dismissed: set[int] = set()

    def begin(self) -> None:
        """Nodes have been asked anew."""
        self._dismissed = set()

    def trained(
        self, replies: Sequence[Message], sent: protocol.Message
    ) -> tuple[list[GoodReply], list[Rejected]]:
        def read(message: Message, node: int) -> GoodReply:
            if self.has_lost_model(message):
                self.outbox.has_last_model.discard(node)
                raise BadReplyError("it has not got the last model")
            return read_reply(message, node, sent, self.algorithm, self.longest)

        return self._sorted(replies, read)

    def tested(self, replies: Sequence[Message]) -> tuple[list[Tested], list[Rejected]]:
        return self._sorted(replies, read_test)

    def has_lost_model(self, reply: Message) -> bool:
        """Whether a node was sent a difference and says that it has not got the model for it."""
        asked = self.outbox.asked.get(self.outbox.node_of(reply))
        sent_difference = asked is not None and DIFFERENCE in asked.content.array_records
        return sent_difference and needs_model(reply)

    def tell(self, where: str, good: int, bad: Sequence[Rejected]) -> None:
        log(INFO, "%s: Received %s results and %s failures", where, good, len(bad))
        for one in bad:
            log(WARNING, "\t> Rejected the reply of node %d: %s", one.node, one.why)

    def _sorted(
        self, replies: Sequence[Message], read: Callable[[Message, int], T]
    ) -> tuple[list[T], list[Rejected]]:
        """What can be read, and what cannot, each told of once."""
        good: dict[int, T] = {}
        silent = [n for n in self.outbox.silent(replies) if n not in self._dismissed]
        bad = [Rejected(n, NO_ANSWER) for n in silent]
        for message in replies:
            node = self.outbox.node_of(message)
            try:
                if node not in self.outbox.asked:
                    raise BadReplyError("it was not asked")
                if node in good:
                    raise BadReplyError("it has answered already")
                good[node] = read(message, node)
            except BadReplyError as error:
                bad.append(Rejected(node, error.why))
        self._dismissed |= {one.node for one in bad}
        return list(good.values()), bad
