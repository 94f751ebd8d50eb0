"""A world is examined before it trains: broken ones are refused, ours pass, and a changed one is examined again."""

import json
import logging
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.audit.models import AuditEntry
from apps.worlds import certificates
from apps.worlds.certificates import certify, find_standing, settle_standing
from apps.worlds.examining import examine
from apps.worlds.identity import hash_world
from apps.worlds.models import WorldCertificate
from apps.worlds.registry import WORLDS
from tentalis.core.worlds import Verification, World
from tentalis.sandbox.client import start_host
from tests.apps.worlds.broken_worlds import BROKEN, SafeWorld
from tests.apps.worlds.tally_package import TallyWorld
from tests.sandbox.conftest import find_obstacle


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a world one of the registered ones."""

    def put(world: World) -> World:
        monkeypatch.setitem(vars(WORLDS), "_loaded", ({**WORLDS._things, world.name: world}, ()))
        return world

    return put


def test_a_world_in_which_nothing_is_wrong_passes(install: Any) -> None:
    found = examine(install(SafeWorld()))
    assert found.faults == []
    assert {one.name for one in found.checks if one.passed} >= {"oracle", "idleness", "guesses", "tampering", "spread"}
    assert found.figures["steps"] > 100
    assert found.sha256 == hash_world(SafeWorld())


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_world_is_refused_and_what_is_broken_is_named(install: Any, broken: type[SafeWorld]) -> None:
    found = examine(install(broken()))
    assert not found.passed
    assert BROKEN[broken] in {one.name for one in found.faults}, [vars(one) for one in found.faults]
    assert all(one.words for one in found.checks)


def test_two_dozen_broken_worlds_are_told_from_one_that_is_not() -> None:
    assert len(BROKEN) >= 12


@pytest.mark.parametrize("name", ["desk", "workbench"])
def test_the_worlds_that_come_with_the_platform_pass(name: str) -> None:
    world = WORLDS.get(name)
    assert world is not None
    found = examine(world)
    assert found.faults == []
    assert {one.name for one in found.checks if one.passed} >= {"held out", "oracle", "guesses", "verifier", "spread"}


def test_a_world_in_sandboxes_passes(tmp_path: Path, settings: Any) -> None:
    """The other one takes longer: tests/worlds/swe/test_playing.py has it examined at its own host."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    settings.SANDBOXES = tmp_path
    world = WORLDS.get("terminal")
    assert world is not None
    with start_host(tmp_path, warm=1):
        found = examine(world, tasks=1, seed=2)
    assert found.faults == []
    assert {one.name for one in found.checks if one.passed} >= {
        "oracle",
        "guesses",
        "tampering",
        "oracle again",
        "spread",
    }


def test_an_examination_says_the_same_every_time(install: Any) -> None:
    world = install(SafeWorld())
    first, second = examine(world), examine(world)
    assert first.checks == second.checks


def test_a_world_that_knows_no_right_way_is_not_refused_for_it_and_that_is_said(install: Any) -> None:
    class Unsolved(SafeWorld):
        def solve(self, prompt: str, seed: int | None) -> None:  # type: ignore[override]
            return None

    found = examine(install(Unsolved()))
    told = {one.name: one for one in found.checks}
    assert (found.passed, told["oracle"].passed, told["spread"].passed) == (True, None, None)
    assert "nobody has shown that its tasks can be done" in told["oracle"].words


@pytest.mark.django_db
def test_nothing_trains_in_a_world_that_nobody_examined_or_that_is_another_now(
    install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = install(SafeWorld())
    assert find_standing(world).may_train is False
    assert "safe@1+" in find_standing(world).words
    assert find_standing(world).words.endswith("was never examined; examine it: tentalis world doctor safe")
    assert settle_standing(world, by="gate").may_train is False  # a stranger's: somebody asks for it
    made = certify(world, by="user:alice")
    assert (made.passed, find_standing(world).may_train) == (True, True)
    monkeypatch.setattr(certificates, "hash_world", lambda world: "f" * 64)
    assert find_standing(world).may_train is False
    assert f"is another than was examined ({made.sha256[:12]})" in find_standing(world).words


@pytest.mark.django_db
def test_nothing_trains_in_a_world_that_failed_and_every_examination_is_on_record(install: Any) -> None:
    world = install(next(iter(BROKEN))())
    made = certify(world, by="user:alice")
    found = find_standing(world)
    assert (made.passed, found.may_train) == (False, False)
    assert "failed its examination: oracle: 12 of 12 right ways are not worth 1" in found.words
    entry = AuditEntry.objects.get(kind="world.examined")
    assert (entry.actor, entry.subject_id, entry.payload["passed"]) == ("user:alice", made.pk, False)
    assert "oracle" in entry.payload["faults"]


@pytest.mark.django_db
def test_a_control_that_is_wrong_on_purpose_trains_where_somebody_says_why(install: Any) -> None:
    world = install(next(iter(BROKEN))())
    call_command("examine_world", "safe", "--accept", "a control", stdout=StringIO())
    found = find_standing(world)
    assert (found.may_train, found.certificate and found.certificate.passed) == (True, False)
    assert found.words.endswith("; allowed by command line: a control")
    assert AuditEntry.objects.get(kind="world.examined").payload["accepted"] == "a control"


@pytest.mark.django_db
def test_a_world_of_ours_is_examined_when_it_is_first_trained_in_and_then_not_again() -> None:
    world = WORLDS.get("desk")
    assert world is not None
    assert settle_standing(world, by="gate").may_train is True
    assert settle_standing(world, by="gate").may_train is True
    assert WorldCertificate.objects.get().examined_by == "gate"


@pytest.mark.django_db
def test_a_plain_conversation_is_told_right_from_wrong_by_checks_and_people() -> None:
    world = WORLDS.get("chat")
    assert world is not None
    found = settle_standing(world, by="gate")
    assert found.may_train is None
    assert found.words.startswith("chat is not examined: nothing of its own says what is right")
    assert not WorldCertificate.objects.exists()


@pytest.mark.django_db
def test_the_command_examines_keeps_and_tells(install: Any) -> None:
    install(SafeWorld())
    said = StringIO()
    call_command("examine_world", "safe", "--tasks", "4", stdout=said)
    told = json.loads(said.getvalue())
    assert (told["passed"], told["id"]) == (True, WorldCertificate.objects.get().pk)
    assert {"name": "tasks", "passed": True, "words": "6 are tried, 2 of them held out"} in told["checks"]
    with pytest.raises(CommandError, match="wanted one of"):
        call_command("examine_world", "moon")


@pytest.mark.django_db
def test_a_world_that_acts_outside_is_tried_only_by_who_says_so(
    install: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("TALLY_EFFECTS", str(tmp_path / "effects.sqlite"))
    install(TallyWorld())
    with pytest.raises(CommandError, match="tries in tally change something beyond it: say --acts"):
        call_command("examine_world", "tally")
    said = StringIO()
    call_command("examine_world", "tally", "--acts", stdout=said)
    assert json.loads(said.getvalue())["checks"] == [
        {"name": "tasks", "passed": False, "words": "it makes up no tasks, and none were given to try"}
    ]
    said = StringIO()
    call_command("examine_world", "tally", "--acts", "--prompt", "3 pears", stdout=said)
    told = {one["name"]: one["passed"] for one in json.loads(said.getvalue())["checks"]}
    assert (told["tasks"], told["oracle"], told["held out"]) == (True, None, None)


class SpeaksInHalves(SafeWorld):
    def verify_state(self, *told: Any) -> Verification:
        raise RuntimeError("it fell over: \0 \ud800")


@pytest.mark.django_db
def test_what_a_world_says_is_kept_whatever_it_says(install: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="apps.worlds.verifying")  # half a character: a report of it is unreadable
    made = certify(install(SpeaksInHalves()), by="user:alice")
    assert not made.passed
    assert any("it fell over: \ufffd \ufffd" in one["words"] for one in made.checks)
