"""Words nobody here wrote, and colours everybody must be able to read."""

import re
from html import unescape
from pathlib import Path

import pytest
from django.template import Context, Template
from django.utils.html import strip_tags

from apps.console.rendering import visible
from apps.console.templatetags.console import facts, number, words

CSS = Path(__file__).resolve().parents[3] / "static" / "css" / "tokens.css"
PAYLOADS = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    '"><div hx-get="/p/desk/" hx-trigger="load"></div>',
    "</div></details><base href=//evil.example>",
    "{{ 7|add:7 }}{% csrf_token %}",
    "<svg/onload=alert(1)>",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_models_output_is_text_and_nothing_else(payload: str) -> None:
    page = Template("{% load console %}{% words text %}").render(Context({"text": payload}))
    inside = page.removeprefix('<div class="words" dir="auto">').strip().removesuffix("</div>")
    assert "<" not in inside
    assert unescape(inside) == payload


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay\u202eneila\u202c", "payU+202EneilaU+202C"),
        ("a\x1b[31mb", "aU+001B[31mb"),
        ("zero\u200bwidth", "zeroU+200Bwidth"),
        ("tag\U000e0041", "tagU+E0041"),
        ("over\rwrite", "overU+000Dwrite"),
    ],
)
def test_characters_that_hide_or_reorder_are_made_visible(text: str, shown: str) -> None:
    assert strip_tags(str(visible(text))) == shown


def test_line_ends_tabs_and_families_of_emoji_stay_as_they_are() -> None:
    text = "one\r\ntwo\tthree 👩\u200d🔧"
    assert str(visible(text)) == "one\ntwo\tthree 👩\u200d🔧"


def test_a_long_text_is_folded_at_a_word_and_a_huge_one_is_cut_and_says_so() -> None:
    text = "word " * 40_000
    folded = words(Context(), text)
    assert len(folded["head"]) <= 700
    assert folded["head"].endswith(" ")
    assert folded["more"] == len(text) - len(folded["head"])
    assert folded["cut"] == len(text) - 64_000
    assert words(Context(), "short")["rest"] == ""


def test_an_object_becomes_pairs_a_person_can_read() -> None:
    said = facts(
        {"from": "queued", "to": "done", "links": ["a", "b"], "rate": 0.25, "deep": {"x_y": True}, "none": None}
    )
    assert said == [("", "queued → done"), ("links", "a, b"), ("rate", "0.25"), ("deep x y", "yes")]


@pytest.mark.parametrize(
    ("value", "said"), [(None, "–"), (3, "3"), (0.5, "0.5"), (12345.678, "12,346"), (0.000123, "0.000123")]
)
def test_numbers_have_as_many_digits_as_help(value: float | None, said: str) -> None:
    assert number(value) == said


def read_themes() -> dict[str, dict[str, str]]:
    """Tokens of each theme; `system dark` is what a dark system gives who chose nothing."""
    css = CSS.read_text(encoding="utf-8")
    heads = {"light": ":root", "dark": ':root[data-theme="dark"]', "system dark": ':root:not([data-theme="light"])'}
    blocks = {
        name: re.findall(rf"^ *{re.escape(head)} \{{(.*?)\}}", css, flags=re.DOTALL | re.M)[0]
        for name, head in heads.items()
    }
    colors = {name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for name, block in blocks.items()}
    return {name: colors["light"] | found for name, found in colors.items()}


def test_who_chose_dark_sees_what_a_dark_system_gives() -> None:
    themes = read_themes()
    assert themes["dark"] == themes["system dark"] != themes["light"]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio of two colours, from 1 to 21."""
    first, second = sorted((luminance(one), luminance(other)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def luminance(color: str) -> float:
    shares = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_colour_has_the_contrast_of_aa_on_everything_it_stands_on(theme: str) -> None:
    colors = read_themes()[theme]
    pairs = [(ink, ground) for ink in ("ink", "muted", "accent") for ground in ("paper", "surface", "sunken")]
    pairs += [(state, f"{state}-soft") for state in ("good", "warn", "bad", "info")]
    pairs += [("ink", f"{state}-soft") for state in ("good", "warn", "bad", "info", "accent")]
    pairs += [("accent-ink", "accent"), ("bad", "surface"), ("good", "surface")]
    too_faint = {pair: round(contrast(colors[pair[0]], colors[pair[1]]), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in too_faint.items() if ratio < 4.5} == {}
    for ground in ("paper", "surface"):
        assert contrast(colors["line-strong"], colors[ground]) >= 3, ground
