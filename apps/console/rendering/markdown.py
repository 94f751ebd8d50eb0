"""Markdown somebody or something wrote: parsed without HTML, then let through a list of tags.

Two walls: the parser makes text of every tag it reads, and the cleaner lets only the listed ones of the parser's own
pass. Links lead to http(s) and name their host, pictures never come from outside, headings do not enter the page's.
"""

import re
from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from apps.console.rendering.hidden import HIDDEN, visible
from apps.console.rendering.images import is_safe_image

TAGS = {
    "p", "br", "em", "strong", "s", "code", "pre", "blockquote", "hr", "ul", "ol", "li", "a", "img", "span",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
CLASSES = {"p": {"md-heading"}, "span": {"md-host", "md-image"}}
ATTRIBUTES = {"a": {"href"}, "img": {"src", "alt"}, "ol": {"start"}}
WEB = re.compile(r"https?://[^\s/?#]+", re.IGNORECASE)
MARKUP = re.compile(
    r"^ {0,3}(?:#{1,6} |[-*+] |\d{1,9}[.)] |> |```|~~~|\|.*\||(?:[-*_] *){3,}$)"
    r"|\*\*[^*\n]+\*\*|`[^`\n]+`|\[[^\]\[\n]{0,300}\]\(|</?https?:",
    re.MULTILINE,
)
TAG = re.compile(r"(<[^<>]*>)")


def looks_like_markdown(text: str) -> bool:
    """Whether showing it as markdown would look any different."""
    return MARKUP.search(text) is not None


def render_markdown(text: str) -> SafeString:
    """Clean HTML; the caller caps the text's length."""
    made = _PARSER.render(text.replace("\x00", "\u2400"))
    clean = nh3.clean(
        made,
        tags=TAGS,
        attributes=ATTRIBUTES,
        allowed_classes=CLASSES,
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "data"},
        link_rel="noopener noreferrer nofollow",
        clean_content_tags={"script", "style"},
    )
    if HIDDEN.search(clean):
        clean = "".join(_show_hidden(piece) for piece in TAG.split(clean))
    return mark_safe(clean)  # noqa: S308  (the cleaner's output)


def _show_hidden(piece: str) -> str:
    """Between two tags the cleaner leaves escaped text: its entities stay, what hides in it is shown."""
    if piece.startswith("<"):
        return piece
    return "".join(
        part if place % 2 else str(visible(part)) for place, part in enumerate(re.split(r"(&[a-zA-Z0-9#]+;)", piece))
    )


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    """No value holds an angle bracket, so that the clean HTML can be split at its tags."""
    if name == "href":
        return value.replace("<", "%3C").replace(">", "%3E") if WEB.match(value) else None
    if name == "alt":
        return value.replace("<", "").replace(">", "")
    if name == "src" and not is_safe_image(value):
        return None
    if name == "start" and not value.isdigit():
        return None
    return value


def _may_link(url: str) -> bool:
    return WEB.match(url) is not None or url.startswith("data:image/")


class _Renderer(RendererHTML):
    """markdown-it's, with our headings, links and pictures."""

    def heading_open(self, *_: Any) -> str:
        return '<p class="md-heading">'

    def heading_close(self, *_: Any) -> str:
        return "</p>"

    def fence(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return f"<pre><code>{escape(tokens[idx].content)}</code></pre>\n"

    def code_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return self.fence(tokens, idx)

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return f'<a href="{escape(tokens[idx].attrGet("href") or "")}">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """The host stands behind the words, which may promise another."""
        opening = next(token for token in reversed(tokens[:idx]) if token.type == "link_open")
        return f'</a> <span class="md-host">({escape(_find_host(str(opening.attrGet("href") or "")))})</span>'

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        token = tokens[idx]
        source = str(token.attrGet("src") or "")
        alt = escape(token.content[:200])
        if is_safe_image(source):
            return f'<img src="{source}" alt="{alt}">'
        host = _find_host(source)
        return f'<span class="md-image">Picture not shown: {alt}{f" ({escape(host)})" if host else ""}</span>'


def _find_host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "")[:100]
    except ValueError:
        return ""


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _may_link  # type: ignore[method-assign]  # the library's documented way
    return parser


_PARSER = _make_parser()
