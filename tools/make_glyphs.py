"""Render the digits of many fonts into src/fedfor/data/glyphs.npz, which the package ships.

    .venv/bin/python tools/make_glyphs.py

Shipped as arrays so that the rendered domains are the same on every machine and need no font.
"""

from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import distance_transform_edt

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
DOUBLE_STRUCK, SANS, SANS_BOLD, MONO = 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6
FACES = [
    *((font, ord("0")) for font in FONTS),
    ("DejaVuSans-BoldOblique", ord("0")),
    ("DejaVuSansMono-Oblique", ord("0")),
    ("DejaVuSansMono-BoldOblique", ord("0")),
    ("DejaVuSerif-BoldItalic", ord("0")),
    ("cmti10", ord("0")),
    ("cmmi10", ord("0")),
    ("STIXGeneral", DOUBLE_STRUCK),
    ("STIXGeneral", SANS),
    ("STIXGeneral", MONO),
    ("STIXGeneralBol", SANS_BOLD),
]
SIDE, HEIGHT = 32, 24
FINE = 8
"""Distances are measured on a drawing this many times as fine."""
STEPS, REACH = 16, 4
"""A distance is stored in sixteenths of a pixel, up to four pixels from the outline."""
OUT = Path(__file__).parent.parent / "src/fedfor/data/glyphs.npz"


def sized(name: str, digits: str, height: int) -> ImageFont.FreeTypeFont:
    """Fonts differ in how large a digit of one size is; make the tallest of these `height` high."""
    path = Path(matplotlib.get_data_path()) / f"fonts/ttf/{name}.ttf"
    trial = ImageFont.truetype(path, 100)
    boxes = [trial.getbbox(digit, anchor="mm") for digit in digits]
    return ImageFont.truetype(path, round(100 * height / max(b[3] - b[1] for b in boxes)))


def glyph(font: ImageFont.FreeTypeFont, digit: int) -> np.ndarray:
    image = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(image).text((SIDE / 2, SIDE / 2), str(digit), 255, font, anchor="mm")
    return np.asarray(image)


def distance(font: ImageFont.FreeTypeFont, text: str) -> np.ndarray:
    """How far each pixel lies inside (above 128) or outside (below) the outline of a digit.

    Unlike a bitmap, it can be drawn at any size, weight or stroke width without jagged edges.
    """
    image = Image.new("L", (SIDE * FINE, SIDE * FINE))
    left, top, right, bottom = font.getbbox(text)
    corner = (SIDE * FINE - left - right) / 2, (SIDE * FINE - top - bottom) / 2
    ImageDraw.Draw(image).text(corner, text, 255, font)
    inside = np.asarray(image) > 127
    signed = distance_transform_edt(inside) - distance_transform_edt(~inside)
    pixels = signed.reshape(SIDE, FINE, SIDE, FINE).mean(axis=(1, 3)) / FINE
    border = np.concatenate([pixels[[0, -1]].ravel(), pixels[:, [0, -1]].ravel()])
    assert border.max() < -3.5, f"{text} of {font.getname()} comes too near to the border"
    return np.round(128 + STEPS * pixels.clip(-REACH, REACH)).astype(np.uint8)


def main() -> None:
    glyphs = np.zeros((len(FONTS), 10, SIDE, SIDE), np.uint8)
    for i, name in enumerate(FONTS):
        font = sized(name, "8", HEIGHT)
        for digit in range(10):
            glyphs[i, digit] = glyph(font, digit)
    distances = np.zeros((len(FACES), 10, SIDE, SIDE), np.uint8)
    for i, (name, zero) in enumerate(FACES):
        digits = "".join(chr(zero + digit) for digit in range(10))
        font = sized(name, digits, HEIGHT * FINE)
        distances[i] = [distance(font, digit) for digit in digits]
    np.savez_compressed(OUT, glyphs=glyphs, fonts=np.array(FONTS), distances=distances)
    print(f"wrote {OUT}: {len(FACES)} faces, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
