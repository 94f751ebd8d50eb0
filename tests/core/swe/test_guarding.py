"""What is a test, or decides how tests run, is nobody's to change but the task's."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tentalis.core.swe.guarding import find_guard, take_candidate
from tentalis.core.swe.patches import PatchError, parse_patch, write_patch
from tentalis.core.swe.tools import CallError, Tree, edit, read_call

PROJECT = b'[project]\nname = "x"\nversion = "1"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n'
FILES = {"src/x.py": b"a\n", "tests/test_x.py": b"t\n", "pyproject.toml": PROJECT, "checks/all.py": b"c\n"}


@pytest.mark.parametrize(
    "path",
    [
        "tests/data/a.json", "test/x.py", "x/test_y.py", "x/y_test.py", "app/tests.py", "conftest.py", "x/conftest.py",
        "pytest.ini", "tox.ini", "setup.cfg", "sitecustomize.py", "x.pth", "x.pyc", "x/__pycache__/y", "x.egg-info/y",
        "x-1.dist-info/entry_points.txt", ".git/hooks/z", "x.so", "tests/runtests.py",
    ],
)  # fmt: skip
def test_it_is_known_by_its_name(path: str) -> None:
    assert find_guard(path)


@pytest.mark.parametrize(
    "path", ["x.py", "src/contest.py", "latest/x.py", "pyproject.toml", "setup.py", "docs/testing.md"]
)
def test_source_is_not_taken_for_it(path: str) -> None:
    assert not find_guard(path)


def test_a_task_says_what_else_is_a_test_and_what_is_none() -> None:
    assert find_guard("checks/all.py", guarded=["checks/all.py"])
    assert not find_guard("lib/test/client.py", sources=["lib/test/"])
    assert find_guard("lib/test/x.pyc", sources=["lib/test/"])


def take(changed: dict[str, bytes | None], **rest: list[str]) -> tuple[dict[str, bytes | None], list[str]]:
    found = take_candidate(FILES, parse_patch(write_patch(FILES, changed)), **rest)
    return dict(found.changed), [f"{one.path}: {one.why}" for one in found.stripped]


def test_the_rest_of_a_patch_counts() -> None:
    changed, stripped = take({"src/x.py": b"b\n", "tests/test_x.py": None, "conftest.py": b"c\n"})
    assert changed == {"src/x.py": b"b\n"}
    assert stripped == ["conftest.py: test configuration", "tests/test_x.py: a test"]


def test_of_pyproject_only_what_decides_how_tests_run_is_left_out() -> None:
    better = PROJECT.replace(b'"1"', b'"2"')
    assert take({"pyproject.toml": better}) == ({"pyproject.toml": better}, [])
    assert take({"pyproject.toml": PROJECT.replace(b"-q", b"-p cheat")})[1] == [
        "pyproject.toml: test configuration: [tool.pytest]"
    ]
    plugged = PROJECT.replace(b"[tool", b"[project.entry-points.pytest11]\nx = 'x'\n\n[tool")
    assert take({"pyproject.toml": plugged})[0] == {}
    assert take({"pyproject.toml": b"nothing to read ["})[0] == {}


def test_a_new_module_must_not_be_imported_in_the_place_of_another() -> None:
    assert take({"unittest/case.py": b""})[1] == ["unittest/case.py: a module in the place of unittest"]
    assert take({"src/random.py": b""}, roots=["src"])[1] == ["src/random.py: a module in the place of random"]
    assert take({"src/pytest.py": b""}, roots=["src"])[0] == {}
    assert take({"src/random.py": b""})[0] == {"src/random.py": b""}


def test_a_file_takes_no_directorys_place() -> None:
    with pytest.raises(PatchError, match="wanted a file, found a directory"):
        take({"src": b"x\n"})
    with pytest.raises(PatchError, match=r"wanted a directory src/x\.py, found a file"):
        take({"src/x.py/y": b"x\n"})


BASE = {"a.py": b"x = 1\n\x0c\ny = 2\n", "b/c.txt": b"\xff\xfe", "d.py": b"", "e.py": "a\u2028b\r\nc".encode()}
PLACES = st.sampled_from([*BASE, "new.py", "a.py/x", "b", "tests/t.py", "conftest.py", '"q".py', "a\tb.py", "b/c/d"])
WORDS = st.sampled_from(["", "\n", "a\nb", "\x0c", "--- a/x\n+++ b/x\n", "\r\n", "\u2028"]) | st.text(max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(PLACES | st.text(max_size=6), st.integers(-1, 5), WORDS, st.integers(-1, 5)), max_size=5))
def test_whatever_an_agent_edits_is_what_is_judged_or_is_left_out_for_a_reason(
    edits: list[tuple[str, int, str, int]],
) -> None:
    changed: dict[str, str] = {}
    for path, line, text, count in edits:
        told = json.dumps({"path": path, "line": line, "text": text, "count": count})
        with suppress(CallError):
            given = read_call("edit", told)
            changed[path] = edit(Tree(BASE, changed), **given)
    wanted = {path: text.encode() for path, text in changed.items() if BASE.get(path) != text.encode()}
    try:
        found = take_candidate(BASE, parse_patch(write_patch(BASE, wanted)))
    except PatchError as error:
        if "wanted a directory" in str(error) or "found a directory" in str(error):  # a file beneath a file
            return
        raise
    left_out = {one.path for one in found.stripped}
    assert found.changed == {path: content for path, content in wanted.items() if path not in left_out}
