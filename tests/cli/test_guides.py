"""Every command that the guides and the README show is one that there is, with options that there are."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))


def find_commands() -> Iterator[tuple[str, str]]:
    """(document, command) of each line that begins with `tentalis`, in blocks and in the text."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        blocks = [line for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
        said = re.findall(r"`(tentalis [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
        for line in (*blocks, *said):
            if line.startswith("tentalis ") and not line.endswith("\\"):
                yield document.name, line


@pytest.mark.parametrize(("document", "line"), sorted(set(find_commands())))
def test_a_command_of_the_documents_is_understood(run: Run, document: str, line: str) -> None:
    words = shlex.split(line.split(" && ")[0], comments=True)[1:]
    outcome = run(*words, "--help")
    assert outcome.code == 0, f"{document}: {line}\n{outcome.err}"
    assert outcome.out.split("Usage: ")[1].startswith(f"tentalis {words[0]}")
