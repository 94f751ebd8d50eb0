"""Pictures in messages: their bytes stay in Arrow files, and a message names a place in one.

What is sent to a model holds them as data URLs; what is stored of it names them still.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from django.conf import settings

from apps.base.kept_files import keep_file
from apps.inference.errors import ProviderRefusedError

DIRECTORY = "pictures"
SCHEME: Final = "tentalis-picture:"
MOST_BYTES: Final = 10 * 2**20
"""Of a picture."""
KINDS: Final[Mapping[bytes, str]] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""How a file of a kind begins."""


def read_picture(value: Any) -> bytes:
    """A picture as rows hold it: bytes, an object with bytes (as the `datasets` library writes it), or a data URL.

    Raises:
        ValueError: it is none, of a kind that models do not take, or too large.
    """
    found = value.get("bytes") if isinstance(value, Mapping) else value
    if isinstance(found, str) and found.startswith("data:"):
        try:
            found = base64.b64decode(found.partition(",")[2], validate=True)
        except (binascii.Error, ValueError):
            found = None
    if not isinstance(found, bytes | bytearray):
        raise ValueError(f"wanted the bytes of a picture, found {type(found).__name__}")
    if len(found) > MOST_BYTES:
        raise ValueError(f"wanted a picture of at most {MOST_BYTES:,} bytes, found {len(found):,}")
    _find_kind(bytes(found))
    return bytes(found)


def _find_kind(data: bytes) -> str:
    for beginning, kind in KINDS.items():
        if data.startswith(beginning):
            return kind
    raise ValueError(f"wanted a PNG, JPEG, GIF or WebP, found {data[:8]!r}")


def keep_pictures(pictures: Sequence[bytes]) -> str:
    """Write them into a file that is named by its content. The very same is written once.

    Returns:
        Its name; the n-th is at `name/n`.
    """
    import pyarrow as pa  # a tenth of a second, and few who speak with a model show it pictures

    table = pa.table({"bytes": pa.array(pictures, pa.large_binary())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    name = hashlib.sha256(data).hexdigest()
    keep_file(settings.ARTIFACTS / DIRECTORY / f"{name}.arrow", data)
    return name


def point_to(name: str, place: int) -> dict[str, Any]:
    """The part of a message that shows a kept picture."""
    return {"type": "image_url", "image_url": {"url": f"{SCHEME}{name}/{place}"}}


def show_pictures(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Messages with each kept picture in its place, as a data URL; those without one as they are.

    Raises:
        ProviderRefusedError: the file is gone.
    """
    if not any(isinstance(one.get("content"), list) for one in messages):
        return messages
    return [
        {**one, "content": [_show(part) for part in one["content"]]} if isinstance(one.get("content"), list) else one
        for one in messages
    ]


def _find_address(part: Any) -> tuple[str, str] | None:
    """The file and the place in it of the kept picture that a part of a message shows; None where it shows none."""
    shown = part.get("image_url") if isinstance(part, Mapping) else None
    address = shown.get("url") if isinstance(shown, Mapping) else None
    if not isinstance(address, str) or not address.startswith(SCHEME):
        return None
    name, _, place = address.removeprefix(SCHEME).partition("/")
    return name, place


def _show(part: Any) -> Any:
    if (address := _find_address(part)) is None:
        return part
    data = read_kept(*address)
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{_find_kind(data)};base64,{base64.b64encode(data).decode()}"},
    }


def read_kept(name: str, place: str) -> bytes:
    """The bytes of a kept picture. Raises ProviderRefusedError."""
    import pyarrow as pa

    try:
        found: bytes = _open(name).column("bytes")[int(place)].as_py()
    except (OSError, IndexError, ValueError, pa.ArrowException) as error:
        raise ProviderRefusedError(f"picture {place:.20} of {name:.80} cannot be read: {error}"[:300]) from None
    return found


@lru_cache(maxsize=8)
def _open(name: str) -> Any:
    import pyarrow as pa

    if not name.isalnum():
        raise OSError(f"wanted a file of pictures, found {name!r:.80}")
    return pa.ipc.open_file(pa.memory_map(str(settings.ARTIFACTS / DIRECTORY / f"{name}.arrow"))).read_all()


def name_kept(messages: Sequence[Mapping[str, Any]]) -> str:
    """The file that pictures of messages are in; "" where they show none."""
    for one in messages:
        content = one.get("content")
        for part in content if isinstance(content, list) else ():
            if (address := _find_address(part)) is not None:
                return address[0]
    return ""
