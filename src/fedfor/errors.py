"""Mistakes and accidents that a person can mend, each told in one sentence."""

import difflib
import math
from collections.abc import Iterable


class FedforError(Exception):
    """One sentence that names the thing, the place and the way out."""

    exit_code = 2


class ConfigError(FedforError):
    """A setting that cannot be used."""


class DataError(FedforError):
    """Data that cannot be learned from."""


class FolderError(FedforError):
    """A run folder that cannot be used as asked."""


class DivergedError(FedforError):
    """Training left the finite numbers."""

    exit_code = 3


def nearest(name: str, known: Iterable[str], otherwise: str = "known are:") -> str:
    """A hint for a name that is not known: the nearest ones, else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
    return f"{otherwise} " + ("; " if any("," in k for k in known) else ", ").join(known)


def require_number(
    owner: str,
    setting: str,
    value: object,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
) -> None:
    """Refuse a setting that is no finite number greater than `above`, from `least` to `most`."""
    bound = f"greater than {above:g}" if above > -math.inf else f"{least:g} or more"
    bound += f", at most {most:g}" if most < math.inf else ""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigError(f"{owner}: {setting} must be a finite number, {bound} (got {value!r})")
    if value <= above or not least <= value <= most:
        raise ConfigError(f"{owner}: {setting} must be {bound} (got {value:g})")


def require_whole(owner: str, setting: str, value: object, *, least: int = 1) -> None:
    """Refuse a setting that is no whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{owner}: {setting} must be a whole number (got {value!r})")
    require_number(owner, setting, value, least=least)


def require_choice(owner: str, setting: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a setting that is none of the choices."""
    choices = tuple(choices)
    if value not in choices:
        hint = nearest(str(value), choices)
        raise ConfigError(f"{owner}: {setting} cannot be {value!r}; {hint}")


def in_short(error: BaseException) -> str:
    """The first sentence of what somebody else's error says."""
    lines = str(error).strip().splitlines()
    return lines[0].split(". ")[0].rstrip(".")[:160] if lines else type(error).__name__
