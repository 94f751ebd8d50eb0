"""What README and guides show, to be run as it stands there: no copy of it can go its own way."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^( *)```\w*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 120


def find_block(document: str, words: str) -> str:
    """The one block of code of a document that holds these words."""
    blocks = [found[2] for found in BLOCK.finditer((ROOT / document).read_text(encoding="utf-8")) if words in found[2]]
    assert len(blocks) == 1, f"{document}: wanted one block with {words!r}, found {len(blocks)}"
    return textwrap.dedent(blocks[0])


def find_said(document: str, pattern: str) -> str:
    """What the text says: the pattern's group."""
    found = re.search(pattern, (ROOT / document).read_text(encoding="utf-8"))
    assert found is not None, f"{document}: wanted {pattern}"
    return found[1]


def put_in(text: str, own: Mapping[str, str]) -> str:
    """With one's own values in the place of the examples', each of which is there."""
    for example, value in own.items():
        assert example in text, f"wanted {example!r} in:\n{text}"
        text = text.replace(example, value)
    return text


@dataclass(frozen=True)
class Shell:
    """Where a stranger types: bash, with the commands of this installation.

    Args:
        programs: a directory of further commands; environment: beside what is usual.
    """

    programs: Path
    environment: Mapping[str, str]

    def run(self, script: str, *, given: str = "") -> str:
        """What it said.

        Args:
            given: what is typed where it asks.
        """
        usual = {name: value for name, value in os.environ.items() if not name.startswith(("TENTALIS_", "DJANGO_"))}
        path = os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-eu", "-c", script],
            env={**usual, "PATH": path, **self.environment},
            cwd=self.programs,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            start_new_session=True,  # without a terminal, so that passwords are read from what is given
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout
