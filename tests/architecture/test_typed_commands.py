"""What README, guides and the packages of templates tell people to type is what the command line takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer import Exit
from typer._click.exceptions import UsageError
from typer.core import TyperGroup
from typer.main import get_command

from tentalis.cli import app
from tentalis.platform.stack import PROJECT_DIRECTORY

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


def list_typed(path: Path) -> Iterator[str]:
    for block in _BLOCK.findall(path.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().removeprefix("$ ").startswith("tentalis "):
                yield line.strip().removeprefix("$ ")


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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_is_written_down_is_taken(path: Path) -> None:
    refused = []
    for line in list_typed(path):
        try:
            parse(line)
        except UsageError as error:
            if not ("valid integer" in error.message and _FILLED.search(line)):
                refused.append((line, error.message))
        except Exit:
            pass  # --help
    assert refused == []
