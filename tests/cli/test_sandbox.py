"""`tentalis sandbox run`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.conftest import find_obstacle

OBSTACLE = find_obstacle()
pytestmark = pytest.mark.skipif(bool(OBSTACLE), reason=OBSTACLE)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    work = tmp_path / "image" / "work"
    work.mkdir(parents=True)
    (work / "note").write_text("a note\n")
    return tmp_path / "image"


def run(image: Path, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    argv = [sys.executable, "-m", "tentalis", "sandbox", "run", str(image), *words]
    return subprocess.run(argv, input=stdin, capture_output=True, check=False, timeout=120)


def test_a_program_runs_as_if_here_but_nothing_of_it_stays(image: Path) -> None:
    done = run(image, "--", "sh", "-c", "cat note -; echo changed > note; echo bad >&2; exit 3", stdin=b"piped\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"a note\npiped\n", b"bad\n")
    assert (image / "work/note").read_text() == "a note\n"


def test_programs_are_told_as_json(image: Path) -> None:
    done = run(image, "--json", "--", "sh", "-c", "echo out; exit 2")
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "code": 2, "out": "out\n", "err": "", "dropped": 0, "timed_out": False, "has_ended": False,
    }  # fmt: skip


def test_who_takes_too_long_is_killed_and_it_is_said(image: Path) -> None:
    done = run(image, "--timeout", "0.3", "--", "sleep", "1000")
    assert (done.returncode, done.stderr) == (124, b"it was killed: it took longer than 0.3 s\n")


def test_bad_use_is_one_line(image: Path) -> None:
    done = run(image / "nothing", "--", "true")
    assert (done.returncode, done.stderr.decode()) == (
        1,
        f"tentalis: wanted an image directory, found none at {image / 'nothing'}\n",
    )
    done = run(image, "--memory", "1", "--", "true")
    assert done.returncode == 1
    assert b"memory_bytes: wanted a number from 16,777,216" in done.stderr
    assert run(image).returncode == 2
