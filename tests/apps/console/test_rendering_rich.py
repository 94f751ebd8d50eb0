"""Markdown, terminal colours, diffs, pictures and marks: what a reader gains, and that nothing else comes through."""

import base64
import re
import struct
import time
import zlib
from collections.abc import Callable
from html import unescape

import pytest
from django.utils.html import strip_tags
from hypothesis import given
from hypothesis import strategies as st

from apps.console.rendering import (
    MOST,
    Mark,
    diff_lines,
    diff_words,
    render_ansi,
    render_markdown,
    render_marked,
    render_rich,
    visible,
)
from apps.console.rendering.diffs import MOST_LINES
from apps.console.rendering.images import is_safe_image
from tests.e2e.payloads import PAYLOADS

TAG = re.compile(r"<(/?[a-z]+)((?: [a-z-]+=\"[^\"<>]*\")*)(?: ?/)?>")
KNOWN = {
    "p", "br", "em", "strong", "s", "code", "pre", "blockquote", "hr", "ul", "ol", "li", "a", "img", "span",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
KNOWN_ATTRIBUTES = {"href", "rel", "src", "alt", "start", "class", "title"}


def make_png(width: int, height: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 4)) + chunk(b"IEND", b"")
    )
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def require_clean(html: str) -> None:
    """Only tags and attributes of the list; outside of them no angle bracket is left."""
    for name, attributes in TAG.findall(html):
        assert name.strip("/") in KNOWN, html
        assert set(re.findall(r" ([a-z-]+)=", attributes)) <= KNOWN_ATTRIBUTES, html
        for url in re.findall(r' (?:href|src)="([^"]*)"', attributes):
            assert url.startswith(("https://", "http://", "HTTPS://", "data:image/png;base64,")), html
    assert not re.search(r"[<>]", TAG.sub("", html)), html


@pytest.mark.parametrize(
    "show", [visible, render_ansi, render_markdown, lambda payload: diff_words(payload, payload[::-1])]
)
def test_no_payload_leaves_the_list_in_any_way_of_showing_it(show: Callable[[str], str]) -> None:
    for payload in PAYLOADS:
        html = str(show(payload))
        require_clean(html.replace("<ins>", "").replace("</ins>", "").replace("<del>", "").replace("</del>", ""))


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_any_text_shown_as_it_is_can_be_read_back(text: str) -> None:
    shown = unescape(
        re.sub(r'<span class="hidden-char" title="[^"]*">U\+([0-9A-F]+)</span>', "\x00\\1\x00", str(visible(text)))
    )
    back = re.sub("\x00([0-9A-F]+)\x00", lambda match: chr(int(match[1], 16)), shown)
    assert back == text.replace("\r\n", "\n")


@given(st.text(alphabet='<>"&*_`[]()!#-| \n\u202e\x1bahref:/=;m0', max_size=120))
def test_markdown_of_any_text_is_clean(text: str) -> None:
    require_clean(str(render_markdown(text)))


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# Big", '<p class="md-heading">Big</p>'),
        ("**bold** `code`", "<p><strong>bold</strong> <code>code</code></p>"),
        (
            "[docs](https://a.example/x)",
            '<p><a href="https://a.example/x" rel="noopener noreferrer nofollow">docs</a>'
            ' <span class="md-host">(a.example)</span></p>',
        ),
        ("[own](/p/desk/)", "<p>[own](/p/desk/)</p>"),
        ("![cat](https://a.example/c.png)", '<p><span class="md-image">Picture not shown: cat (a.example)</span></p>'),
        ("a\u202eb", '<p>a<span class="hidden-char" title="right-to-left override">U+202E</span>b</p>'),
        ("a &amp; b\u202e", '<p>a &amp; b<span class="hidden-char" title="right-to-left override">U+202E</span></p>'),
    ],
    ids=["heading", "inline", "link", "own link", "picture", "hidden", "entity"],
)
def test_markdown_shows_what_people_write_and_names_where_links_lead(text: str, html: str) -> None:
    assert str(render_markdown(text)).strip() == html


def test_a_picture_inside_the_text_is_shown_and_one_that_lies_about_itself_is_not() -> None:
    png = make_png(2, 2)
    assert f'<img src="{png}"' in render_markdown(f"![dot]({png})")
    assert is_safe_image(png)
    assert not is_safe_image(png.replace("image/png", "image/gif"))
    assert not is_safe_image(make_png(50_000, 50_000))
    assert not is_safe_image("data:image/svg+xml;base64,PHN2Zz4=")
    assert not is_safe_image("data:image/png;base64," + "A" * 100_000)
    assert "<img" in render_rich(png).as_text


@pytest.mark.parametrize(
    ("text", "classes", "words"),
    [
        ("\x1b[31mred\x1b[0m plain", ["ansi-red"], "red plain"),
        ("\x1b[1;4;92mx", ["ansi-bold ansi-underline ansi-green"], "x"),
        ("\x1b[38;5;196mx\x1b[39;44my", ["ansi-red", "ansi-on-blue"], "xy"),
        ("\x1b[48;2;250;250;0mx", ["ansi-on-yellow"], "x"),
        ("\x1b[1mb\x1b[22mp", ["ansi-bold"], "bp"),
        ("\x1b[99mx", [], "x"),
    ],
)
def test_colours_of_a_terminal_become_classes(text: str, classes: list[str], words: str) -> None:
    html = str(render_ansi(text))
    assert re.findall(r'class="([^"]+)"', html) == classes
    assert strip_tags(html) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]8;;https://evil.example\x07here\x1b]8;;\x07", "ESC]8;;https://evil.examplehereESC]8;;"),
        ("\x1b]52;c;cm0=\x07", "ESC]52;c;cm0="),
        ("\x1b[2J", "ESC[2J"),
        ("\x1b]0;" + "t" * 300 + "\x07", "ESC]0;" + "t" * 197 + "…"),
        ("end\x1b", "endESC"),
        ("\x1b]never ends\nnext line", "ESC]never ends\nnext line"),
    ],
    ids=["link", "clipboard", "wipe", "long", "bare", "open"],
)
def test_every_other_sequence_is_shown_and_not_carried_out(text: str, shown: str) -> None:
    assert unescape(strip_tags(str(render_ansi(text)))) == shown


def test_a_diff_marks_the_words_that_changed_and_folds_what_is_the_same() -> None:
    old = "\n".join([*(f"line {number}" for number in range(20)), "Add the surcharge of 9.10", "end"])
    new = old.replace("9.10", "0.00")
    diff = diff_lines(old, new)
    assert [row.kind for row in diff.rows] == ["gap", "same", "same", "same", "old", "new", "same"]
    assert diff.rows[0].lines == 17
    assert diff.rows[4].html == "Add the surcharge of <del>9</del>.<del>10</del>"
    assert diff.rows[5].html == "Add the surcharge of <ins>0</ins>.<ins>00</ins>"
    assert (diff.rows[5].old, diff.rows[5].new, diff.added, diff.removed) == (None, 21, 1, 1)


@given(
    st.lists(st.sampled_from(["a", "b", "c d", "", "<e>"]), max_size=30),
    st.lists(st.sampled_from(["a", "b", "c d", "x"]), max_size=30),
)
def test_a_diff_holds_both_texts_whole(old: list[str], new: list[str]) -> None:
    rows = diff_lines("\n".join(old), "\n".join(new), context=1000).rows
    for kind, lines in (("old", old), ("new", new)):
        said = [
            unescape(strip_tags(row.html)) if "<del>" in row.html or "<ins>" in row.html else unescape(str(row.html))
            for row in rows
            if row.kind in {"same", kind}
        ]
        assert said == (lines or [""])


def test_a_diff_of_five_thousand_lines_is_quick_and_a_longer_one_says_what_it_left_out() -> None:
    old = [f"line {number} of the old text, as it was {number % 97}" for number in range(MOST_LINES)]
    new = [line.replace("old", "new") if number % 7 == 0 else line for number, line in enumerate(old)]
    started = time.process_time()
    diff = diff_lines("\n".join(old), "\n".join(new))
    assert time.process_time() - started < 10
    assert (diff.added, diff.note) == (len(range(0, MOST_LINES, 7)), "")
    assert "first 5,000 lines" in diff_lines("\n".join(old * 2), "\n".join(new)).note


def test_texts_of_few_repeated_lines_do_not_take_minutes() -> None:
    old, new = "\n".join(["a", "b"] * 2500), "\n".join(["b", "a", "a"] * 1600)
    started = time.process_time()
    assert "repeat" in diff_lines(old, new).note
    emoji = "\U0001f3f3\ufe0f\u200d\U0001f308" * 200
    assert str(diff_words(emoji, emoji[::-1])).count("<del>") == 1
    lines = "\n".join(["1. " * 130] * 150)
    assert diff_lines(lines, lines.replace("1. ", " .1")).added == 150
    assert time.process_time() - started < 10


def test_marks_carry_their_words_and_never_overlap() -> None:
    html = render_marked("one <two> three", [Mark(4, 9, "made up"), Mark(6, 12, "wrong"), Mark(90, 99, "gone")])
    assert html == (
        'one <mark>&lt;two&gt;<span class="mark-label"> [made up]</span></mark>'
        '<mark> th<span class="mark-label"> [wrong]</span></mark>ree'
    )


def test_a_text_is_cut_where_it_gets_too_long_and_only_markup_is_shown_twice() -> None:
    rich = render_rich("x" * (MOST + 5))
    assert (len(rich.as_text), rich.cut, rich.as_markdown) == (MOST, 5, "")
    assert render_rich("just words. 3 * 4 = 12").as_markdown == ""
    assert render_rich("- a\n- b").as_markdown.startswith("<ul>")
