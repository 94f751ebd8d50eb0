"""Entity tags: an answer that did not change is not sent again, and a change is made to what was seen or not at all."""

import hashlib
from typing import Any

from rest_framework.renderers import JSONRenderer

from apps.base.errors import TentalisError

ANY = "*"


class ChangedMeanwhileError(TentalisError):
    """The thing is not any more what the caller saw."""

    status = 412
    code = "changed_meanwhile"
    is_final = True


def make_etag(data: Any) -> str:
    """A strong tag of a representation."""
    return f'"{hashlib.sha256(JSONRenderer().render(data)).hexdigest()[:32]}"'


def is_among(etag: str, header: str | None) -> bool:
    """Whether a tag is one of those of If-Match or If-None-Match."""
    if header is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return etag in tags or ANY in tags
