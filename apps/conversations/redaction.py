"""Finding personal data and secrets in texts, and masking them.

Numbers are checked by their own rules (an IBAN's remainder, a card's check digit, a phone number's plan), keys are
known by their form. Names are found only where they are known: a session's end user, the project's own list, and who
introduces themselves. See docs/guides/sessions.md for what is not found.

Every pattern here looks at a character a bounded number of times, whatever the text; the library's, and lists of names,
run in RE2, whose time grows with the text alone. A redactor looks through so many characters and so many places that
might be something, whoever made them up to be slow: a second or so in all, for a person may be waiting for it.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import re2
from stdnum import iban, luhn

_T = TypeVar("_T")
MOST_CHARS: Final = 1_000_000
"""Characters one redactor looks through in all; what comes behind them is masked whole, as UNREAD."""

MOST_PLACES: Final = 10_000
"""Places of what may be something that one redactor looks at; a text that holds more is masked whole, as UNREAD."""

_EMAIL: Final = re.compile(
    r"(?P<local>[\w.+-]{1,64})@(?P<host>[\w-]{1,63}(?:\.[\w-]{1,63}){0,8})\.(?P<end>[^\W\d_]{2,24})(?![\w-])(?P<path>:[\w/~.])?"
)
_LOCAL: Final = re.compile(r"[\w.+-]{1,64}\Z")
_NOBODY: Final = re.compile(r"git|(?:no|do[._-]?not)[._-]?reply|mailer-daemon|postmaster", re.IGNORECASE)
"""Who a mailbox without a person is."""
_EXAMPLES: Final = frozenset({"example.com", "example.org", "example.net"})
_NOT_TOP_LEVEL: Final = frozenset({
    "example", "test", "invalid", "local", "localhost",
    "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "py", "md", "json",
})  # fmt: skip
"""Ends of a host's name under which nobody has a mailbox, and of files."""
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{2,4}){3,8}\b", re.IGNORECASE)
_CARD: Final = re.compile(r"(?<![\w.])[2-6]\d{3}(?:[ -]?\d){9,15}(?![\w.]?\d)")
_IP: Final = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7})(?![\w:]|\.\d)", re.IGNORECASE
)
_BEFORE_A_VERSION: Final = re.compile(
    r"(?:\b(?:v|ver|versions?|release|build|chapter|section)[.:]?[ ]{0,3}|[=~<>!]=[ ]?|\^|\w/)$", re.IGNORECASE
)
_NOBODYS_NETWORKS: Final = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "224.0.0.0/3", "::/127", "fc00::/7", "fe80::/10", "ff00::/8",
    )
)  # fmt: skip
"""Addresses that lead to nobody from outside: private, local and group ones."""
_EVERYBODYS: Final = frozenset({"1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9"})
"""Name servers that stand in every manual."""
_PHONE: Final = re.compile(r"[+\uff0b][\d \u00a0().\-/]{5,40}")
_KEYWORD: Final = re.compile(
    r"(?P<word>pass(?:word|wd|phrase|code)|\bpass|pwd|secret|api[_-]?key|(?:auth|access|refresh)[_-]?token|private[_-]?key|bearer)"
    r"""(?:[_-]key)?["']?(?P<tie>[ \t]{0,3}(?:[:=]{1,2}|=>|\b(?:is|was)\b)[:=]?[ \t]{0,3}|[ \t]{1,3})"""
    r"""(?:(?P<quote>["'`])(?P<quoted>[^"'`\s]{6,200})(?P=quote)|(?P<bare>[^\s"'`,;]{8,200}))""",
    re.IGNORECASE,
)
_OWN_TOKEN: Final = re.compile(r"\btnt_[0-9A-Za-z]{4,40}_[0-9A-Za-z_-]{8,200}")
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_PRIVATE_KEY_END: Final = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_CODE: Final = re.compile(
    r"[$<{%\[(]|[A-Za-z_][\w.]{0,100}[(\[{]|[A-Za-z_]\w{0,60}(?:(?:\.|->|::)[A-Za-z_]\w{0,60}){1,8}[^\w]{0,5}\Z"
    r"|[A-Z][A-Z0-9]{0,30}(?:_[A-Z0-9]{1,30}){1,8}\Z|[a-z][a-z0-9+]{1,15}://|[./~]|-|(.)\1{3}"
)
"""A value that is read from elsewhere (a variable, a call, a path, an option), or stands for one."""
_INTRODUCES: Final = re.compile(
    r"\b(?:(?:[Mm]y name is|[Ii] am called)[ \t]{1,4}|(?P<speaks>[Tt]his is)[ \t]{1,4}"
    r"|(?:[Rr]egards|[Bb]est wishes|[Ss]incerely|[Yy]ours)(?:,\s{1,4}|[ \t]{0,4}\n?[ \t]{0,4})(?<=\s))"
    r"(?P<value>[A-Z][\w'-]{1,40}(?:[ ](?:[A-Z][\w'-]{1,40}|van|von|de|la|bin|al)){0,3})"
    r"(?P<then>,?[ ](?:from|speaking|here|calling|writing|again)\b)?"
)
_NO_NAMES: Final = frozenset({
    "team", "support", "service", "services", "staff", "customer", "sales", "truly", "faithfully", "sincerely", "yours",
    "your", "the", "department", "management", "admin", "administrator", "office", "everyone", "anonymous", "none",
})  # fmt: skip
"""Words that stand where a name would."""
_PLACEHOLDER: Final = re.compile(
    r"(?:(?:my|your|the|db|some|a)[_ -]?)?(?:pass(?:word|wd)?|pw|pwd|secret|changeme|token|key|x{3,20}|\*{3,20})"
    r"|(?:your|my|enter|insert|some|example|sample|dummy|fake|test)[_-][a-z_-]{1,60}",
    re.IGNORECASE,
)
"""What stands in examples where a secret would."""
_ENCODED: Final = re.compile(
    r"(?:base64|sha-?\d|md5|utf-?8|argon2|bcrypt|aes|rsa|hs\d|oauth|\d{1,3}[ -][a-z])", re.IGNORECASE
)
_SMALLEST_BEARER_CHARS: Final = 16
_MOST_LOCAL_CHARS: Final = 64
_MOST_CHECKED: Final = 500
"""Telephone numbers that one redactor looks up."""
_NOT_SECRETS: Final = frozenset(
    {"KeywordDetector", "HexHighEntropyString", "Base64HighEntropyString", "IPPublicDetector", "PrivateKeyDetector"}
)
_SMALLEST_NAME_CHARS: Final = 3
_NAMES_BYTES: Final = 64 * 2**20
"""What RE2 may use of memory for a project's names."""


class SensitiveSpan(NamedTuple):
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
    """Looks for what must not be stored for training; made for one piece of work, which holds the same texts often.

    Args:
        names: words to mask wherever they stand, in any case.
        is_on: False finds nothing.
    """

    def __init__(self, names: Iterable[str] = (), *, is_on: bool = True) -> None:
        self.is_on = is_on
        self._names = _make_names(
            frozenset(name.strip() for name in names if len(name.strip()) >= _SMALLEST_NAME_CHARS)
        )
        self._found: dict[str, Sequence[SensitiveSpan]] = {}
        self._left_chars, self._left_places, self._left_phones = MOST_CHARS, MOST_PLACES, _MOST_CHECKED

    def find(self, text: str) -> Sequence[SensitiveSpan]:
        """Everything found, by its place, not overlapping: of two that do the earlier, then the longer one."""
        if not self.is_on or not text:
            return ()
        if text not in self._found:
            self._found[text] = self._look_through(text)
        return self._found[text]

    def mask(self, text: str) -> Masked:
        """Put `[EMAIL]`, `[NAME]` and the like in the place of what is found."""
        pieces, end, counts = [], 0, dict[str, int]()
        for each in self.find(text):
            pieces += [text[end : each.start], f"[{each.what}]"]
            end = each.end
            counts[each.what] = counts.get(each.what, 0) + 1
        return Masked("".join([*pieces, text[end:]]), counts)

    def mask_texts(self, value: Any) -> Any:
        """A JSON value with all its texts masked, keys aside."""
        if isinstance(value, str):
            return self.mask(value).text
        if isinstance(value, Mapping):
            return {key: self.mask_texts(each) for key, each in value.items()}
        return [self.mask_texts(each) for each in value] if isinstance(value, Sequence) else value

    def kinds_in(self, values: Iterable[Any]) -> set[str]:
        """What the texts anywhere in JSON values hold."""
        return {each.what for value in values for text in iterate_texts(value) for each in self.find(text)}

    def names_in(self, values: Iterable[Any]) -> set[str]:
        """NAME where a known name stands in JSON values that are otherwise nobody's: what an agent says every time."""
        if not self.is_on or self._names is None:
            return set()
        return {"NAME" for value in values for text in iterate_texts(value) if any(self._names.find(text))}

    def _look_through(self, text: str) -> Sequence[SensitiveSpan]:
        read = text[: self._left_chars]
        self._left_chars -= len(read)
        found: list[SensitiveSpan] = []
        try:
            for each in sorted(self._find_all(read), key=lambda one: (one.start, -one.end)):
                if not found or each.start >= found[-1].end:
                    found.append(each)
        except _CrowdedError:
            return [SensitiveSpan(0, len(text), "UNREAD")]
        if len(read) < len(text):
            found.append(SensitiveSpan(len(read), len(text), "UNREAD"))
        return found

    def _count(self, places: Iterable[_T]) -> Iterator[_T]:
        for place in places:
            self._left_places -= 1
            if self._left_places < 0:
                raise _CrowdedError
            yield place

    def _find_all(self, text: str) -> Iterator[SensitiveSpan]:
        count = self._count
        yield from (SensitiveSpan(*one.span(), "EMAIL") for one in _find_mailboxes(text, count) if _is_mailbox(one))
        for match in count(_IBAN.finditer(text)):
            if (size := _fit_iban(match[0])) is not None:
                yield SensitiveSpan(match.start(), match.start() + size, "IBAN")
        yield from (SensitiveSpan(*one.span(), "CARD") for one in count(_CARD.finditer(text)) if _is_card(one[0]))
        yield from (SensitiveSpan(*one.span(), "IP") for one in count(_IP.finditer(text)) if _is_somebodys(one))
        yield from self._find_phones(text)
        yield from _find_secrets(text, count)
        for match in count(_INTRODUCES.finditer(text)):
            is_named = match["speaks"] is None or match["then"] is not None
            if is_named and match["value"].split(" ")[0].lower() not in _NO_NAMES:
                yield SensitiveSpan(*match.span("value"), "NAME")
        if self._names is not None:
            yield from (SensitiveSpan(*span, "NAME") for span in count(self._names.find(text)))

    def _find_phones(self, text: str) -> Iterator[SensitiveSpan]:
        """Numbers with a country's code that its plan allows; among very many all that look like one."""
        import phonenumbers  # fifty modules, read by whoever first redacts

        for match in self._count(_PHONE.finditer(text)):
            if not self._left_phones:
                yield SensitiveSpan(*match.span(), "PHONE")
                continue
            self._left_phones -= 1
            for phone in phonenumbers.PhoneNumberMatcher(match[0], None):
                yield SensitiveSpan(match.start() + phone.start, match.start() + phone.end, "PHONE")


class _CrowdedError(Exception):
    """A text holds more than is looked at."""


class _Count(Protocol):
    """Hands places on, as long as there may be more."""

    def __call__(self, places: Iterable[_T], /) -> Iterator[_T]: ...


@dataclass(frozen=True)
class _Names:
    """Known names, found whole and in any case: RE2 says where one begins, the pattern which it is."""

    begins: Any
    whole: re.Pattern[str]

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for place in self.begins.finditer(text):
            start, end = place.span(1)
            if found := self.whole.match(text, start):
                yield found.span()
            else:  # what is within a name that goes on as another word
                yield from (one.span() for one in self.whole.finditer(text, start + 1, end))


@lru_cache(64)
def _make_names(names: frozenset[str]) -> _Names | None:
    if not names:
        return None
    joined = "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = _NAMES_BYTES
    plain = "|".join(re2.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    begins = re2.compile(rf"(?:^|[^\pL\pN_])({plain})", options)
    return _Names(begins, re.compile(rf"(?<!\w)(?:{joined})(?!\w)", re.IGNORECASE))


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


def _is_mailbox(found: re.Match[str]) -> bool:
    """Whether a person may read what is sent there: no robot's address, place to copy to, picture or example."""
    host = found["host"].lower()
    end = found["end"].lower()
    is_reserved = f"{host}.{end}" in _EXAMPLES or end in _NOT_TOP_LEVEL
    return found["path"] is None and not is_reserved and _NOBODY.match(found["local"]) is None


def _find_mailboxes(text: str, count: _Count) -> Iterator[re.Match[str]]:
    """Looked for around each @ alone."""
    start = 0
    for at in count(_find_ats(text)):
        local = _LOCAL.search(text, max(start, at - _MOST_LOCAL_CHARS), at) if at >= start else None
        found = _EMAIL.match(text, local.start()) if local is not None else None
        start = max(start, at + 1)
        if found is not None:
            yield found
            start = found.end()


def _find_ats(text: str) -> Iterator[int]:
    at = text.find("@")
    while at >= 0:
        yield at
        at = text.find("@", at + 1)


def _find_secrets(text: str, count: _Count) -> Iterator[SensitiveSpan]:
    yield from count(_find_private_keys(text))
    yield from (SensitiveSpan(*match.span(), "SECRET") for match in count(_OWN_TOKEN.finditer(text)))
    for match in count(_KEYWORD.finditer(text)):
        if _is_secret(match):
            name = "quoted" if match["quoted"] else "bare"
            yield SensitiveSpan(match.start(name), match.end(name), "SECRET")
    for pattern in secret_patterns():
        for key in count(pattern.finditer(text)):
            is_login = key[0].startswith("://")
            if key[0].strip() and not (is_login and (_PLACEHOLDER.fullmatch(key[1]) or _CODE.match(key[1]))):
                yield SensitiveSpan(key.start(), key.end(), "SECRET")


def _find_private_keys(text: str) -> Iterator[SensitiveSpan]:
    begin = _PRIVATE_KEY.search(text)
    while begin is not None:
        end = _PRIVATE_KEY_END.search(text, begin.end())
        yield SensitiveSpan(begin.start(), end.end() if end else len(text), "SECRET")
        begin = _PRIVATE_KEY.search(text, end.end()) if end else None


def _is_secret(found: re.Match[str]) -> bool:
    """Whether what stands behind a word such as "password" is one, and not a name, a call, a path or more prose."""
    word, tie = found["word"].lower(), found["tie"].strip(" \t").lower()
    value = found["quoted"] or found["bare"]
    if _CODE.match(value) or _PLACEHOLDER.fullmatch(value):
        return False
    has_digit = any(char.isdigit() for char in value)
    is_mixed = has_digit and any(char.isalpha() for char in value)
    if word == "bearer":
        return is_mixed and len(value) >= _SMALLEST_BEARER_CHARS
    if not tie:
        return is_mixed and word.startswith("passw") and _ENCODED.match(value) is None
    if tie in {"is", "was"}:
        return is_mixed and _ENCODED.match(value) is None
    marks = "-!@#$%^&*+" if found["quoted"] else "!@#$%^&*+"
    return has_digit or any(char in marks for char in value)


@cache
def secret_patterns() -> Sequence[Any]:
    """How keys of known services look, by detect-secrets, for RE2; one it cannot read raises."""
    # here, not above: it loads an HTTP client of its own
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    known: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    plugins = [plugin() for plugin in known.values()]
    wanted = [plugin for plugin in plugins if type(plugin).__name__ not in _NOT_SECRETS]
    return tuple(re2.compile(_translate(pattern)) for plugin in wanted for pattern in plugin.denylist)


def _translate(pattern: re.Pattern[str]) -> str:
    """A pattern of detect-secrets as RE2 reads it: it does not look around, so a match may begin a character sooner,
    and what goes on behind its greatest length is a match as well."""
    words = pattern.pattern.replace(r"(?:(?<=\W)|(?<=^))", r"(?:\W|^)").replace("{50,1024}", "{50,1000}")
    for behind in (r"(?!\w)", r"(?![a-zA-Z0-9_\-])", r"(?![a-f0-9])"):
        words = words.replace(behind, "")
    return f"(?i:{words})" if pattern.flags & re.IGNORECASE else words


def _fit_iban(text: str) -> int | None:
    """How many characters of the text are an IBAN: words behind one may look like a part of it."""
    front = behind = ""
    rest, sizes = 0, []
    for place, char in enumerate(text):
        if not (char.isalnum() and char.isascii()):
            continue
        if len(front) < 4:
            front += char
            behind += str(int(char, 36))
            continue
        value = int(char, 36)
        rest = (rest * (100 if value > 9 else 10) + value) % 97
        if place >= 14 and (rest * 10 ** len(behind) + int(behind)) % 97 == 1:
            sizes.append(place + 1)
    return next((size for size in reversed(sizes) if iban.is_valid(text[:size])), None)


def _is_card(text: str) -> bool:
    return luhn.is_valid(re.sub(r"\D", "", text)) and len(set(text)) > 2


def _is_somebodys(found: re.Match[str]) -> bool:
    """Whether it is an address that leads to somebody, and no version."""
    try:
        address = ipaddress.ip_address(found[0])
    except ValueError:
        return False
    if any(address in network for network in _NOBODYS_NETWORKS) or found[0] in _EVERYBODYS:
        return False
    return _BEFORE_A_VERSION.search(found.string, max(0, found.start() - 12), found.start()) is None
