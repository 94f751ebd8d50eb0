"""Packages that nobody vouched for: what they do when they are imported harms nobody, and is found out once."""

import json
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.checks.graders import open_grader
from apps.operations.monitors import MONITORS, find_all_troubles
from apps.outbox.models import Segment
from apps.pipeline.deciding import ask_model
from apps.supervision.supervisors import SUPERVISORS
from apps.worlds.registry import WORLDS
from tentalis.core.grading import Grade, GradedTask, Grader
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.plugin_trials import TRIAL_S, try_plugin
from tentalis.plugins import REGISTRIES, Plugin, Registry, find_plugins, load_plugin
from tentalis.sandbox.client import start_host
from tests.apps.operations.test_alarms import FINE
from tests.apps.supervision.builders import RULES, make_proposal, make_supervised_task
from tests.bench.packages import put_package
from tests.links import run_link
from tests.sandbox.conftest import find_obstacle

pytestmark = pytest.mark.django_db

BROKEN = Path(__file__).with_name("broken_package.py")
WORDS = {
    "hangs": "it was not imported within 1 s",
    "floods": "it was not imported within 1 s",
    "ends": "it ended the process that imported it, with code 7",
    "leaves": "SystemExit: enough",
    "prints": "it prints when it is imported, where programs may listen to us: 'hello'",
    "raises": "KeyError: 'what I want'",
    "forks": "",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENTALIS_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def put(home: Path, way: str, *, group: str = "tentalis.worlds", files: Path = BROKEN) -> None:
    put_package(home, f"broken_{way}", files, f"[{group}]\n{way} = broken_{way}:THING\n")
    record = home / f"broken_{way}-1.0.dist-info" / "RECORD"
    record.write_text(f"broken_{way}.py,,\n")


@pytest.mark.parametrize("way", WORDS)
def test_whatever_a_package_does_when_it_is_imported_is_its_error_and_nobody_elses(home: Path, way: str) -> None:
    put(home, way)
    (home / f"broken_{way}.py").write_text(BROKEN.read_text() + "\nTHING = print\n")
    (point,) = (point for plugin, point in find_plugins("tentalis.worlds") if plugin.name == way)
    found = try_plugin(point, timeout_s=1.0 if way in {"hangs", "floods"} else TRIAL_S)
    assert found.error == WORDS[way]
    assert f"broken_{way}" not in sys.modules
    kept = json.loads((home / "plugins.json").read_text())
    assert len(kept) == (way not in {"leaves", "raises"}), "what was raised may lie at something else"


def test_one_that_stands_on_the_web_application_is_tried_with_it(home: Path) -> None:
    put(home, "stands")
    (home / "broken_stands.py").write_text("from apps.tasks.models import Task as THING\n")
    (point,) = (point for plugin, point in find_plugins("tentalis.worlds") if plugin.name == "stands")
    assert try_plugin(point).error == ""


def test_an_environment_whose_interpreter_is_gone_is_its_packages_error_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = home / "other" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    put(site, "forks", group="tentalis.agents")
    monkeypatch.setenv("TENTALIS_AGENT_ENVIRONMENTS", str(home / "other"))
    for trusted in ("", "broken-forks"):  # what lies in another environment is never loaded here
        monkeypatch.setenv("TENTALIS_TRUSTED_PLUGINS", trusted)
        (point,) = (point for plugin, point in find_plugins("tentalis.agents") if plugin.name == "forks")
        plugin, thing = load_plugin(Plugin("tentalis.agents", "forks", "broken-forks 1.0"), point, taken={})
        assert thing is None
        assert plugin.error.startswith(f"{home / 'other' / 'bin' / 'python'} cannot be run: ")


def test_what_was_found_once_is_found_again_until_the_package_is_another(home: Path) -> None:
    put(home, "ends")
    (point,) = (point for plugin, point in find_plugins("tentalis.worlds") if plugin.name == "ends")
    before = try_plugin(point)
    (home / "broken_ends.py").write_text("THING = 1\n")
    assert try_plugin(point) == before
    assert try_plugin(point, anew=True).error == ""
    shutil.rmtree(home / "broken_ends-1.0.dist-info")
    put(home, "ends")
    (home / "broken_ends-1.0.dist-info" / "RECORD").write_text("broken_ends.py,sha256=another,\n")
    assert distribution("broken-ends").version == "1.0"
    (point,) = (point for plugin, point in find_plugins("tentalis.worlds") if plugin.name == "ends")
    assert try_plugin(point).error == before.error


def test_one_that_is_vouched_for_is_loaded_at_once_and_its_prints_are_no_words_of_ours(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    put(home, "prints")
    (home / "broken_prints.py").write_text(BROKEN.read_text() + "\nTHING = 1\n")
    monkeypatch.setenv("TENTALIS_TRUSTED_PLUGINS", "Broken_Prints")
    registry = Registry[int]("tentalis.worlds", "world", dict, lambda name, found: int(found))
    try:
        assert registry.get("prints") == 1
    finally:
        REGISTRIES["tentalis.worlds"] = WORLDS
    assert capfd.readouterr() == ("", "hello\n")
    assert not (home / "plugins.json").exists()


GRADER = """
import os
from tentalis.core.grading import Grader

def grade(task, episode):
    return (float(eval(episode.answer) == task.reference), True) if episode.answer else 0.0

def look(task, episode):
    "Tells what it sees."
    from tentalis.core.grading import Grade
    seen = sorted(name for name in os.environ if name.startswith("TENTALIS_"))
    return Grade(value=1.0, evidence={"settings": seen, "home": os.path.exists(task.reference)})

SUM = Grader(name="sum", version="3", about="A sum.", grade=grade, options={"base": "ten"})
ASKING = Grader(name="asking", version="1", about="Asks.", grade=grade, asks=True)
"""


def test_a_grader_nobody_vouched_for_grades_in_a_sandbox_and_is_never_imported_here(home: Path, settings: Any) -> None:
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    points = "[tentalis.graders]\nsum = odd_graders:SUM\nlook = odd_graders:look\nasking = odd_graders:ASKING\n"
    (home / "source.py").write_text(GRADER)
    put_package(home, "odd_graders", home / "source.py", points + "choice = odd_graders:SUM\n")
    settings.SANDBOXES = home / "host"
    settings.SANDBOXES.mkdir()
    graders = REGISTRIES["tentalis.graders"]
    graders.forget()
    try:
        errors = {plugin.name: plugin.error for plugin in graders.plugins}
        assert errors == {
            "sum": "", "look": "", "choice": "the name choice is taken by Tentalis itself",
            "asking": "ValueError: it asks a judge, which a sandbox has no way to: name odd-graders in "
            "TENTALIS_TRUSTED_PLUGINS",
        }  # fmt: skip
        grader = open_grader("sum")
        assert (grader.version, dict(grader.options), grader.is_pure) == ("3", {"base": "ten"}, False)
        with start_host(settings.SANDBOXES, warm=1):
            assert grade(grader, "40 + 2", 42) == Grade(value=1.0, correct=True)
            assert (grade(grader, "__import__('os')._exit(0)", 42).cause or "").startswith(
                "it gave no grade, and ended"
            )
            assert grade(grader, "1 / 0", 42).cause == "it raised ZeroDivisionError: division by zero"
            seen = grade(open_grader("look"), "", str(home))
            assert seen.evidence == {"settings": [], "home": False}
        with start_host(settings.SANDBOXES):
            assert grade(grader, "40 + 2", 42) == Grade(value=1.0, correct=True), "it was started anew"
        assert "odd_graders" not in sys.modules
    finally:
        graders.forget()


def test_a_bare_function_that_is_vouched_for_is_a_grader_of_its_packages_version(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = home / "source.py"
    source.write_text('def same(task, episode):\n    "The same text."\n    return episode.answer == task.reference\n')
    put_package(home, "bare_graders", source, "[tentalis.graders]\nsame = bare_graders:same\n")
    monkeypatch.setenv("TENTALIS_TRUSTED_PLUGINS", "bare-graders")
    graders = REGISTRIES["tentalis.graders"]
    graders.forget()
    try:
        assert [plugin.error for plugin in graders.plugins] == [""]
        grader = open_grader("same")
    finally:
        graders.forget()
    assert (grader.version, grader.about) == ("1.0", "The same text.")
    assert grade(grader, "Ulm", "Ulm").is_correct


def grade(grader: Grader, answer: str, reference: Any) -> Grade:
    context = AttemptContext(environment="chat", prompt="?", text=answer, steps=(), answer=answer)
    return grader.run(GradedTask(prompt="?", reference=reference), context)


SUPERVISOR = """
from tentalis.core.scoring.judging import Decision

SAID = {"Refund 17.": "approve", "Empty the till.": "reject", "Who knows.": "unsure"}

class Boss:
    name = "boss"

    def decide(self, action):
        return Decision(SAID[action.prompt], "by the book")
"""


def test_a_supervisor_of_a_package_decides_and_what_it_is_not_sure_of_waits(
    home: Path, monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    (home / "source.py").write_text(SUPERVISOR)
    put_package(home, "odd_boss", home / "source.py", "[tentalis.supervisors]\nboss = odd_boss:Boss\n")
    monkeypatch.setenv("TENTALIS_TRUSTED_PLUGINS", "odd-boss")
    SUPERVISORS.forget()
    try:
        found = {}
        for prompt in ("Refund 17.", "Empty the till.", "Who knows.", "Break."):
            task = make_supervised_task(project, RULES | {"supervisor": "boss"}, prompt=prompt)
            proposal = make_proposal(project, task, step_index=1)
            assert run_link(ask_model, Segment.objects.get(kind="decide", subject_id=proposal.pk).pk, 0)
            proposal.refresh_from_db()
            found[prompt] = (proposal.state, proposal.decided_by)
    finally:
        SUPERVISORS.forget()
    assert found == {
        "Refund 17.": ("approved", "agent:program:boss"),
        "Empty the till.": ("rejected", "agent:program:boss"),
        "Who knows.": ("pending", ""), "Break.": ("pending", ""),
    }  # fmt: skip
    assert "boss leaves it to others: boss raised KeyError: 'Break.'" in proposal.reason


MONITORS_PACKAGE = """
from tentalis.core.alarms import Rule

LONG = Rule("long", 0, lambda now: [("", f"{now.unsealed} wait")])
BLIND = Rule("blind", 0, lambda now: [("", str(1 / 0))])
"""


def test_a_monitor_of_a_package_is_a_rule_among_ours_and_a_broken_one_is_a_trouble(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "source.py").write_text(MONITORS_PACKAGE)
    points = "[tentalis.monitors]\nlong = odd_watch:LONG\nblind = odd_watch:BLIND\nother = odd_watch:LONG\n"
    put_package(home, "odd_watch", home / "source.py", points)
    monkeypatch.setenv("TENTALIS_TRUSTED_PLUGINS", "odd-watch")
    MONITORS.forget()
    try:
        found = {one.rule.name: one.words for one in find_all_troubles(FINE)}
        errors = [plugin.error for plugin in MONITORS.plugins if plugin.name == "other"]
    finally:
        MONITORS.forget()
    assert found == {"long": "3 wait", "blind": "the monitor blind raised ZeroDivisionError: division by zero"}
    assert errors == ["ValueError: wanted a rule that is named as its entry point, 'other', found 'long'"]
