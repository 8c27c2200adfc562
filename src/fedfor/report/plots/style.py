"""How figures look: sizes of papers, small type, fonts that printers take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import ConfigError

COLUMN, PAGE = 3.35, 7.0
WIDTHS = {"column": COLUMN, "page": PAGE}
"""In inches, as most papers of two columns have them."""

TEXT, SMALL = 8.0, 7.0
"""Points: of names of axes, and of ticks and legends."""

FONT = "DejaVu Sans"
"""It comes with matplotlib, so a figure is the same on every machine."""

LINE, FAINT = 1.1, "0.75"

STYLE: dict[str, Any] = {
    "font.family": [FONT],
    "font.size": TEXT,
    "axes.labelsize": TEXT,
    "axes.titlesize": TEXT,
    "axes.titlelocation": "left",
    "axes.titlepad": 3.0,
    "axes.labelpad": 2.5,
    "figure.titlesize": TEXT + 1,
    "figure.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.35,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "lines.linewidth": LINE,
    "hatch.linewidth": 0.5,
    "text.parse_math": False,  # a $ in a name is a $
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
    "svg.fonttype": "path",  # looks the same where the font is not
    "svg.hashsalt": "fedfor",  # the same bytes each time
}


@contextmanager
def styled() -> Iterator[None]:
    """Whatever matplotlibrc says. Figures are both made and saved inside."""
    matplotlib = need_matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def need_matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError("pictures need matplotlib: pip install 'fedfor[report]'") from error
    return matplotlib


UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def unit(most: float) -> tuple[str, float]:
    """The unit in which so many bytes are a handy number, and how many bytes it has."""
    power = 0
    while most >= 1024 ** (power + 1) and power < len(UNITS) - 1:
        power += 1
    return UNITS[power], 1024.0**power
