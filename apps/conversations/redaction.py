"""Finding personal data and secrets in texts, and masking them.

Numbers are checked by their own rules (an IBAN's remainder, a card's check digit, a phone number's plan), keys are
known by their form. Names are found only where they are known: a session's end user, the project's own list, and who
introduces themselves. See docs/guides/sessions.md for what is not found.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import phonenumbers
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from stdnum import iban, luhn

_EMAIL: Final = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+", re.UNICODE)
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{2,4}){3,8}\b", re.IGNORECASE)
_CARD: Final = re.compile(r"(?<![\w.])\d(?:[ -]?\d){12,18}(?![\w.]?\d)")
_IP: Final = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7})(?![\w:])", re.IGNORECASE
)
_KEYWORD: Final = re.compile(
    r"(?:pass(?:word|wd|phrase)?|secret|api[_-]?key|auth[_-]?token|access[_-]?token|private[_-]?key|bearer)"
    r"""["']?\s*(?:[:=]|\bis\b)?\s*["']?(?P<value>(?=[^\s"']*[\d_\-])[^\s"',;]{8,})""",
    re.IGNORECASE,
)
_OWN_TOKEN: Final = re.compile(r"\btnt_[0-9A-Za-z]{4,}_[0-9A-Za-z_-]{8,}")
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_INTRODUCES: Final = re.compile(
    r"\b(?:(?:[Mm]y name is|[Ii] am called|[Tt]his is)[ \t]+"
    r"|(?:[Rr]egards|[Bb]est wishes|[Ss]incerely|[Yy]ours)(?:,\s+|[ \t]*\n?[ \t]*)(?<=\s))"
    r"(?P<value>[A-Z][\w'-]+(?:[ ](?:[A-Z][\w'-]+|van|von|de|la|bin|al)){0,3})"
)
_NOT_SECRETS: Final = frozenset(
    {"KeywordDetector", "HexHighEntropyString", "Base64HighEntropyString", "IPPublicDetector", "PrivateKeyDetector"}
)
_SMALLEST_NAME_CHARS: Final = 3


class Found(NamedTuple):
    """A stretch [start, end) of a text, and what it holds."""

    start: int
    end: int
    what: str


@dataclass(frozen=True)
class Masked:
    """A text without what was found in it; `found`: how often, by kind."""

    text: str
    found: Mapping[str, int]


class Redactor:
    """Looks for what must not be stored for training.

    Args:
        names: words to mask wherever they stand, in any case.
        is_on: False finds nothing.
    """

    def __init__(self, names: Iterable[str] = (), *, is_on: bool = True) -> None:
        self.is_on = is_on
        known = sorted({name.strip() for name in names if len(name.strip()) >= _SMALLEST_NAME_CHARS}, key=len)
        joined = "|".join(re.escape(name) for name in reversed(known))
        self._names = re.compile(rf"(?<!\w)(?:{joined})(?!\w)", re.IGNORECASE) if joined else None
        self._known: dict[str, list[Found]] = {}

    def find(self, text: str) -> list[Found]:
        """Everything found, by its place, not overlapping: of two that do the earlier, then the longer one."""
        if not self.is_on or not text:
            return []
        if text in self._known:
            return self._known[text]
        found: list[Found] = []
        for each in sorted(self._find_all(text), key=lambda one: (one.start, -one.end)):
            if not found or each.start >= found[-1].end:
                found.append(each)
        self._known[text] = found
        return found

    def mask(self, text: str) -> Masked:
        """Put `[EMAIL]`, `[NAME]` and the like in the place of what is found."""
        pieces, end, counts = [], 0, dict[str, int]()
        for each in self.find(text):
            pieces += [text[end : each.start], f"[{each.what}]"]
            end = each.end
            counts[each.what] = counts.get(each.what, 0) + 1
        return Masked("".join([*pieces, text[end:]]), counts)

    def kinds_in(self, values: Iterable[Any]) -> set[str]:
        """What the texts anywhere in JSON values hold."""
        return {each.what for value in values for text in iterate_texts(value) for each in self.find(text)}

    def _find_all(self, text: str) -> Iterator[Found]:
        if "@" in text:
            yield from (Found(*match.span(), "EMAIL") for match in _EMAIL.finditer(text))
        for match in _IBAN.finditer(text):
            if (size := _fit_iban(match[0])) is not None:
                yield Found(match.start(), match.start() + size, "IBAN")
        yield from (Found(*one.span(), "CARD") for one in _CARD.finditer(text) if _is_card(one[0]))
        yield from (Found(*one.span(), "IP") for one in _IP.finditer(text) if _is_ip(one[0]))
        if any(char.isdigit() for char in text):
            for phone in phonenumbers.PhoneNumberMatcher(text, None):
                yield Found(phone.start, phone.end, "PHONE")
        yield from _find_secrets(text)
        for match in _INTRODUCES.finditer(text):
            yield Found(*match.span("value"), "NAME")
        if self._names is not None:
            yield from (Found(*match.span(), "NAME") for match in self._names.finditer(text))


def iterate_texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from iterate_texts(each)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for each in value:
            yield from iterate_texts(each)


def _find_secrets(text: str) -> Iterator[Found]:
    yield from (Found(*match.span(), "SECRET") for match in _PRIVATE_KEY.finditer(text))
    yield from (Found(*match.span(), "SECRET") for match in _OWN_TOKEN.finditer(text))
    yield from (Found(*match.span("value"), "SECRET") for match in _KEYWORD.finditer(text))
    for pattern in _secret_patterns():
        yield from (Found(*match.span(), "SECRET") for match in pattern.finditer(text) if match[0].strip())


@cache
def _secret_patterns() -> tuple[re.Pattern[str], ...]:
    """How keys of known services look, by detect-secrets."""
    known: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    plugins = [plugin() for plugin in known.values()]
    wanted = [plugin for plugin in plugins if type(plugin).__name__ not in _NOT_SECRETS]
    return tuple(pattern for plugin in wanted for pattern in plugin.denylist)


def _fit_iban(text: str) -> int | None:
    """How many characters of the text are an IBAN: words behind one may look like a part of it."""
    for size in range(len(text), 14, -1):
        if text[size - 1].isalnum() and iban.is_valid(text[:size]):
            return size
    return None


def _is_card(text: str) -> bool:
    return luhn.is_valid(re.sub(r"\D", "", text)) and len(set(text)) > 2


def _is_ip(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)
