"""A process with many connections has descriptors above 1,023, which `select()` refuses (man 2 select)."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ALONE: Final = {
    "tentalis/sandbox/contained.py",
    "tentalis/verification/program_runner.py",
    "tentalis/verification/runner.py",
}
"""Programs that run alone in a sandbox, with a handful of them."""


def test_nobody_who_may_have_many_descriptors_waits_by_select() -> None:
    places = [path for tree in ("apps", "tentalis", "gpu_workers") for path in (ROOT / tree).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT)) for path in places if re.search(r"\bselect\.select\(", path.read_text("utf-8"))
    }
    assert found == ALONE
