from collections.abc import Mapping
from dataclasses import dataclass, field

from ..tensors import Extras, Tensors, extras_nbytes, first_not_finite, nbytes
from .compression import decode_extras


@dataclass(frozen=True)
class Message:
    """What the server sends to each client of a round. Its tensors are not to be changed."""

    round: int
    params: Tensors
    """The shared parameters of w(t-1)."""
    buffers: Tensors
    extras: Extras = field(default_factory=dict)
    """As clients use them."""
    difference: str | None = None
    """The extra that is w(t-2) - w(t-1), if one is."""
    encoded: Extras = field(default_factory=dict)
    """The extras that travel in another form, as they travel: see compression.py."""
    came_of: int | None = None
    """The last round whose replies moved the model, if it is not the one before."""

    @property
    def moved_in(self) -> int:
        return self.round - 1 if self.came_of is None else self.came_of

    @classmethod
    def from_wire(
        cls,
        round: int,  # noqa: A002
        params: Tensors,
        buffers: Tensors,
        sent: Extras,
        forms: Mapping[str, str],
        difference: str | None = None,
    ) -> "Message":
        """The message that carries these extras. `forms` are the ClientOpt's `sent_as`."""
        extras = decode_extras(sent, forms, params)
        encoded = {extra: tensors for extra, tensors in sent.items() if extra in forms}
        return cls(round, params, buffers, extras, difference, encoded)

    @property
    def sent(self) -> Extras:
        """The extras as they go over the wire."""
        return {**self.extras, **self.encoded}

    @property
    def model(self) -> Tensors:
        return {**self.params, **self.buffers}

    @property
    def nbytes(self) -> int:
        """Bytes down to a client that has nothing yet: the cross-device form."""
        return nbytes(self.model) + extras_nbytes(self.sent)

    @property
    def silo_nbytes(self) -> int:
        """Bytes down to a client that still has w(t-2): the cross-silo form.

        It gets all but the difference, which it takes itself: w(t-1) could be made from an exact
        one, at the same bytes, but not from a rounded one. To go on with the very numbers that the
        others get, it encodes and decodes its difference as the server did.
        """
        if self.difference is not None and self.difference in self.sent:
            return self.nbytes - nbytes(self.sent[self.difference])
        return self.nbytes


@dataclass(frozen=True)
class Reply:
    """What a client sends back."""

    model: Tensors
    extras: Extras
    examples: int
    steps: int

    @property
    def nbytes(self) -> int:
        return nbytes(self.model) + extras_nbytes(self.extras)

    def stacked(self) -> "StackedReply":
        """A stack of one."""
        extras = {e: {n: t[None] for n, t in ts.items()} for e, ts in self.extras.items()}
        model = {name: t[None] for name, t in self.model.items()}
        return StackedReply(model, extras, (self.examples,), (self.steps,))

    def problem(self, message: Message, expected_extras: tuple[str, ...]) -> str | None:
        """Why this cannot be an answer to `message`, or None if it can."""
        return self.misfit(message, expected_extras) or self.not_finite(message)

    def not_finite(self, message: Message) -> str | None:
        """Where there is NaN or infinity that did not come with the message, if there is."""
        for what, tensors in {"model": self.model, **self.extras}.items():
            before = message.buffers if what == "model" else {}
            if (name := first_not_finite(tensors, before)) is not None:
                return f"{what}: NaN or infinity in '{name}'"
        return None

    def misfit(self, message: Message, expected_extras: tuple[str, ...]) -> str | None:
        """What is missing, surplus or of another shape, if something is."""
        if self.examples <= 0:
            return f"the number of examples is {self.examples}"
        return _misfit(self.model, self.extras, message, expected_extras)


@dataclass(frozen=True)
class StackedReply:
    """The replies of several clients, each tensor with a leading client axis."""

    model: Tensors
    extras: Extras
    examples: tuple[int, ...]
    steps: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def nbytes(self) -> int:
        """Of all of them together."""
        return nbytes(self.model) + extras_nbytes(self.extras)

    def one(self, place: int) -> Reply:
        """The reply of one client, as views."""
        return Reply(
            {name: t[place] for name, t in self.model.items()},
            {e: {name: t[place] for name, t in ts.items()} for e, ts in self.extras.items()},
            self.examples[place],
            self.steps[place],
        )

    def misfit(self, message: Message, expected_extras: tuple[str, ...]) -> str | None:
        """What is missing, surplus or of another shape, if something is: in all of them alike."""
        if (fewest := min(self.examples)) <= 0:
            return f"the number of examples is {fewest}"
        return _misfit(self.model, self.extras, message, expected_extras, leading=1)

    def first_not_finite(self, message: Message) -> tuple[int, str] | None:
        """The first client with NaN or infinity, and where."""
        each = ((place, self.one(place).not_finite(message)) for place in range(len(self)))
        return next(((place, where) for place, where in each if where is not None), None)


def _misfit(
    model: Tensors,
    extras: Extras,
    message: Message,
    expected_extras: tuple[str, ...],
    leading: int = 0,
) -> str | None:
    """What is wrong with the tensors of a reply, or of a stack of them."""
    if extras.keys() != set(expected_extras):
        return f"the extras are {sorted(extras)}, expected {sorted(expected_extras)}"
    expected = {"model": message.model, **dict.fromkeys(expected_extras, message.params)}
    for what, tensors in {"model": model, **extras}.items():
        if mismatch := _mismatch(tensors, expected[what], leading):
            return f"{what}: {mismatch}"
    return None


def _mismatch(got: Tensors, expected: Tensors, leading: int) -> str | None:
    if missing := sorted(expected.keys() - got.keys()):
        return f"'{missing[0]}' is missing"
    if surplus := sorted(got.keys() - expected.keys()):
        return f"'{surplus[0]}' is not part of the model"
    for name, tensor in got.items():
        shape = tensor.shape[leading:]
        if shape != expected[name].shape:
            shapes = f"{tuple(shape)}, expected {tuple(expected[name].shape)}"
            return f"'{name}' has shape {shapes}"
    return None
