"""Where the results of a round come in: looked at, and counted in."""

from collections.abc import Callable, Sequence

from torch import Tensor

from ..algorithms import Algorithm
from ..errors import ConfigError, DivergedError
from ..protocol import Aggregation, Kept, Message
from .engine import Result, StackedResult
from .training import Training


class Intake:
    """Takes the results of a round. What a client keeps goes to `keep`."""

    def __init__(
        self,
        algorithm: Algorithm,
        training: Training,
        replies: Aggregation,
        keep: Callable[[int, Kept], None],
    ) -> None:
        self.algorithm, self.training = algorithm, training
        self.replies, self._keep = replies, keep
        self._unchecked: list[tuple[StackedResult, Tensor]] = []

    def take(
        self, result: Result | StackedResult, place: int | None = None, wait: bool = True
    ) -> None:
        """Count a result in. Without `wait`, whether it is sound is to be asked for later."""
        stacked = result.stacked()
        self._require_fit(stacked)
        sound = self.replies.add(stacked.reply, checked=True, losses=stacked.losses, place=place)
        if wait or stacked.kept is not None:
            self._require_sound(stacked, bool(sound))
        else:
            self._unchecked.append((stacked, sound))
        for client, kept in zip(stacked.clients, stacked.kept or (), strict=False):
            self._keep(client, kept)

    @property
    def open_questions(self) -> list[Tensor]:
        """Whether the results that nobody waited for are sound."""
        return [sound for _, sound in self._unchecked]

    def answer(self, sound: Sequence[float]) -> None:
        """What became of the open questions."""
        for (result, _), is_sound in zip(self._unchecked, sound, strict=True):
            self._require_sound(result, bool(is_sound))

    def _require_fit(self, result: StackedResult) -> None:
        name, up = self.algorithm.client.name, self.algorithm.client.up
        if (misfit := result.reply.misfit(self.message, up)) is not None:
            raise ConfigError(f"{name}: the reply of client {result.clients[0]}: {misfit}")

    def _require_sound(self, result: StackedResult, is_sound: bool) -> None:
        if not is_sound and (broken := result.reply.first_not_finite(self.message)) is not None:
            place, where = broken
            raise self.diverged(f"client {result.clients[place]} sent {where}")

    @property
    def message(self) -> Message:
        return self.replies.message

    def diverged(self, what: str) -> DivergedError:
        advice = f"lower training.lr (now {self.training.lr:g})"
        if more := self.algorithm.advice():
            advice += f"; or {more}"
        name, t = self.algorithm.describe(), self.message.round
        return DivergedError(f"{name} diverged in round {t}: {what}; {advice}")
