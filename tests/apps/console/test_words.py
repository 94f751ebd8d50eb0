"""Words that pages show: said through gettext, in the field's terms, and where they lead."""

import ast
import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from apps.accounts.models import Project, User
from apps.console.glossary import GLOSSARY, find_terms, write_glossary
from apps.console.glossary_files import IN_CODE, PLACES
from tests.apps.console.builders import sign_in

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
    | {"html", "user", "alice", "REST", "MCP", "vLLM"}
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


# what was called so before, and is now called as everybody else calls it
OLD_WORDS = (
    *("Why does nothing train", "Dead letter", "dead letter", "piece of work was given up", "wait to be tried again"),
    *("drawn at rate", "Not listened to any more", "in no shadow any more", "worthless", "Take it home", "taken home"),
    *("took home", "take home", "Say something:", "say something:", "Your own words for what is taught", "none leads"),
    *("Which answer is best", "Put this away", "need another look", "sent again until it is taken", "Given up"),
    *("Told of", "Cost and gain", "So it", "A second on it", "nothing to divide", "on the box", "training box"),
    *("tasks show a difference", "At other strengths", "at other strengths", "Try it unseen", "Let it work"),
    *("out of the shadow", "in the shadow", "Try it on some tasks", "Begin the trial", "Scorers disagree from"),
    *("Votes this far apart", "Patience, in seconds", "When nobody came", "Share of known answers", "Choice of words"),
    *(
        "as the kind of worker sets it",
        "Pull towards the base",
        "Largest pull of a hint",
        "may add it with allow_private",
    ),
    *("Nothing proved", "Clip below", "Clip above", "Floor of the spread"),
    *("takes it back", "came to nothing", "counts for nothing", "counts again", "What was said", "What it teaches"),
    *("teaches nothing:", "What became of it", "How it was asked", "thought aloud", "told no log-probs"),
    *(
        "least sure of",
        "Known to callers as",
        "What the attempts were worth",
        "more like this",
        "no pull",
        "Who taught",
    ),
    *("came out better", "All that moved", "How far it came", "Nobody was compared", "Machines beside people"),
    *("learnt from audits", "Do people agree", "Judged by two", "Approved bad", "Rejected good", "hardly read"),
    *("judged otherwise", "Let it count", "hold for right"),
    *("Forget a person", "Forgotten so far", "is known of them", "agent will be taught", "read exactly so"),
    *("Asked because", "what stood behind", "The review sleeps", "free for others again"),
)


def find_strings(text: str) -> str:
    """The strings of a module that are no docstrings."""
    tree = ast.parse(text)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docs = {
        id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)
    }  # what stands alone is a docstring, of a constant too
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return "\n".join(str(node.value) for node in found if id(node) not in docs)


def test_the_words_of_before_are_left_nowhere() -> None:
    places = [*TEMPLATES.rglob("*.html"), *(ROOT / "apps").rglob("*.py"), *(ROOT / "tentalis").rglob("*.py")]
    found = []
    for path in places:
        text = path.read_text(encoding="utf-8")
        if (
            path.name in ("glossary.py", "glossary_files.py")
            or "migrations" in path.parts
            or not any(words in text for words in OLD_WORDS)
        ):
            continue
        shown = find_strings(text) if path.suffix == ".py" else text
        found += [f"{path.relative_to(ROOT)}: {words}" for words in OLD_WORDS if words in shown]
    assert found == []


@pytest.mark.parametrize(
    ("old", "now"), [("returns", "training-results"), ("blockers", "training-status"), ("dead-letters", "failed-work")]
)
@pytest.mark.django_db
def test_an_address_of_before_leads_to_the_page_of_now(client: Client, alice: User, old: str, now: str) -> None:
    client.force_login(alice)
    answer = client.get(f"/p/shop/{old}/?worker=desk")
    assert (answer.status_code, answer["Location"]) == (302, f"/p/shop/{now}/?worker=desk")


# --- the glossary ----------------------------------------------------------------------------------------------------


def test_the_document_is_the_consoles_glossary() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert text == write_glossary(), "run: manage.py glossary --write docs/glossary.md"


def test_each_term_has_the_fields_word_and_a_file_that_exists() -> None:
    assert set(PLACES) == {term.name for group in GLOSSARY.values() for term in group}
    files = [place.file for place in (*PLACES.values(), *IN_CODE.values())]
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_each_term_is_said_once_and_is_seen_on_pages_that_exist() -> None:
    terms = [term for group in GLOSSARY.values() for term in group]
    assert len({term.anchor for term in terms}) == len(terms)
    pages = {str(name) for name in get_resolver().namespace_dict["console"][1].reverse_dict if isinstance(name, str)}
    assert {page for term in terms for page in term.pages} - pages == set()
    assert [term.name for term in terms if not str(term.meaning).endswith(".") or len(str(term.meaning)) > 140] == []


@pytest.mark.django_db
def test_every_title_leads_to_the_terms_of_its_page(project: Project, alice: User) -> None:
    client = sign_in(alice)
    page = client.get(reverse("console:adapter-list", args=("shop",))).content.decode()
    address = f"{reverse('console:glossary', args=('shop',))}?page=adapter-list"
    assert page.index(f'href="{address}"') < page.index("<h1")
    glossary = client.get(address)
    assert [term.name for term in glossary.context["here"]] == [term.name for term in find_terms("adapter-list")]
    shown = glossary.content.decode()
    for anchor in ("held-out-panel", "anchor", "canary", "shadow-test", "kl", "control-item-gold"):
        assert f'<dt id="{anchor}">' in shown
    assert client.get(reverse("console:glossary", args=("shop",)), {"page": "<nowhere>"}).context["here"] == []
