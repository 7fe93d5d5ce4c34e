"""Pictures drawn from a key instead of read from a file: dots in nine cells, or a chart of three bars.

The key determines the picture, so a row only names it. Not covered:
the questions about them (examples/tiny/problems/pictures.py).
"""

import numpy as np
from PIL import Image

SCHEME = "tiny-picture:"
"""Prefix of a reference to such a picture; its key follows."""

SIDE, CELL = 3, 8
"""Cells a side, pixels a cell: a picture has 24 × 24 pixels."""
COLOURS = {"r": (214, 48, 40), "b": (40, 84, 214)}
BAR = (52, 130, 76)
TALLEST = 2 * SIDE
"""Heights of a chart's bars are half cells."""


def draw(key: str) -> Image.Image:
    """The RGB picture of a key (what follows SCHEME in a reference). Raises ValueError for an invalid key."""
    shown, _, look = key.partition("-")
    if not look.isdigit() or not (_is_chart(shown) or (len(shown) == SIDE**2 and set(shown) <= set("rb."))):
        raise ValueError(f"{key!r} is no key of a tiny picture")
    rng = np.random.default_rng(int(look))
    size = SIDE * CELL
    canvas = np.full((size, size, 3), 244 + rng.integers(-8, 9), dtype=np.int64)
    for place, sign in enumerate(shown):
        shade = rng.integers(-24, 25, 3)
        if _is_chart(shown):
            left, top = place * CELL + 2, size - int(sign) * CELL // 2
            canvas[top:, left : left + CELL - 3] = np.array(BAR) + shade
            continue
        height, width = rng.integers(4, 7, 2)
        down, right = rng.integers(0, CELL + 1 - height), rng.integers(0, CELL + 1 - width)
        if sign != ".":
            row, column = (place // SIDE) * CELL + down, (place % SIDE) * CELL + right
            canvas[row : row + height, column : column + width] = np.array(COLOURS[sign]) + shade
    return Image.fromarray(canvas.clip(0, 255).astype(np.uint8))


def _is_chart(shown: str) -> bool:
    return len(shown) == SIDE and shown.isdigit() and set(shown) <= set("123456")
