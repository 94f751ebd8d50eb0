"""Patches are applied as they are written, or not at all."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tentalis.core.swe.patches import PatchError, apply_patch, overlay, parse_patch, write_patch

FILES = {"a.py": b"one\ntwo\nthree\nfour\n", "b/c.py": b"x\n", "end": b"no newline"}


def test_lines_are_replaced_where_they_stand_though_the_number_is_wrong() -> None:
    patch = parse_patch("--- a/a.py\n+++ b/a.py\n@@ -90,2 +90,2 @@\n two\n-three\n+3\n")
    assert apply_patch(FILES, patch) == {"a.py": b"one\ntwo\n3\nfour\n"}


def test_of_two_places_the_nearer_one_is_taken() -> None:
    files = {"a": b"x\n" * 3 + b"y\n" + b"x\n" * 3}
    patch = parse_patch("--- a/a\n+++ b/a\n@@ -6,1 +6,1 @@\n-x\n+z\n")
    assert apply_patch(files, patch)["a"] == b"x\nx\nx\ny\nx\nz\nx\n"


def test_files_come_go_and_are_renamed() -> None:
    text = (
        "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+n\n"
        "diff --git a/b/c.py b/b/c.py\ndeleted file mode 100644\n--- a/b/c.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/a.py b/d.py\nsimilarity index 100%\nrename from a.py\nrename to d.py\n"
    )
    assert apply_patch(FILES, parse_patch(text)) == {
        "new.py": b"n\n", "b/c.py": None, "d.py": FILES["a.py"], "a.py": None,
    }  # fmt: skip


def test_a_last_line_without_a_newline_is_told_from_one_with_it() -> None:
    wanted = "--- a/end\n+++ b/end\n@@ -1 +1 @@\n-no newline\n\\ No newline at end of file\n+with\n"
    assert apply_patch(FILES, parse_patch(wanted)) == {"end": b"with\n"}
    with pytest.raises(PatchError, match="change 1 does not apply"):
        apply_patch(FILES, parse_patch("--- a/end\n+++ b/end\n@@ -1 +1 @@\n-no newline\n+with\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("some words", "wanted a unified diff"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-other\n+x\n", "change 1 does not apply"),
        ("--- a/no.py\n+++ b/no.py\n@@ -1,1 +1,1 @@\n-other\n+x\n", "no.py: wanted a file of the repository"),
        ("--- a/a.py\n+++ b/../a.py\n@@ -1,1 +1,1 @@\n-one\n+x\n", "wanted a path within the repository"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1,1 +1,1 @@\n-one\n+x\n", "wanted a path within the repository"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,1 @@\n-one\n", "wanted 3 old and 1 new lines, found 1 and 0"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n*one\n", "before a line"),
        ("@@ -1,1 +1,1 @@\n-one\n+x\n", "wanted the name of a file"),
        ("diff --git a/a.py b/a.py\nGIT binary patch\nliteral 4\nLcmZQzWMBXQ00961\n", "found a binary patch"),
        ("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n", "found one that is there already"),
        ("x\0y", "found a NUL"),
    ],
)
def test_what_cannot_be_read_or_applied_is_said(text: str, words: str) -> None:
    with pytest.raises(PatchError, match=words):
        apply_patch(FILES, parse_patch(text))


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "  d\n", "+e\n", "-f\n"]), max_size=12)
TREES = st.dictionaries(st.sampled_from(["a", "b/c", "d e"]), LINES.map("".join), max_size=3)


@given(TREES, TREES, st.booleans())
@settings(max_examples=200)
def test_a_patch_that_is_written_leads_from_one_to_the_other(
    one: dict[str, str], other: dict[str, str], is_cut: bool
) -> None:
    before = {path: text.encode() for path, text in one.items()}
    behind = {path: (text.removesuffix("\n") if is_cut else text).encode() for path, text in other.items()}
    wanted: dict[str, bytes | None] = {**dict.fromkeys(before), **behind}
    text = write_patch(before, wanted)
    assert overlay(before, apply_patch(before, parse_patch(text))) == behind


@pytest.mark.skipif(shutil.which("git") is None, reason="wants git")
def test_git_reads_what_is_written_and_the_other_way_round(tmp_path: Path) -> None:
    wanted: dict[str, bytes | None] = {"a.py": b"one\n2\nthree\nfour\nfive", "b/c.py": None, "new/f": b"n\n"}
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)

    def git(*argv: str, **rest: str) -> str:
        done = subprocess.run(["git", *argv], cwd=tmp_path, check=True, capture_output=True, text=True, **rest)  # type: ignore[call-overload]
        return str(done.stdout)

    git("init", "-q")
    git("add", "-A")
    base = git("write-tree").strip()
    git("apply", input=write_patch(FILES, wanted))
    assert (tmp_path / "a.py").read_bytes() == wanted["a.py"]
    assert not (tmp_path / "b/c.py").exists()
    git("add", "-A")
    told = git("diff", "--cached", "--find-renames", base)
    assert overlay(FILES, apply_patch(FILES, parse_patch(told))) == overlay(FILES, wanted)


SIGNS = st.characters(codec="utf-8", exclude_characters="\0")
NAMES = st.text(SIGNS, min_size=1, max_size=8).map(lambda name: name.replace("/", "-"))
PATHS = st.lists(
    NAMES.filter(lambda name: name not in {".", ".."}) | st.sampled_from(["dev", "a b", "\udce9x", "Ã©\n", '"', "\\1"]),
    min_size=1, max_size=3,
).map("/".join)  # fmt: skip
TEXTS = st.text(SIGNS, max_size=6) | st.sampled_from(
    ["", "\x0c", "x\u2028y", "\x85", "a\r", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "diff --git a/x b/x", "\\ No newline"]
)
CONTENTS = (
    st.tuples(st.lists(TEXTS, max_size=6).map("\n".join), st.sampled_from(["", "\n"])).map("".join).map(str.encode)
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(PATHS, CONTENTS, max_size=3),
    st.dictionaries(PATHS, st.none() | CONTENTS, max_size=3),
)
def test_a_patch_that_was_written_is_read_as_what_it_was_written_of(
    files: dict[str, bytes], wanted: dict[str, bytes | None]
) -> None:
    """Whatever its files are called, and whatever else than a newline some take for the end of a line."""
    changed = {path: content for path, content in wanted.items() if files.get(path) != content}
    assert apply_patch(files, parse_patch(write_patch(files, changed))) == changed


def test_a_form_feed_ends_no_line() -> None:
    files = {"old.py": b"import os\n\x0c\ndef f():\n    return 1\n"}
    mended = {"old.py": b"import os\n\x0c\ndef f():\n    return 2\n"}
    assert apply_patch(files, parse_patch(write_patch(files, mended))) == mended


@pytest.mark.parametrize(
    "path",
    ["字" * 86, f"a/{'x' * 256}", "/".join(["x" * 200] * 11), "half/\ud800"],
    ids=["wide", "long", "deep", "half"],
)
def test_a_path_that_no_file_can_have_is_refused(path: str) -> None:
    """Nothing else would say so but whoever runs the tests, which would not be known then to be the patch's doing."""
    with pytest.raises(PatchError, match="wanted a path of"):
        parse_patch(write_patch({}, {path: b"x\n"}))
