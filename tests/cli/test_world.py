"""Environments from the command line: which there are, which may train, and one examined where it is installed."""

import subprocess
import sys

from apps.worlds.certificates import certify
from apps.worlds.registry import get_world
from tests.chaos.stage import chaos_stack, make_environ
from tests.cli.conftest import Run


def test_environments_are_listed_with_what_may_train(signed_in: Run) -> None:
    rows = {row["name"]: row for row in signed_in("world", "list", "--json").json}
    assert (rows["chat"]["may_train"], rows["chat"]["has_turns"]) == (None, False)
    assert (rows["workbench"]["may_train"], rows["workbench"]["has_turns"]) == (False, True)
    assert rows["workbench"]["words"].endswith("examine it: tentalis world doctor workbench")
    made = certify(get_world("workbench"), by="user:alice")
    found = {row["name"]: row for row in signed_in("world", "list", "--json").json}["workbench"]
    assert (found["may_train"], found["certificate"]["id"], found["certificate"]["sha256"]) == (
        True,
        made.pk,
        found["sha256"],
    )
    assert "workbench" in signed_in("world", "list").out


def test_an_environment_is_examined_where_it_is_installed_whether_or_not_anything_runs() -> None:
    with chaos_stack(only=["migrate"]) as stack:
        environ = {**make_environ(), "TENTALIS_HOME": str(stack.home.root)}

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            asked = [sys.executable, "-m", "tentalis", "world", "doctor", *words]
            return subprocess.run(asked, env=environ, capture_output=True, text=True, check=False, timeout=120)

        shown = run("workbench", "--tasks", "3")
        assert shown.returncode == 0, shown
        assert "all of 4 right ways are worth 1" in shown.stdout
        assert "passed its examination of" in shown.stdout
        unknown = run("moon")
        assert (unknown.returncode, "wanted one of" in unknown.stderr) == (1, True)
