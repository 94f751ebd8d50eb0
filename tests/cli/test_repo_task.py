"""`tentalis verify` and `tentalis repo-task`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tentalis.verification.loading import save_task
from tests.sandbox.conftest import find_obstacle
from tests.verification.repos import FILES, GOLD, make_task, patch_of

OBSTACLE = find_obstacle()
pytestmark = pytest.mark.skipif(bool(OBSTACLE), reason=OBSTACLE)


def run(*words: object, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "tentalis", *map(str, words)]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    save_task(make_task(), FILES, tmp_path / "task")
    return tmp_path / "task"


def test_a_patch_is_verified_and_what_was_left_out_of_it_is_said(task: Path, tmp_path: Path) -> None:
    done = run("verify", task, "--patch", "-", stdin=GOLD + patch_of({"conftest.py": "x = 1\n"}))
    assert (done.returncode, done.stdout) == (
        0, "resolved: every test passes\nleft out: conftest.py (test configuration)\n",
    )  # fmt: skip
    (tmp_path / "wrong.diff").write_text(patch_of({"calc.py": "x = 1\n"}))
    done = run("verify", task, "--patch", tmp_path / "wrong.diff", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "p2p_regressed"
    done = run("verify", task / "repo", "--patch", "-")
    assert (done.returncode, done.stdout) == (1, "")
    assert "task.json: No such file" in done.stderr


def test_tasks_are_admitted_or_quarantined_with_the_reason(task: Path, tmp_path: Path) -> None:
    save_task(make_task(gold_patch=""), FILES, tmp_path / "bad")
    done = run("repo-task", "admit", task, tmp_path / "bad", "--json")
    assert done.returncode == 1
    good, bad = json.loads(done.stdout)
    assert (good["state"], good["leak"], good["fail_to_pass"]) == ("admitted", 0.0, 1)
    assert (bad["state"], bad["reason"]) == ("quarantined", "there is no gold patch")
    assert json.loads((task / "admission.json").read_text())["task_hash"] == good["task_hash"]


def test_admitted_tasks_are_added_listed_and_removed(
    task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENTALIS_HOME", str(tmp_path / "home"))
    run("init", "--yes")
    done = run("repo-task", "add", task)
    assert done.returncode == 1
    assert f"calc: wanted a task that was admitted; do tentalis repo-task admit {task}" in done.stderr
    run("repo-task", "admit", task)
    [row] = json.loads(run("repo-task", "add", task, "--held-out", "--json").stdout)
    assert (row["name"].partition("@")[0], row["split"], row["tests"]) == ("calc", "held_out", 2)
    assert json.loads(run("repo-task", "list", "--json").stdout) == [row]
    assert run("repo-task", "remove", row["name"]).stdout == f"removed {row['name']}\n"
    assert "no task; add one" in run("repo-task", "list").stdout


def test_a_row_without_a_clone_says_what_it_wants(tmp_path: Path) -> None:
    row = {"instance_id": "x__y-1", "repo": "x/y", "base_commit": "abc"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    done = run("repo-task", "import", tmp_path / "rows.jsonl", "x__y-1", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "x__y-1: wants a clone of x/y with commit abc, and its packages as wheels" in done.stderr
    done = run("repo-task", "import", tmp_path / "rows.jsonl", "other", "--out", tmp_path / "out")
    assert "wanted a row other, found none" in done.stderr
