"""Secrets kept out of the logs, whoever wrote them there: messages, arguments and tracebacks alike."""

import logging
import re

HIDDEN = "…"
_NAMED = re.compile(
    r"""(?ix)
    (?P<name> \b (?: (?:proxy-)?authorization | x-api-key | (?:\w+_)?api[_-]?key | password | secret(?:_key)? ) )
    (?P<sign> ["']? \s* [:=,] \s* (?: [bu](?=["']) )? ["']? )
    (?: (?:bearer|basic) \s+ )?
    [^\s"',;)}\]]+"""
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{8,}")
_PREFIXED = re.compile(
    r"\b((?:sk|rk|pk|gsk|xai|csk|fw|tgp|hf|nvapi|tml|tnt|whsec)[-_](?:[a-z]+[-_])?|AIza)[A-Za-z0-9_=-]{12,}"
)
_USER = re.compile(r"(://[^/\s:@]+:)[^/\s@]+@")


def redact(text: str) -> str:
    """A text with what looks like a key, token or password cut down to its name or first letters."""
    text = _NAMED.sub(rf"\g<name>\g<sign>{HIDDEN}", text)
    text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
    text = _PREFIXED.sub(rf"\g<1>{HIDDEN}", text)
    return _USER.sub(rf"\g<1>{HIDDEN}@", text)


class RedactingFormatter(logging.Formatter):
    """Formats as usual and redacts the result, tracebacks included; a line stays one line."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))
