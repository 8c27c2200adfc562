"""Numbers as people read them: few digits, handy units, never an exponent."""

import math

from .plots.style import unit

MISSING = "-"


def short(value: float | None, digits: int = 3) -> str:
    """To so many digits: 0.00123, 1.23, 123, 12,300."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")  # before digits are counted: 0.9999 is 1.00
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, places)}f}"


def whole(value: int | None) -> str:
    """10^10 where it is such a power, else all of it."""
    if value is None:
        return MISSING
    power = len(str(value)) - 1
    return f"10^{power}" if power >= 5 and value == 10**power else f"{value:,}"


def mebibytes(value: int | None) -> str:
    return MISSING if value is None else f"{value / 2**20:,.0f}"


def sized(value: float | None) -> str:
    """Bytes in a unit of their own; below a KiB, all of them."""
    if value is None:
        return MISSING
    name, divisor = unit(value)
    return f"{value:,.0f} B" if divisor == 1 else f"{short(value / divisor)} {name}"


def lasting(seconds: float | None) -> str:
    """A time in a unit of its own."""
    if seconds is None:
        return MISSING
    rounded = float(f"{seconds:.2e}")  # before the unit is chosen: 0.9999 s is 1.00 s
    for size, name in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if rounded >= size:
            return f"{short(seconds / size)} {name}"
    return f"{short(seconds * 1e6)} us"


def per_cent(share: float) -> str:
    return f"{short(100 * share)} %"
