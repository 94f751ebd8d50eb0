"""docs/rows.md: what users expect, each row shown by tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "rows.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([ROD]\d+) \| .+? \| (\w+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_row_is_there_once_with_a_known_state() -> None:
    rows = [(name, state) for name, state, _ in ROW.findall(TEXT)]
    wanted = [f"{letter}{n}" for letter, most in (("R", 22), ("O", 10), ("D", 10)) for n in range(1, most + 1)]
    assert [name for name, _ in rows] == wanted
    assert {state for _, state in rows} <= {"works", "partly", "missing"}


def test_what_works_names_tests_and_each_of_them_exists() -> None:
    sources: dict[str, str] = {}
    wrong = []
    for name, state, shown in ROW.findall(TEXT):
        tests = TEST.findall(shown)
        if state == "works" and not tests:
            wrong.append(f"{name} names no test")
        for path, test in tests:
            file = ROOT / path
            source = sources.setdefault(path, file.read_text(encoding="utf-8") if file.is_file() else "")
            if not re.search(rf"^ *(async )?def {test}\(", source, re.MULTILINE):
                wrong.append(f"{name}: no {path}::{test}")
    assert wrong == []
