"""A message from the server, as a client takes it."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from torch import nn

from .. import protocol
from ..algorithms import Algorithm
from ..algorithms.sharing import buffers, stays_local, trainable
from ..errors import ConfigError, FedforError
from ..protocol.compression import encode_extras
from ..tensors import Extras, Tensors, unflatten
from . import silo
from .records import WireError, from_record, to_record
from .state import load_model, save_model
from .wire import (
    ABOUT,
    ARRAYS,
    COUNTED,
    DIFFERENCE,
    EXTRAS,
    FINGERPRINT,
    KEEP,
    algorithm_of,
    round_and_algorithm,
)

NEEDS_MODEL = "needs-model"


class NeedsModelError(FedforError):
    """This client got a difference and does not have the model that it belongs to."""


@dataclass(frozen=True)
class Received:
    """What came, free of the form that it came in."""

    round: int
    algorithm_text: str
    arrays: Tensors
    sent: Extras
    counted: int | None = None
    """The last round in which this client's reply was used, where the server tells."""
    before: Tensors | None = None
    """The model before this one, where a difference came in place of the extras."""

    def algorithm(self, given: Any = None) -> Algorithm:
        return algorithm_of(self.algorithm_text, given)

    def message(self, model: nn.Module, algorithm: Algorithm) -> protocol.Message:
        """For this model. What the client keeps for itself is not in it."""
        client, own = algorithm.client, stays_local(model, algorithm.sharing)
        params = [n for n in trainable(model) if n not in own]
        saved = [n for n in buffers(model) if n not in own]
        if missing := [n for n in (*params, *saved) if n not in self.arrays]:
            raise ConfigError(
                f"the server's model has no '{missing[0]}', which this client's has; "
                "build the same model on both sides"
            )
        if surplus := self.arrays.keys() - {*params, *saved}:
            raise ConfigError(
                f"the server's model has '{sorted(surplus)[0]}', which this client's does not "
                "share; build the same model on both sides, with the same parts frozen"
            )
        sent = self.sent
        if self.before is not None and client.difference is not None:
            moved = {n: self.before[n] - self.arrays[n] for n in params}
            sent = {**sent, **encode_extras({client.difference: moved}, client.sent_as)}
        return protocol.Message.from_wire(
            self.round,
            {n: self.arrays[n] for n in params},
            {n: self.arrays[n] for n in saved},
            sent,
            client.sent_as,
            client.difference,
        )


_aside: ContextVar[Received | None] = ContextVar("fedfor_received", default=None)


def receive(message: Message, context: Context) -> Received:
    """Read a message of a fedfor strategy, in whichever form it came."""
    if (aside := _aside.get()) is not None:  # mods may have changed the model since
        return replace(aside, arrays=_tensors(message.content, ARRAYS))
    content = message.content
    config, number, text = round_and_algorithm(content)
    if DIFFERENCE in content.array_records:
        before = load_model(context)
        arrays = None if before is None else silo.apply(before, _tensors(content, DIFFERENCE))
        if arrays is None or silo.fingerprint(arrays) != config.get(FINGERPRINT):
            raise NeedsModelError(
                "this client does not have the model that the server's difference belongs to"
            )
    else:
        before, arrays = None, _tensors(content, ARRAYS)
    if config.get(KEEP):
        save_model(context, arrays)
    sent = unflatten(_tensors(content, EXTRAS)) if EXTRAS in content.array_records else {}
    counted = config.get(COUNTED)
    return Received(
        number, text, arrays, sent, counted if isinstance(counted, int) else None, before
    )


def _tensors(content: RecordDict, key: str) -> Tensors:
    if key not in content.array_records:
        raise ConfigError(f"the server's message has no ArrayRecord '{key}'")
    try:
        return from_record(content.array_records[key])
    except WireError as error:
        raise ConfigError(f"the server's message cannot be read: {error}") from error


def asks_for_model(message: Message) -> Message:
    """The reply of a client that needs the whole model."""
    return Message(RecordDict({ABOUT: ConfigRecord({NEEDS_MODEL: True})}), reply_to=message)


def plain_messages(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """A mod for ClientApps that have others: put it first.

        app = ClientApp(mods=[fedfor.flower.plain_messages, fixedclipping_mod])

    Flower's mods expect one ArrayRecord in a message. The mods after this one see just the model,
    as if FedAvg had sent it; what came beside it is set aside until the round is trained.
    """
    content = message.content
    if EXTRAS not in content.array_records and DIFFERENCE not in content.array_records:
        return call_next(message, context)
    try:
        received = receive(message, context)
    except NeedsModelError:
        return asks_for_model(message)
    records = {k: r for k, r in content.items() if k not in (EXTRAS, DIFFERENCE)}
    message.content = RecordDict({**records, ARRAYS: to_record(received.arrays)})
    token = _aside.set(received)
    try:
        return call_next(message, context)
    finally:
        _aside.reset(token)
