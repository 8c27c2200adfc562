"""Names as text that fits: any characters, any length."""

import functools
import re
from collections.abc import Sequence

from .style import FONT

DROPPED = "\ufe0e\ufe0f"
"""They only say how the character before is to look."""


def plain(text: str) -> str:
    """In one line. Characters that the font cannot write are told by their number."""
    known = _characters()
    one_line = " ".join(text.split())
    return "".join(c if c in known else f"[U+{ord(c):04X}]" for c in one_line if c not in DROPPED)


@functools.cache
def _characters() -> frozenset[str]:
    from matplotlib.font_manager import findfont, get_font

    charmap = get_font(findfont(FONT)).get_charmap()
    return frozenset(c for c in map(chr, charmap) if c.isprintable())


def inches(text: str, size: float) -> float:
    """How wide it is, in type of so many points."""
    return sum(map(_width, text)) * size


@functools.cache
def _width(character: str) -> float:
    """In inches, of type of one point. Pairs that move together are not worth the time."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=FONT, size=10)
    return float(text_to_path.get_text_width_height_descent(character, font, False)[0]) / 720


def fitted(text: str, width: float, size: float, most: int = 3) -> str:
    """In at most so many lines, each no wider than `width` inches; cut in the middle if need be."""
    text = plain(text)
    lines = _lines(text, width, size)
    kept = len(text)
    while len(lines) > most:
        kept = min(kept - 1, int(kept * (most + 0.5) / len(lines)))
        half = max(1, kept // 2)
        lines = _lines(f"{text[:half]}…{text[-half:]}", width, size)
        if half == 1:
            break
    return "\n".join(lines)


def all_fitted(texts: Sequence[str], width: float, size: float, most: int = 3) -> list[str]:
    """As `fitted`, and those that have become alike by it are numbered."""
    found = [fitted(text, width, size, most) for text in texts]
    for place, text in enumerate(found):
        if found.count(text) > 1:
            found[place] = fitted(f"({place + 1}) {texts[place]}", width, size, most)
    return found


def _lines(text: str, width: float, size: float) -> list[str]:
    """Broken after commas and the like; inside a word where nothing else helps."""
    lines = [""]
    for piece in re.findall(r"[^\s,;/+]+[\s,;/+]*|[\s,;/+]+", text):
        if inches((lines[-1] + piece).rstrip(), size) <= width:
            lines[-1] += piece
            continue
        if lines[-1]:
            lines.append("")
        for c in piece:
            if lines[-1] and inches((lines[-1] + c).rstrip(), size) > width:
                lines.append("")
            lines[-1] += c
    return [line.rstrip() for line in lines]
