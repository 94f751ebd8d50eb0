"""Pictures inside texts: only ones that stand whole in the text, of a kind a browser merely paints, and not huge."""

import base64
import binascii
import re
import struct

DATA_URL = re.compile(r"data:image/(png|jpeg|gif|webp);base64,([A-Za-z0-9+/]+={0,2})")
MAX_IMAGE_BYTES = 48 * 1024
MAX_SIDE = 4096
"""Pixels; a small file can otherwise unpack to gigabytes."""


def is_safe_image(url: str) -> bool:
    """Whether a data: URL is a raster image of the kind it says, with sides of at most `MAX_SIDE` pixels."""
    match = DATA_URL.fullmatch(url)
    if match is None or len(match[2]) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        return False
    try:
        data = base64.b64decode(match[2], validate=True)
        width, height = _READERS[match[1]](data)
    except (binascii.Error, struct.error, IndexError, ValueError):
        return False
    return 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE


def _read_png(data: bytes) -> tuple[int, int]:
    _require(data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _read_gif(data: bytes) -> tuple[int, int]:
    _require(data[:6] in {b"GIF87a", b"GIF89a"})
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _read_webp(data: bytes) -> tuple[int, int]:
    _require(data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    _require(kind == b"VP8 ")
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _read_jpeg(data: bytes) -> tuple[int, int]:
    """The sizes stand in the first "start of frame" segment."""
    _require(data.startswith(b"\xff\xd8\xff"))
    place = 2
    while data[place] == 0xFF:
        kind, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        if 0xC0 <= kind <= 0xCF and kind not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        _require(length >= 2)
        place += 2 + length
    raise ValueError("no frame")


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError("not what it says it is")


_READERS = {"png": _read_png, "gif": _read_gif, "webp": _read_webp, "jpeg": _read_jpeg}
