"""Characters that hide or reorder what a person reads are shown as their names."""

import re
import unicodedata
from collections.abc import Iterator

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

# control characters but tab and line feed, soft hyphen, bidi marks and overrides, zero-width, filler and tag
# characters, and the variation selectors that can carry a message; U+FE0F and the joiners of emoji stay
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def visible(text: object) -> SafeString:
    """Escape text nobody here wrote, and show the characters in it that would hide or reorder what a person reads."""
    said = str(text).replace("\r\n", "\n")
    if HIDDEN.search(said) is None:
        return escape(said)
    return format_html_join("", "{}", ((part,) for part in mark_hidden(said)))


def mark_hidden(text: str) -> Iterator[str]:
    """The text in pieces: plain ones, which the caller escapes, and safe ones that name a hidden character."""
    last = 0
    for match in HIDDEN.finditer(text):
        yield text[last : match.start()]
        yield show_hidden(match[0])
        last = match.end()
    yield text[last:]


def show_hidden(character: str) -> SafeString:
    name = unicodedata.name(character, "control character").lower()
    return format_html('<span class="hidden-char" title="{}">{}</span>', name, f"U+{ord(character):04X}")
