"""What a client keeps between its rounds, in Flower's Context: nothing, if the method is stateless.

Flower keeps a Context for one run. Another run of the same app starts with an empty one.
"""

from flwr.app import ConfigRecord, Context

from ..protocol import Kept
from ..tensors import Tensors, flatten, unflatten
from .records import from_record, payload, to_record

KEPT, BEFORE, ROUNDS, MODEL = "fedfor-kept", "fedfor-before", "fedfor-rounds", "fedfor-model"


def load_kept(context: Context, counted: int | None) -> Kept | None:
    """What the client kept from the last round in which its reply was used.

    A reply may have been lost or rejected, or its round tried again. So what was kept before is
    still there, and stands if what came after it was not `counted`; None counts everything.
    """
    rounds = context.state.config_records.get(ROUNDS, ConfigRecord())
    for key in (KEPT, BEFORE):
        tensors, number = context.state.array_records.get(key), rounds.get(key)
        if tensors is None or not isinstance(number, int):
            continue
        if counted is None or number <= counted:
            return Kept(number, unflatten(from_record(tensors)))
    return None


def save_kept(context: Context, before: Kept | None, kept: Kept | None) -> None:
    """Keep what came of a round, and what it began with."""
    if kept is None:
        return
    rounds = {}
    for key, state in ((KEPT, kept), (BEFORE, before)):
        if state is None:
            context.state.pop(key, None)
        else:
            context.state[key] = to_record(flatten(state.extras))
            rounds[key] = state.round
    context.state[ROUNDS] = ConfigRecord(dict(rounds))


def load_model(context: Context) -> Tensors | None:
    """The model of the last message, if there was one and it was to be kept."""
    record = context.state.array_records.get(MODEL)
    return None if record is None else from_record(record)


def save_model(context: Context, model: Tensors) -> None:
    context.state[MODEL] = to_record(model)


def state_bytes(context: Context) -> int:
    """Bytes of what the method keeps, as the simulator counts them: without the state before, and
    without the model of the cross-silo form."""
    record = context.state.array_records.get(KEPT)
    return 0 if record is None else payload(record)
