from dataclasses import replace

import torch
from torch import Tensor

from ..errors import ConfigError
from ..randomness import generator
from .labelled import Samples
from .population import Population, TestSet


class ConceptShift(Population):
    """The paper's concept shift over any population.

    At the start of each round, with some probability, one class drawn at random gets another of
    the available labels, for all clients and for the test data alike, until it is changed again.
    """

    def __init__(self, inner: Population, seed: int, probability: float = 0.05) -> None:
        super().__init__(inner.split, inner.size)
        if not 0 <= probability <= 1:
            raise ConfigError(
                f"population.concept_shift must be between 0 and 1 (got {probability})"
            )
        if self.train.classes < 2:
            raise ConfigError("population.concept_shift needs data with two or more classes")
        self.inner, self.seed, self.probability = inner, seed, probability
        self._labels = [torch.arange(self.train.classes)]  # by round; before round 1, as they are

    def shift(self, round: int) -> dict[str, int] | None:  # noqa: A002
        draw = generator(self.seed, "concept-shift", round)
        if draw.random() >= self.probability:
            return None
        changed = int(draw.integers(self.train.classes))
        old = int(self.labels(round - 1)[changed])
        new = (old + int(draw.integers(1, self.train.classes))) % self.train.classes
        return {"class": changed, "from": old, "to": new}

    def labels(self, round: int) -> Tensor:  # noqa: A002
        """The label that each class has in a round."""
        while len(self._labels) <= round:
            labels = self._labels[-1]
            if (change := self.shift(len(self._labels))) is not None:
                labels = labels.clone()
                labels[change["class"]] = change["to"]
            self._labels.append(labels)
        return self._labels[round]

    def samples(self, client: int, round: int) -> Samples:  # noqa: A002
        return replace(self.inner.samples(client, round), relabel=self.labels(round))

    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        return self.inner.examples(client, round)

    def tests(self, round: int) -> list[TestSet]:  # noqa: A002
        relabel = self.labels(round)
        return [
            replace(test, samples=replace(test.samples, relabel=relabel))
            for test in self.inner.tests(round)
        ]
