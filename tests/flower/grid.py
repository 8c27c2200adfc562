"""A federation in one process: Flower's own messages, contexts and ClientApp, but no network."""

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.clientapp import ClientApp
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

Answer = Callable[[Message, Context], Message]


def over_the_wire(message: Message) -> Message:
    """What arrives of a message: serialised and read again, so that nothing is shared."""
    if message.has_error():
        return message
    content = recorddict_from_proto(recorddict_to_proto(message.content))
    return make_message(message.metadata, content)


class InProcessGrid(Grid):
    """Hands each message to a ClientApp, as SuperNodes do, with one Context for each node.

    `tamper` gets every reply and may change it; None stands for a node that does not answer.
    """

    def __init__(
        self,
        app: ClientApp | Answer,
        nodes: int,
        run_config: dict[str, Any] | None = None,
        tamper: Callable[[int, Message], Message | None] = lambda node, reply: reply,
    ) -> None:
        self.app, self.tamper = app, tamper
        self.contexts = {
            100 + k: Context(1, 100 + k, {"partition-id": k}, RecordDict(), run_config or {})
            for k in range(nodes)
        }
        self.rearrange: Callable[[list[Message]], list[Message]] = lambda replies: replies
        """In place of the order in which nodes answer."""
        self.asked: list[Message] = []
        self.replies: list[Message] = []
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def forget(self, node: int) -> None:
        """A SuperNode that was started anew."""
        self.contexts[node].state = RecordDict()

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        replies = []
        for place, message in enumerate(messages):
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = f"{len(self.asked)}-{place}"
            self.asked.append(message)
            arrived = over_the_wire(message)
            try:
                reply = self.app(arrived, self.contexts[node])
            except Exception as error:  # as a SuperNode tells it
                reason = f"{type(error)}:<'{error}'>"
                reply = Message(Error(code=2, reason=reason), reply_to=arrived)
            changed = self.tamper(node, reply)
            if changed is not None:
                replies.append(over_the_wire(changed))
        replies = self.rearrange(replies)
        self.replies += replies
        return replies

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError
