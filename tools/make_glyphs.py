"""Render the digits of many fonts into src/fedfor/data/glyphs.npz, which the package ships.

    .venv/bin/python tools/make_glyphs.py

Shipped as bitmaps so that the rendered domain is the same on every machine and needs no font.
"""

from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

FONTS = [
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "STIXGeneralBolIta",
    "cmr10",
    "cmss10",
    "cmtt10",
    "cmb10",
]
SIDE = 32
OUT = Path(__file__).parent.parent / "src/fedfor/data/glyphs.npz"


def glyph(font: ImageFont.FreeTypeFont, digit: int) -> np.ndarray:
    image = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(image).text((SIDE / 2, SIDE / 2), str(digit), 255, font, anchor="mm")
    return np.asarray(image)


def main() -> None:
    folder = Path(matplotlib.get_data_path()) / "fonts/ttf"
    glyphs = np.zeros((len(FONTS), 10, SIDE, SIDE), np.uint8)
    for i, name in enumerate(FONTS):
        # Fonts differ in how large a digit of one size is; make the digits 24 pixels high.
        trial = ImageFont.truetype(folder / f"{name}.ttf", 100)
        _, top, _, bottom = trial.getbbox("8", anchor="mm")
        font = ImageFont.truetype(folder / f"{name}.ttf", round(100 * 24 / (bottom - top)))
        for digit in range(10):
            glyphs[i, digit] = glyph(font, digit)
    np.savez_compressed(OUT, glyphs=glyphs, fonts=np.array(FONTS))
    print(f"wrote {OUT}: {len(FONTS)} fonts, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
