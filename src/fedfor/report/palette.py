"""How methods are told apart in pictures."""

from typing import Any

# Okabe and Ito's colours, told apart with any colour vision; line styles for print without colour.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")
STYLES = (
    "-",
    "--",
    "-.",
    ":",
    (0, (6, 1.5)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
    (0, (5, 1, 1, 1, 1, 1)),
)


def line_style(place: int) -> dict[str, Any]:
    """Of the line in this place: 8 colours, and beyond these another style for each."""
    shifted = place + place // len(COLOURS)
    return {"color": COLOURS[place % len(COLOURS)], "ls": STYLES[shifted % len(STYLES)]}
