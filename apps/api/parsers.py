"""Reading a JSON body: bounded in size and depth, without the spellings that programs read differently."""

import json
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from apps.api.problems import BodyTooLargeError
from tentalis.limits import LIMITS

MAX_BYTES = LIMITS.web_body_bytes
MAX_DEPTH = LIMITS.web_json_depth
MOST_NUMBER = min(2**63, 10**LIMITS.number_digits)


class StrictJSONParser(BaseParser):
    """RFC 8259, no more: no NaN, no key twice, no NUL and no half of a surrogate pair in a text."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise BodyTooLargeError(f"wanted a body of at most {MAX_BYTES} bytes, found more")
        try:
            value = json.loads(body.decode("utf-8"), object_pairs_hook=_refuse_doubles, parse_constant=_refuse_constant)
        except UnicodeDecodeError:
            raise ParseError("wanted UTF-8, found other bytes") from None
        except RecursionError:
            raise ParseError(f"wanted at most {MAX_DEPTH} levels, found more") from None
        except ValueError as error:
            raise ParseError(f"wanted JSON: {error}") from None
        check_texts(value)
        return value


def check_texts(value: Any, depth: int = 0) -> None:
    """Raise ParseError for a value that is too deep, or holds a text the database cannot store."""
    if depth > MAX_DEPTH:
        raise ParseError(f"wanted at most {MAX_DEPTH} levels, found more")
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= sign <= "\udfff" for sign in value if sign >= "\ud800"):
            raise ParseError("texts may hold no NUL character and no half of a surrogate pair")
    elif isinstance(value, list):
        for item in value:
            check_texts(item, depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            check_texts(name, depth + 1)
            check_texts(item, depth + 1)
    elif isinstance(value, int) and abs(value) >= MOST_NUMBER:
        raise ParseError("whole numbers must fit in 64 bits")


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ParseError(f"the name {name[:200]!r} stands twice")
            seen.add(name)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError(f"wanted JSON, found {name}")
