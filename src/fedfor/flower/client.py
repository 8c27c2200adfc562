"""The client's side: train on a message and answer it, in one call or around one's own loop."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from .. import protocol
from ..algorithms import Algorithm, ClientOpt
from ..data.labelled import LabelledData, Samples
from ..engines import Exam, Job, SerialEngine, Training
from ..engines.fisher import Loss
from ..errors import ConfigError
from ..protocol import Kept, Reply
from ..tensors import Tensors
from .loaders import pair, score_through, train_through
from .receive import NeedsModelError, Received, asks_for_model, receive
from .records import to_record
from .state import load_kept, save_kept, state_bytes
from .wire import ABOUT, ARRAYS, EXAMPLES, METRICS, About, joined

Chosen = Algorithm | ClientOpt | str
Data = Samples | LabelledData | Sequence[Tensor] | DataLoader[Any]


class LocalRound:
    """Puts the server's algorithm on a training loop of one's own.

        local = fedfor.flower.LocalRound(message, context, model, optimizer, steps=len(loader))
        ...  # any training loop
        return local.reply(examples=len(dataset), metrics={"train-loss": loss})

    Creating it loads the server's model and hooks the optimizer. `steps`, the number of optimizer
    steps to come, is needed by FedFOR's default strength only. `algorithm` is for one's own, which
    the server's message can only name.
    """

    def __init__(
        self,
        message: Message,
        context: Context,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        steps: int | None = None,
        algorithm: Chosen | None = None,
    ) -> None:
        self._asked, self._context = message, context
        self._received = receive(message, context)
        chosen = self._received.algorithm(algorithm)
        self._kept = load_kept(context, self._received.counted)
        self._local = protocol.LocalRound(
            chosen,
            model,
            optimizer,
            self._received.message(model, chosen),
            self._kept,
            steps=steps,
        )

    def reply(
        self,
        examples: int,
        metrics: Mapping[str, float] | None = None,
        fisher: Tensors | None = None,
    ) -> Message:
        """The answer to the server. What the method keeps on the client goes into the Context."""
        reply, kept = self._local.finish(examples, fisher)
        return _answer(
            self._asked,
            self._context,
            self._received,
            reply,
            (self._kept, kept),
            lr=self._local.mean_lr,
            client=client_number(self._context, None),
            metrics=metrics or {},
        )


def train(
    message: Message,
    context: Context,
    model: nn.Module,
    data: Data,
    *,
    training: Training | None = None,
    loss: Loss = nn.functional.cross_entropy,
    seed: int = 0,
    client: int | None = None,
    device: torch.device | str = "cpu",
    algorithm: Chosen | None = None,
    **training_options: Any,
) -> Message:
    """Train `model` as the server's message says, and answer it.

    `data` is a pair of tensors (x, y) or one of fedfor's own, drawn in batches that are a function
    of seed, round and client, just as the simulator does it; or a DataLoader, which is gone through
    as it is, once an epoch. `training_options` are those of `fedfor.Training`: epochs, batch_size,
    lr, optimizer, ... `client` is the node's partition-id unless given.
    """
    if training is not None and training_options:
        raise ConfigError(f"train: give {sorted(training_options)[0]} to Training, or alone")
    how = training or Training(**training_options)
    try:
        received = receive(message, context)
    except NeedsModelError:
        return asks_for_model(message)
    chosen = received.algorithm(algorithm)
    number = client_number(context, client)
    drawn_by = number if number >= 0 else context.node_id  # no two nodes draw alike
    sent, before = received.message(model, chosen), load_kept(context, received.counted)
    if isinstance(data, DataLoader):
        model.to(device)
        outcome = train_through(chosen, model, sent, before, data, how, loss, seed, drawn_by)
    else:
        job = Job(drawn_by, _samples(data), before)
        result = SerialEngine(model, chosen, how, seed, loss, device).client_update(sent, job)
        outcome = result.reply, result.kept, result.loss
    reply, kept, train_loss = outcome
    return _answer(
        message,
        context,
        received,
        reply,
        (before, kept),
        lr=how.lr_in(received.round),
        client=number,
        metrics={"train-loss": train_loss},
    )


def evaluate(
    message: Message,
    context: Context,
    model: nn.Module,
    data: Data,
    *,
    loss: Loss = nn.functional.cross_entropy,
    device: torch.device | str = "cpu",
    name: str | None = None,
    algorithm: Chosen | None = None,
) -> Message:
    """Test the server's model, with the layers that this client keeps as its own, if it does.

    `name` is what these data are called in the server's record; the node's number unless given.
    """
    received = receive(message, context)
    chosen = received.algorithm(algorithm)
    sent = received.message(model, chosen)
    kept = None if chosen.sharing == "everything" else load_kept(context, received.counted)
    if isinstance(data, DataLoader):
        score, examples = score_through(model.to(device), sent, kept, data, loss)
    else:
        samples = _samples(data)
        engine = SerialEngine(model, chosen, Training(), seed=0, loss=loss, device=device)
        score, examples = engine.score(Exam(sent.model, samples, kept)), len(samples)
    number = client_number(context, None)
    called = name or f"client {number if number >= 0 else context.node_id}"
    metrics = MetricRecord({EXAMPLES: examples, "accuracy": score.accuracy, "loss": score.loss})
    about = ConfigRecord({"name": called, "client": number})
    return Message(RecordDict({METRICS: metrics, ABOUT: about}), reply_to=message)


def client_number(context: Context, given: int | None) -> int:
    """The number of a client among all: as given, or the node's partition-id; -1 if not known."""
    number = context.node_config.get("partition-id") if given is None else given
    return number if isinstance(number, int) and number >= 0 else -1


def _answer(
    asked: Message,
    context: Context,
    received: Received,
    reply: Reply,
    states: tuple[Kept | None, Kept | None],
    *,
    lr: float,
    client: int,
    metrics: Mapping[str, float],
) -> Message:
    save_kept(context, *states)
    in_order = {n: reply.model[n] for n in received.arrays}
    about = About(received.round, reply.steps, lr, client, state_bytes(context))
    content = RecordDict(
        {
            ARRAYS: to_record(joined(in_order, reply.extras)),
            METRICS: MetricRecord({**metrics, EXAMPLES: reply.examples}),
            ABOUT: about.record(),
        }
    )
    return Message(content, reply_to=asked)


def _samples(data: Samples | LabelledData | Sequence[Tensor]) -> Samples:
    if isinstance(data, Samples):
        return data
    if isinstance(data, LabelledData):
        return data.all_rows()
    x, y = pair(data, "the data")
    return LabelledData("this client's data", x, y, int(y.max()) + 1 if len(y) else 1).all_rows()
