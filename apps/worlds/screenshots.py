"""Screenshots that worlds make: PNG, as far as its first bytes say."""

import struct
from typing import Final

_HEAD: Final = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
MOST_BYTES: Final = 4 * 2**20
MOST_PIXELS: Final = 8_192
"""Of a side."""


def read_png_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels; None for what is no PNG, or is larger than a screen's.

    Source:
        PNG (Third Edition), sections 5.2 and 11.2.1: signature, then IHDR, whose first fields are these.
    """
    if not data.startswith(_HEAD) or not len(_HEAD) + 8 <= len(data) <= MOST_BYTES:
        return None
    width, height = struct.unpack_from(">II", data, len(_HEAD))
    return (width, height) if 0 < width <= MOST_PIXELS and 0 < height <= MOST_PIXELS else None
