"""Accuracy of each domain, or else of each class, over time: a small panel each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ..methods import Method, Value
from ..page_clients import cohort_of
from ..sound import number
from .asked import Asked, named
from .frame import Frame, Panel, framed
from .lines import draw_band, entries, set_scales, whole_rounds
from .missing import nothing, told_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 24
"""Panels that can still be read."""


@dataclass(frozen=True)
class Part:
    key: str
    """Of the records."""
    at: str
    name: str

    @property
    def value(self) -> Value:
        """Its accuracy in %."""

        def found(record: dict[str, Any]) -> float | None:
            accuracy = number(by_part(record, self.key), self.at)
            return None if accuracy is None else 100 * accuracy

        return found


def by_part(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Domains have names, classes numbers."""
    told = record.get(key)
    if isinstance(told, list):
        return {str(place): value for place, value in enumerate(told)}
    return told if isinstance(told, Mapping) else {}


def parts_of(methods: Sequence[Method]) -> list[Part]:
    runs = [run for method in methods for run in method.runs]
    for key in ("domains", "classes"):
        found = dict.fromkeys(at for u in runs for r in u.records for at in by_part(r, key))
        if found:
            told = (cohort["class_names"] for u in runs if (cohort := cohort_of(u)) is not None)
            names: list[str] = next((names for names in told if names), [])
            return [Part(key, at, at if key == "domains" else _name(at, names)) for at in found]
    return []


def _name(at: str, names: Sequence[str]) -> str:
    return names[int(at)] if int(at) < len(names) else f"class {at}"


def draw_parts(asked: Asked) -> "Figure":
    if len(points := asked.by_point) > 1:
        raise ConfigError(
            f"these runs are of several points ({', '.join(points)}), too many panels for a "
            "figure of parts; choose one with --point"
        )
    parts = parts_of(asked.methods)
    if not parts:
        raise ConfigError(nothing(asked.methods, "its accuracy by domain or class"))
    if asked.parts:
        chosen = named("--parts", asked.parts, [part.name for part in parts])
        parts = [part for part in parts if part.name in chosen]
    if len(parts) > MOST:
        raise ConfigError(
            f"these runs have {len(parts)} {parts[0].key}, more than the {MOST} that fit in a "
            f"figure; choose some with --parts, such as --parts '{parts[0].name},{parts[1].name}'"
        )
    values = [part.value for part in parts]
    methods = told_by(
        asked.methods,
        lambda r: next((v for value in values if (v := value(r)) is not None), None),
        f"its accuracy by {'domain' if parts[0].key == 'domains' else 'class'}",
    )

    def panel(part: Part) -> Panel:
        def draw(axes: "Axes") -> None:
            for method in methods:
                band = method.band(part.value)
                if band.at:
                    draw_band(axes, band, method.label, asked.place(method), lw=0.9)
            whole_rounds(axes)
            set_scales(axes, asked)

        return Panel(draw, part.name)

    frame = Frame("round", "test accuracy, %", entries(asked, methods))
    return framed(asked, [panel(part) for part in parts], frame)
