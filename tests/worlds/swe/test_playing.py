"""Who mends a mistake as the house does is right, and nobody else."""

import json
from pathlib import Path
from random import Random

import pytest
from django.test import override_settings

from apps.worlds import sandboxes
from apps.worlds.examining import examine
from apps.worlds.swe.world import SweWorld
from tentalis.core.swe.mini_repos import MiniRepo, draw_task, make_task
from tentalis.core.swe.mistakes import MISTAKES
from tentalis.core.worlds import AgentKind
from tentalis.sandbox.errors import SandboxLostError
from tests.worlds.swe.playing import Script, at_random, do_nothing, mend_in, play, solve

TASKS = [draw_task(Random(place), held_out=place % 2 == 0, mistakes=[name]) for place, name in enumerate(MISTAKES)]


@pytest.mark.parametrize("task", TASKS, ids=[task.mistake.name for task in TASKS])
def test_of_the_ways_to_mend_it_the_houses_alone_is_right(world: SweWorld, task: MiniRepo) -> None:
    found = [play(world, task.text, agent).outcome for agent in (solve, mend_in(0), mend_in(1), mend_in(2))]
    assert found == [1.0, 1.0, 0.0, 0.0]


def test_who_does_nothing_or_anything_is_wrong(world: SweWorld) -> None:
    rng = Random(3)
    outcomes = [play(world, task.text, at_random(rng)).outcome for task in TASKS]
    assert sum(outcome or 0.0 for outcome in outcomes) <= 1.0  # one in a hundred is right by luck
    assert play(world, TASKS[0].text, do_nothing).outcome == 0.0


def test_the_tests_that_everybody_sees_pass_with_any_way_and_are_told_shortly(world: SweWorld) -> None:
    script = Script(world, make_task("depot", 416).text)
    before = script.do("run_tests")
    assert before.startswith("1 of 2 tests pass\nfailed test_1\n"), before
    for way in script.task.mistake.ways:
        script.mend(way)
        assert script.do("run_tests") == "2 of 2 tests pass"
    assert len(before) < 120


def test_a_verification_says_what_every_step_was_worth(world: SweWorld) -> None:
    right, wrong = play(world, TASKS[0].text, solve), play(world, TASKS[0].text, mend_in(1))
    assert right.step_scores == [None, 1.0, 1.0]
    assert wrong.step_scores == [0.0, 0.0]
    assert "have to pass do not" in wrong.step_reasons[0]
    assert (right.details["status"], wrong.details["status"]) == ("resolved", "f2p_partial")
    assert right.details["tests_run"] == right.details["tests_passed"] > wrong.details["tests_passed"]
    idle = play(world, TASKS[0].text, do_nothing)
    assert (idle.missing_steps, idle.step_scores) == (1, [0.0])


def test_what_an_agent_does_to_tests_is_left_out(world: SweWorld) -> None:
    script = Script(world, TASKS[0].text)
    path = script.task.test_path
    script.do("edit", path=path, line=1, text="pass", count=len(script.task.tests.splitlines()))
    assert script.do("run_tests").startswith("no test ran: nothing is left of it: tests/")
    assert script.verify().outcome == 0.0
    script.mend(next(iter(script.task.mistake.ways)))
    found = script.verify()
    assert found.outcome == 1.0
    assert found.checks[0]["left out"] == [(path, "a test")]


def test_who_cheats_is_wrong(world: SweWorld) -> None:
    for code in ("import os; os._exit(0)", "raise SystemExit(0)", "__import__('sys').modules.clear()"):
        script = Script(world, TASKS[0].text)
        script.do("edit", path=script.task.path, line=1, text=code, count=0)
        assert script.verify().outcome == 0.0


def test_a_state_is_data_and_the_same_again(world: SweWorld) -> None:
    first, other = Script(world, TASKS[0].text), Script(world, TASKS[0].text)
    hashes = [[world.hash_state(one.state)] for one in (first, other)]
    for told, script in zip(hashes, (first, other), strict=True):
        for name in ("zero", "gap"):
            script.mend(name) if name in script.task.fixes else script.mend(next(iter(script.task.fixes)))
            told.append(world.hash_state(script.state))
    assert hashes[0] == hashes[1]
    assert hashes[0][0] != hashes[0][1]
    snapshot = world.snapshot(first.state)
    assert world.hash_state(world.restore(first.prompt, snapshot)) == hashes[0][-1]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("fly", "{}", "error: there is no tool 'fly': there are search, view, edit, run_tests, submit"),
        ("view", "{", "error: view: wanted path, start (may be left out), end (may be left out), found '{'"),
        ("view", "[]", "error: view: wanted path"),
        ("view", '{"path": 1}', "error: view: wanted path as a text, found 1"),
        ("view", '{"path": "depot.py", "start": true}', "error: view: wanted start as a whole number, found True"),
        ("view", '{"path": "depot.py", "start": 99}', "error: depot.py has 11 lines: wanted some of them"),
        ("view", '{"path": "none.py"}', "error: there is no file 'none.py': there are depot.py, tests/test_depot.py"),
        ("view", '{"path": "../etc/passwd"}', "error: view: wanted a path within the repository"),
        ("view", '{"path": "/etc/passwd"}', "error: view: wanted a path within the repository"),
        ("edit", '{"path": "depot.py", "line": 99, "text": "x"}', "error: depot.py has 11 lines: wanted lines of it"),
        ("edit", '{"path": "depot.py", "line": 0, "text": "x"}', "error: depot.py has 11 lines: wanted lines of it"),
        ("edit", '{"path": "depot.py", "line": 1}', "error: edit: wanted path, line, text, count (may be left out)"),
        ("edit", '{"path": "depot.py", "line": 1, "text": "a\\u0000"}', "error: edit: wanted text as plain text"),
        ("edit", '{"path": "depot.py", "line": 1, "text": "\\ud800"}', "error: edit: wanted path, line, text"),
        ("search", '{"text": ""}', "depot.py:1 "),
        ("submit", '{"now": 1}', "error: submit: wanted nothing, found"),
    ],
)
def test_a_call_that_cannot_be_made_is_told_in_words_and_changes_nothing(
    world: SweWorld, name: str, arguments: str, words: str
) -> None:
    script = Script(world, make_task("depot", 416).text)
    before = world.hash_state(script.state)
    said = script.call(name, arguments)
    assert said.text.startswith(words), said.text
    assert not said.ends
    assert world.hash_state(script.state) == before


def test_an_argument_of_a_megabyte_is_refused_in_words(world: SweWorld) -> None:
    script = Script(world, make_task("depot", 416).text)
    for name, more in (("edit", {"path": "depot.py", "line": 1}), ("search", {})):
        said = script.do(name, text="x" * 2**20, **more)
        assert said.endswith("found 1,048,576"), said
    assert "wanted path of at most" in script.do("view", path="x" * 2**20)


def test_tests_that_hang_are_ended_and_are_no_reward(world: SweWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tentalis.core.swe.mini_repos.TIMEOUT_S", 1.0)
    task = make_task("tower", 5)
    script = Script(world, task.text)
    script.do("edit", path=task.path, line=1, text="while True: pass", count=0)
    assert script.do("run_tests").endswith("\nits tests took longer than 1 s")
    found = script.verify()
    assert (found.outcome, found.details["status"]) == (0.0, "timeout")


def test_where_no_sandbox_can_be_had_nothing_is_known_and_nothing_rewarded(
    world: SweWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "PATIENCE_S", 0.1)  # nobody starts one here
    task = make_task("cabin", 77)
    script = Script(world, task.text)
    script.mend(next(iter(task.mistake.ways)))
    with override_settings(SANDBOXES=tmp_path):
        found = script.verify()
        assert found.outcome is None
        assert found.infrastructure.startswith("infra_error: no sandbox host answers in")
        with pytest.raises(SandboxLostError, match="no sandbox host answers"):
            script.call("run_tests")
    assert script.verify().outcome == 1.0  # it goes on where one can


def test_hints_are_the_houses_rules_and_stand_behind_the_task(world: SweWorld) -> None:
    task = make_task("depot", 416)
    assert world.find_rules(task.text) == ("nothing less than zero",)
    messages = world.messages_for(task.text, "")
    (hinted,) = world.hinted_messages(messages, "Please: nothing less than zero!")
    assert hinted["content"] == f"{task.text} Hint: nothing less than zero."
    with pytest.raises(ValueError, match="gives hints like"):
        world.hinted_messages(messages, "do it well")


def test_only_agents_that_take_turns_work_here(world: SweWorld) -> None:
    assert world.refuse_agent(AgentKind(name="x", label="X"))
    assert not world.refuse_agent(AgentKind(name="x", label="X", takes_turns=True))


def test_json_of_a_verification_can_be_stored(world: SweWorld) -> None:
    assert json.dumps(play(world, TASKS[1].text, solve).to_json())


def test_the_worlds_doctor_finds_nothing_wrong(world: SweWorld) -> None:
    found = examine(world, tasks=2)
    assert not found.faults, found.faults
    assert {one.name for one in found.checks if one.passed is None} == set()
    assert {one.name for one in found.checks} >= {"oracle", "guesses", "tampering", "oracle again", "spread"}


@pytest.mark.parametrize("path", ["字" * 100, "x" * 200 + "/y" * 50])
def test_a_file_that_no_disk_takes_is_refused_when_it_is_written(world: SweWorld, path: str) -> None:
    script = Script(world, TASKS[0].text)
    assert script.do("edit", path=path, line=1, text="x = 1", count=0).startswith("error: edit: wanted ")
    assert script.verify().outcome == 0.0
