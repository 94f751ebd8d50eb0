"""What an author of a package runs: `pytest --tentalis-contract`, as pip installs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.packages import put_package

PACKAGE = Path(__file__).parents[2] / "plugged" / "kept_package.py"
KEPT = """[tentalis.graders]
same = kept_package:SAME
[tentalis.scorers]
length = kept_package:LengthScorer
[tentalis.supervisors]
careful = kept_package:Careful
[tentalis.monitors]
quiet = kept_package:QUIET
[tentalis.agents]
parrot = kept_package:Parrot
"""
BROKEN = """[tentalis.graders]
choice = kept_package:SAME
[tentalis.agents]
forgetful = kept_package:Forgetful
"""
EXAMPLES = """
def pytest_tentalis_examples(group, name):
    if group == "tentalis.graders":
        return {"reference": "42", "right": ["42", " 42 "], "wrong": ["41", "4 2"]}
"""


def run(place: Path, points: str, *arguments: str) -> tuple[int, str]:
    put_package(place / "site", "kept_package", PACKAGE, points)
    (place / "pyproject.toml").write_text('[project]\nname = "kept-package"\n')
    (place / "conftest.py").write_text(EXAMPLES)
    told = {name: value for name, value in os.environ.items() if not name.startswith(("TENTALIS_", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:django", "--tb=line", *arguments],
        cwd=place,
        env={**told, "PYTHONPATH": str(place / "site"), "TENTALIS_HOME": str(place / "home")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_package_that_holds_to_what_is_asked_passes_and_one_that_does_not_is_told_where(tmp_path: Path) -> None:
    for name in ("kept", "broken"):
        (tmp_path / name).mkdir()
    code, said = run(tmp_path / "kept", KEPT, "--tentalis-contract")
    assert code == 0, said
    assert " passed" in said
    code, said = run(tmp_path / "broken", BROKEN, "--tentalis-contract")
    assert code == 1, said
    failed = {line.split("::")[-1].split(" ")[0] for line in said.splitlines() if line.startswith("FAILED")}
    assert failed == {
        "test_a_fresh_installation_uses_it[tentalis.graders:choice]",
        "test_a_try_knows_nothing_of_another[tentalis.agents:forgetful]",
    }, said


def test_without_the_option_nothing_is_asked_and_a_package_that_adds_nothing_is_refused(tmp_path: Path) -> None:
    code, said = run(tmp_path, "[others]\nthing = kept_package:SAME\n", "--tentalis-contract")
    assert (code, "kept-package has no entry point of a group tentalis." in said) == (4, True), said
