"""What somebody wants drawn: of which runs, how, and on how much paper."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...errors import ConfigError, nearest
from ..methods import Method, labels
from .style import COLUMN


@dataclass(frozen=True)
class Asked:
    methods: Sequence[Method]
    places: dict[str, int] = field(default_factory=dict)
    """Of each name among all runs, so that a method looks the same in every figure of them."""
    width: float = COLUMN
    height: float | None = None
    """Inches. None: as high as it needs to be."""
    title: str = ""
    metric: str = "accuracy"
    x: str = "round"
    best: bool = False
    """The best accuracy so far instead of that of the round."""
    target: float | None = None
    parts: tuple[str, ...] = ()
    """The domains or classes to show. Else all."""
    log_x: bool = False
    log_y: bool = False

    def place(self, method: Method) -> int:
        return self.places.get(method.label, 0)

    @property
    def by_point(self) -> dict[str, list[Method]]:
        found: dict[str, list[Method]] = {}
        for method in self.methods:
            found.setdefault(method.point, []).append(method)
        return found


def places_of(methods: Sequence[Method]) -> dict[str, int]:
    return {label: place for place, label in enumerate(labels(methods))}


def of_points(methods: Sequence[Method], names: Sequence[str]) -> list[Method]:
    """Those at the points with these names, whatever the case."""
    points = list(dict.fromkeys(method.point for method in methods))
    known = {point.casefold(): point for point in points}
    if names and points == [""]:
        raise ConfigError("--point: these runs are of no study and have no points; leave it out")
    chosen = []
    for name in names:
        if (found := known.get(name.strip().casefold())) is None:
            raise ConfigError(f"--point {name}: there is none; {nearest(name, points)}")
        chosen.append(found)
    return [method for method in methods if not names or method.point in chosen]


def of_names(methods: Sequence[Method], texts: Sequence[str]) -> list[Method]:
    """Those that are named: by all of a name, or by its algorithm, with commas between."""
    chosen = named("--methods", texts, labels(methods))
    return [method for method in methods if not texts or method.label in chosen]


def named(option: str, texts: Sequence[str], every: Sequence[str]) -> list[str]:
    """Names have commas in them, so the longest that fits is taken each time."""
    chosen: list[str] = []
    for text in texts:
        words = text.split(",")
        while words:
            for count in range(len(words), 0, -1):
                if found := _matching(",".join(words[:count]), every):
                    break
            else:
                name = words[0].strip()
                hint = nearest(name, {*every, *map(_first, every)})
                raise ConfigError(f"{option} {name}: there is none; {hint}")
            chosen += found
            words = words[count:]
    return chosen


def _matching(name: str, every: Sequence[str]) -> list[str]:
    wanted = name.strip().casefold()
    exact = [label for label in every if label.casefold() == wanted]
    return exact or [label for label in every if _first(label).casefold() == wanted]


def _first(label: str) -> str:
    """Of a method, the algorithm."""
    return label.partition(",")[0].strip()
