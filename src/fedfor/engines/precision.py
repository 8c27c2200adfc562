"""How the vector engine computes."""

from typing import Literal

Precision = Literal["fp32", "tf32", "bf16"]
"""What convolutions and products are computed in. The weights themselves are never rounded."""

Compile = Literal["auto", "always", "never"]
""""auto": where a run on a GPU is long enough to earn back the time that compiling takes."""
