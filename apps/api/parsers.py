"""Reading a JSON body: bounded in size and depth, without the spellings that programs read differently."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from apps.api.problems import BodyTooLargeError
from apps.base.web_json import read_web_json
from tentalis.core.strict_json import StrictJsonError
from tentalis.limits import LIMITS

MAX_WEB_BODY_BYTES = LIMITS.web_body_bytes


class StrictJSONParser(BaseParser):
    """RFC 8259, no more: see `tentalis.core.strict_json`."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(MAX_WEB_BODY_BYTES + 1)
        if len(body) > MAX_WEB_BODY_BYTES:
            raise BodyTooLargeError(f"wanted a body of at most {MAX_WEB_BODY_BYTES} bytes, found more")
        try:
            return read_web_json(body.decode("utf-8"))
        except UnicodeDecodeError:
            raise ParseError("wanted UTF-8, found other bytes") from None
        except StrictJsonError as error:
            raise ParseError(str(error)) from None
