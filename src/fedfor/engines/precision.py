from typing import Literal

Precision = Literal["fp32", "tf32", "bf16"]
"""What convolutions and products are computed in. The weights themselves are never rounded."""
