"""Words that pages show can be translated: no template holds bare ones."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEMPLATES = ROOT / "templates"
# what stands between these is said for the reader's language already, or is no language
SAID = re.compile(
    r"{% block width %}.*?{% endblock width %}"
    r"|{%\s*blocktranslate.*?{%\s*endblocktranslate\s*%}"
    r"|{#.*?#}|{%\s*comment.*?endcomment\s*%}"
    r"|<(code|pre|kbd|script|style)\b.*?</\1>",
    re.DOTALL,
)
TAGS = re.compile(r"{%.*?%}|{{.*?}}", re.DOTALL)
ATTRIBUTE = re.compile(r'\b(?:aria-label|title|placeholder|alt|data-label|data-x-name)="([^"]*)"')
MARKUP = re.compile(r"<[^>]*>", re.DOTALL)
WORD = re.compile(r"[A-Za-z]{2,}")
NAMES = frozenset(
    {"Tentalis", "OpenAI", "Anthropic", "OpenClaw", "CSV", "JSONL", "Parquet", "SHA", "tnt", "ms", "nbsp", "doctype"}
    | {"html", "user", "alice"}
)


def find_bare_words(text: str) -> list[str]:
    """Words of a template that stand outside {% translate %} and the like."""
    text = TAGS.sub("", SAID.sub("", text))
    shown = " ".join([MARKUP.sub(" ", text), *ATTRIBUTE.findall(text)])
    return [word for word in WORD.findall(shown) if word not in NAMES]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("<p>Hello there</p>", ["Hello", "there"]),
        ('<p>{% translate "Hello" %} {{ name }}</p>', []),
        ("{% blocktranslate %}Hello {{ name }}{% endblocktranslate %}", []),
        ('<nav aria-label="Pages"></nav>', ["Pages"]),
        ("<code>tentalis up</code> · 5 ms", []),
    ],
)
def test_bare_words_are_found(text: str, bare: list[str]) -> None:
    assert find_bare_words(text) == bare


def test_no_template_holds_bare_words() -> None:
    found = {
        str(path.relative_to(TEMPLATES)): bare
        for path in sorted(TEMPLATES.rglob("*.html"))
        if (bare := find_bare_words(path.read_text(encoding="utf-8")))
    }
    assert found == {}, "\n".join(f"{name}: {' '.join(bare)}" for name, bare in found.items())
