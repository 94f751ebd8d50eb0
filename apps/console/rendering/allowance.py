"""How much of other people's text one page shows at once; the rest is behind a link to the same page's next part."""

from typing import NamedTuple

from django.http import HttpRequest, QueryDict

from tentalis.limits import LIMITS

MOST_ON_A_PAGE = LIMITS.page_chars
"""Characters of text in one part of a page."""
MOST_MARKDOWN_ON_A_PAGE = LIMITS.page_markdown_chars
"""Characters of one part that are also shown as markdown: to parse them may take seconds."""
ALWAYS_SHOWN = 200
"""A text of so few characters is shown in every part."""
PARAMETER = "words"


class TextShare(NamedTuple):
    """What one text may have of its page.

    Attributes:
        part: which part of the page shows it; is_shown: whether that is the part asked for.
        may_mark_up: whether it may be shown as markdown as well.
    """

    part: int
    is_shown: bool
    may_mark_up: bool


class PageAllowance:
    """Deals out a page's characters to its texts, in the order in which the page shows them."""

    def __init__(self, part: int) -> None:
        self.part = part
        self._chars = 0
        self._markdown_chars = 0

    def take(self, chars: int, *, has_markup: bool = False) -> TextShare:
        part = self._chars // MOST_ON_A_PAGE + 1
        self._chars += min(chars, MOST_ON_A_PAGE)
        if part != self.part:
            return TextShare(part, is_shown=chars <= ALWAYS_SHOWN, may_mark_up=False)
        may_mark_up = has_markup and self._markdown_chars + chars <= MOST_MARKDOWN_ON_A_PAGE
        self._markdown_chars += chars if may_mark_up else 0
        return TextShare(part, is_shown=True, may_mark_up=may_mark_up)


def allowance_of(request: HttpRequest | None) -> PageAllowance:
    """The one of the page that is being made; without a page one for this text alone."""
    if request is None:
        return PageAllowance(1)
    found = request.__dict__.get("text_allowance")
    if not isinstance(found, PageAllowance):
        asked = request.GET.get(PARAMETER, "")
        found = PageAllowance(int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 7 else 1)
        request.__dict__["text_allowance"] = found
    return found


def link_to_part(request: HttpRequest | None, part: int) -> str:
    """The page's own address with another part of its texts."""
    query = request.GET.copy() if request is not None else QueryDict(mutable=True)
    query[PARAMETER] = str(part)
    return f"?{query.urlencode()}"
