"""What a client keeps between its rounds, in Flower's Context: nothing, if the method is stateless.

Flower keeps a Context for one run. Another run of the same app starts with an empty one.
"""

from flwr.app import ConfigRecord, Context

from ..protocol import Kept
from ..tensors import Tensors, flatten, nbytes, unflatten
from .records import from_record, to_record

KEPT, ROUND, MODEL = "fedfor-kept", "fedfor-kept-round", "fedfor-model"


def load_kept(context: Context) -> Kept | None:
    tensors = context.state.array_records.get(KEPT)
    about = context.state.config_records.get(ROUND)
    if tensors is None or about is None:
        return None
    return Kept(int(str(about["round"])), unflatten(from_record(tensors)))


def save_kept(context: Context, kept: Kept | None) -> None:
    if kept is not None:
        context.state[KEPT] = to_record(flatten(kept.extras))
        context.state[ROUND] = ConfigRecord({"round": kept.round})


def load_model(context: Context) -> Tensors | None:
    """The model of the last message, if there was one and it was to be kept."""
    record = context.state.array_records.get(MODEL)
    return None if record is None else from_record(record)


def save_model(context: Context, model: Tensors) -> None:
    context.state[MODEL] = to_record(model)


def state_bytes(context: Context) -> int:
    """Bytes of what the method keeps. The model of the cross-silo form is not counted, nor does
    the simulator count it: any client of a silo may have kept it for itself."""
    record = context.state.array_records.get(KEPT)
    return 0 if record is None else nbytes(from_record(record))
