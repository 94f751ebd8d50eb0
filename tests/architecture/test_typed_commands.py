"""What README, guides, pages and messages tell people to type is what the command line takes."""

import ast
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from typer import Exit
from typer._click.exceptions import UsageError
from typer.core import TyperGroup
from typer.main import get_command

from tentalis.cli import app
from tentalis.platform.stack import PROJECT_DIRECTORY
from tests.architecture.trees import read_tree

DOCUMENTS = (
    PROJECT_DIRECTORY / "README.md",
    PROJECT_DIRECTORY / "docs" / "install.md",
    *sorted((PROJECT_DIRECTORY / "docs" / "guides").glob("*.md")),
    PROJECT_DIRECTORY / "tentalis" / "agent_templates" / "skeleton" / "README.md.in",
)
_BLOCK = re.compile(r"^```(?:sh|bash|console)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "&"}
"""Where the shell has its say."""
_FILLED = re.compile(r"\b[A-Z][A-Z_]+\b")
"""A place that the reader fills, maybe with a number."""
_ADVISED = re.compile(r"`(tentalis [^`]+)`|(?:[:;,] |\()(tentalis [^`]+)")
"""In a message a command stands in backquotes, or ends it behind a colon."""
_CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)
_TAG, _VALUE = re.compile(r"{%.*?%}"), re.compile(r"{{.*?}}")


def list_typed(path: Path) -> Iterator[str]:
    for block in _BLOCK.findall(path.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().removeprefix("$ ").startswith("tentalis "):
                yield line.strip().removeprefix("$ ")


def list_advised(path: Path) -> Iterator[str]:
    """Commands in a module's messages; what is filled in is 1. Docstrings only name them."""
    tree = read_tree(path.read_text(encoding="utf-8"))
    inside = (part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node))
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    left_out |= {id(part) for part in inside if not isinstance(part, ast.JoinedStr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in left_out:
                pass
            case ast.JoinedStr(values=parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in parts)
            case _:
                continue
        yield from (quoted or last for quoted, last in _ADVISED.findall(text))


def list_shown(path: Path) -> Iterator[str]:
    """Commands on a page; what is filled in is 1."""
    for block in _CODE.findall(path.read_text(encoding="utf-8")):
        for line in _TAG.sub("", _VALUE.sub("1", block)).replace("\\\n", " ").splitlines():
            if line.strip().startswith("tentalis "):
                yield line.strip()


def parse(line: str) -> None:
    """Raises UsageError where the command line does not take it."""
    words = [word.strip("[]") for word in shlex.split(line, comments=True)[1:]]  # what may be left out
    words = words[: next((place for place, word in enumerate(words) if word in _ENDS), len(words))]
    command = get_command(app)
    context = command.make_context("tentalis", words)
    while isinstance(command, TyperGroup):
        name, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, words, parent=context)


def find_refused(lines: Iterable[str]) -> list[tuple[str, str]]:
    """(line, why) of those that are not taken."""
    refused = []
    for line in lines:
        try:
            parse(line)
        except UsageError as error:
            if not ("valid integer" in error.message and _FILLED.search(line)):
                refused.append((line, error.format_message()))
        except Exit:
            pass  # --help
    return refused


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_is_written_down_is_taken(path: Path) -> None:
    assert find_refused(list_typed(path)) == []


@pytest.mark.parametrize("folder", ["apps", "gpu_workers", "tentalis"])
def test_every_command_that_a_message_advises_is_whole(folder: str) -> None:
    advised = [line for path in sorted((PROJECT_DIRECTORY / folder).rglob("*.py")) for line in list_advised(path)]
    assert find_refused(advised) == []
    assert folder == "gpu_workers" or len(advised) >= 10


def test_every_command_that_a_page_shows_is_whole() -> None:
    shown = [line for path in sorted((PROJECT_DIRECTORY / "templates").rglob("*.html")) for line in list_shown(path)]
    assert find_refused(shown) == []
    assert "tentalis adapter export 1 --format merged" in shown


def test_a_command_that_lacks_an_argument_is_found(tmp_path: Path) -> None:
    module = tmp_path / "said.py"
    module.write_text('say(f"nothing trains: {why}. Say it: tentalis worker change --base-directory")\n')
    assert [line for line, _why in find_refused(list_advised(module))] == ["tentalis worker change --base-directory"]
