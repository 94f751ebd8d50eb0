import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from apps.evals.holding import is_kept_by_world
from apps.worlds.episodes import Episode
from apps.worlds.playing import play as play_episodes
from apps.worlds.sandboxes import open_client
from apps.worlds.terminal.sandboxed import TaskSandbox
from apps.worlds.terminal.world import TerminalWorld
from tentalis.core.terminal.judging import Judgement
from tentalis.core.terminal.programs import WORKER
from tentalis.core.terminal.scenes import HOME, NAMES
from tentalis.core.terminal.tasks import draw_task, is_held_out, read_task
from tentalis.core.terminal.trees import file
from tentalis.core.worlds import AttemptDraft, ToolCall, TurnAsked, TurnDraft, World
from tests.worlds.terminal.playing import play, playing

PACK = "#12 Pack the folder mail for the courier."
STOP = "#7 Stop the worker mail."
START = "#7 Start the service mail."


def test_a_shell_lasts_and_its_exit_codes_are_told(world: TerminalWorld) -> None:
    with playing(world, PACK) as script:
        assert script.run("cd mail; name='a b'; sleep 300 & true") == "[exit 0]"
        assert (
            script.run('pwd; echo "$name"; jobs')
            == f"/{HOME}/mail\na b\n[1]+  Running                 sleep 300 &\n[exit 0]"
        )
        assert script.run("printf half; exit_with() { return 7; }; exit_with") == "half\n[exit 7]"
        assert script.run("exit 3") == "[the shell ended: the next command gets a new one]\n[exit 3]"
        assert script.run("pwd; echo $name") == "/work\n\n[exit 0]"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("type", "{}", "error: there is no tool 'type': there are run, done"),
        ("run", "{}", """error: run: wanted {"command": text}, found '{}'"""),
        ("run", '{"command": 7}', "error: run: wanted"),
        ("run", '{"command": "ls", "as": "root"}', "error: run: wanted"),
        ("run", "ls", "error: run: wanted"),
        (
            "run",
            json.dumps({"command": "x" * 1_000_000}),
            "error: run: wanted at most 20,000 characters, found 1,000,000",
        ),
        ("run", json.dumps({"command": "echo \ud800"}), "error: run: wanted"),
        ("run", json.dumps({"command": "echo \0"}), "error: run: wanted a command of plain text"),
    ],
    ids=["tool", "nothing", "a number", "more", "no JSON", "long", "half", "NUL"],
)
def test_a_call_that_cannot_be_made_is_said(world: TerminalWorld, name: str, arguments: str, words: str) -> None:
    with playing(world, PACK) as script:
        assert script.call(name, arguments).text.startswith(words)
        found = script.verify()
    assert found.outcome == 0.0
    assert found.step_scores == [0.0]
    assert found.step_reasons == ["the call could not be made"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("head -c 100000000 /dev/zero | tr '\\0' x", "more bytes, not kept]\n[exit 0]"),
        ("head -c 3000 /dev/urandom", "[3,000 bytes that are no text]\n[exit 0]"),
        ("kill -9 $$", "[the shell ended: the next command gets a new one]\n[exit 137]"),
        ("head -c 90000000 /dev/zero > full", "No space left on device\n[exit 1]"),
    ],
)
def test_what_a_command_runs_into_is_said(world: TerminalWorld, command: str, words: str) -> None:
    with playing(world, PACK) as script:
        assert script.run(command).endswith(words)
        assert len(script.run("echo on")) == len("on\n[exit 0]")
        assert script.verify().outcome == 0.0


def test_a_command_that_hangs_is_ended_and_said(world: TerminalWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(world, PACK) as script:
        said = script.state.sandbox.ask("sleep 60", key="x", timeout_s=0.2)
    assert (said.timed_out, said.code) == (True, 137)


def test_a_sandbox_that_is_gone_is_raised_and_rewards_nobody(world: TerminalWorld) -> None:
    class Leaving:
        """A model that works well, in a sandbox that somebody else ends."""

        def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
            call = ToolCall(id="c", name="run", arguments=json.dumps({"command": "tar -czf mail.tgz mail"}))
            if asked[0].turn:
                open_client().destroy(episode.state.sandbox.name)
            return [TurnDraft(draft=AttemptDraft(), calls=[call])]

    episode = Episode(key="e", prompt=PACK)
    play_episodes([episode], world=world, agent=Leaving(), model="m")
    assert episode.lost.startswith(("SandboxRefusedError", "SandboxLostError"))
    assert episode.verification is None
    assert open_client().describe()["sandboxes"] == 0


def test_whatever_else_is_written_is_wrong(world: TerminalWorld) -> None:
    right = ["tar -czf mail.tgz mail"]
    assert play(world, PACK, right)[0].outcome == 1.0
    assert play(world, PACK, ["echo x > /tmp/x; echo x > /dev/shm/x", *right])[0].outcome == 1.0
    for extra in ("echo x > more", "chmod 600 mail/*", "rm -r store", "echo x > /etc/ld.so.preload", "touch /opt/x"):
        found, _ = play(world, PACK, [*right, extra])
        assert found.outcome == 0.0, extra
        assert found.checks[-1]["check"] == "untouched"
    assert play(world, PACK, ["echo x > more", "rm more", *right])[0].outcome == 1.0


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        (r"touch $'a\xff\xfeb' 'a\xff\xfeb'", [r"a\\xff\\xfeb", r"a\xff\xfeb"]),
        (r"ln -s x $'l\xff'; ln -s $'\xff' k", ["k", r"l\xff"]),
        (r"touch $'/opt/\xff'", [r"/opt/\xff"]),
    ],
    ids=["file", "link", "outside"],
)
def test_a_name_that_is_no_text_is_as_wrong_as_another(world: TerminalWorld, command: str, paths: list[str]) -> None:
    class Naming:
        """A model that works well, and makes this beside it."""

        def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
            run = json.dumps({"command": f"tar -czf mail.tgz mail; {command}"})
            call = ToolCall(id="d", name="done") if asked[0].turn else ToolCall(id="c", name="run", arguments=run)
            return [TurnDraft(draft=AttemptDraft(), calls=[call])]

    episode = Episode(key="e", prompt=PACK)
    play_episodes([episode], world=world, agent=Naming(), model="m")
    assert episode.lost == ""
    assert episode.verification is not None
    assert episode.verification.outcome == 0.0
    checks = episode.verification.checks
    assert [one["path"] for one in checks if one["check"] == "untouched"] == paths
    json.dumps(checks, ensure_ascii=False).encode()


def test_who_locks_the_home_or_moves_it_away_is_wrong_and_the_episode_goes_on(world: TerminalWorld) -> None:
    lock = ("chmod 0 .", "chmod 600 mail", "touch /x; chmod 600 /", "cd /; mv work tmp/work; touch work")
    for command in lock:
        found, _ = play(world, PACK, ["tar -czf mail.tgz mail", command, "echo more"])
        assert found.outcome == 0.0, command
    assert play(world, PACK, ["chmod 0 .", "chmod 755 /work", "tar -czf mail.tgz mail"])[0].outcome == 1.0


def test_programs_are_looked_at_and_not_asked(world: TerminalWorld) -> None:
    with playing(world, STOP) as script:
        script.run("echo drained > run/mail.state; rm run/mail.pid; ps() { true; }; kill() { true; }")
        found = script.verify()
    assert found.outcome == 0.0
    assert [one["words"] for one in found.checks if not one["passes"]] == ["bin/mail.sh: wanted it ended, and it runs"]


@pytest.mark.parametrize("prompt", [STOP, START])
def test_who_gives_every_houses_answer_in_turn_has_given_none(world: TerminalWorld, prompt: str) -> None:
    (cheat,) = world.cheat(prompt, 0)
    with playing(world, prompt) as script:
        for call in cheat.calls:
            assert not script.call(call.name, call.arguments).text.startswith("error: ")
        found = script.verify()
    assert (found.outcome, found.step_scores[-1]) == (0.0, 0.0), found.checks


def test_what_two_looks_in_a_row_find_otherwise_is_wrong() -> None:
    one, other = Judgement([("a", ""), ("b", "b: gone")], ["x"]), Judgement([("a", "a: gone"), ("b", "b: gone")], ["y"])
    for first, second in ((one, other), (other, one)):
        assert second.as_restless(first) == Judgement(
            [("a", "a: wanted it at rest, and it still changes"), ("b", "b: gone")], ["x", "y"]
        )


def test_the_same_prompt_is_the_same_state_and_the_same_calls_lead_to_the_same(world: TerminalWorld) -> None:
    commit = "git init -q; git config user.email x; git config user.name x; git add .; git commit -qm x"
    commands = ["cd mail; word=7", "tar -czf ../mail.tgz .", commit]
    hashes = []
    for _ in range(2):
        with playing(world, PACK) as script:
            told = [world.hash_state(script.state)]
            for command in commands:
                script.run(command)
                told.append(world.hash_state(script.state))
            hashes.append(told)
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == 4


def test_workers_have_the_same_numbers_however_long_one_takes_to_begin(world: TerminalWorld) -> None:
    """Delayed before each of its lines in turn, without a process of its own."""
    delay = "until=$((${EPOCHREALTIME/./} + 50000)); while ((${EPOCHREALTIME/./} < until)); do :; done"
    scene, numbers = read_task(STOP).scene, []
    for place in range(1, len(WORKER.splitlines())):
        files = dict(scene.files)
        for path, one in files.items():
            if path.endswith(".sh") and one.content:
                first, *rest = one.content.decode().splitlines()
                lines = [first, *rest[: place - 1], delay, *rest[place - 1 :]]
                files[path] = file("\n".join([*lines, ""]), one.mode)
        sandbox = TaskSandbox.make(replace(scene, files=files))
        sandbox.destroy()
        numbers.append({path: one.content for path, one in sandbox.before.items() if path.endswith(".pid")})
    assert len(numbers[0]) == 2
    assert numbers == [numbers[0]] * len(numbers)


def test_a_call_that_is_asked_again_is_not_made_again(world: TerminalWorld) -> None:
    with playing(world, PACK) as script:
        call = ToolCall(id="c", name="run", arguments=json.dumps({"command": "echo x >> more; wc -l < more"}))
        assert world.act(script.state, call, "k").text == world.act(script.state, call, "k").text == "1\n[exit 0]"
        assert world.act(script.state, call, "l").text == "2\n[exit 0]"


def test_held_out_tasks_are_never_drawn_to_train_on(world: TerminalWorld) -> None:
    rng = Random(1)
    assert not any(is_held_out(world.draw_prompt(rng)) for _ in range(300))
    panel, skills = world.panel(60, 3), world.skills(24, 3)
    assert all(world.is_held_out(item.prompt) for item in [*panel, *skills])
    assert not any(is_kept_by_world("terminal", f"tar -czf {name}.tgz {name}") for name in NAMES)
    assert panel == world.panel(60, 3)
    assert [item.prompt for item in panel] != [item.prompt for item in world.panel(60, 4)]
    assert len({draw.find_kind(item.prompt).partition(",")[0] for draw in (world,) for item in skills}) == 12


def test_what_is_no_task_is_refused_in_words(world: TerminalWorld) -> None:
    with pytest.raises(ValueError, match="wanted a task like '#4711 Pack the folder mail"):
        world.check_prompt("Pack everything")
    world.check_prompt(f" {PACK}\n")
    assert world.find_kind("Pack everything") == "no task"
    assert len(world.say_limits()) == 14


def test_the_managers_hint_stands_behind_the_task(world: TerminalWorld) -> None:
    assert world.find_rules(PACK) == ("pack NAME.tgz",)
    opening = world.messages_for(f"{PACK}\n", "Be quick.")
    hinted = world.hinted_messages(opening, "Next time pack NAME.tgz, please")
    assert hinted[-1]["content"] == f"{PACK} Hint: pack NAME.tgz."
    assert opening[-1]["content"] == PACK
    with pytest.raises(ValueError, match="the terminal reads hints like"):
        world.hinted_messages(opening, "do better")
    assert isinstance(world, World)


def test_every_rule_is_told_by_a_hint_that_is_read_again() -> None:
    rng = Random(2)
    for _ in range(200):
        task = draw_task(rng, held_out=False)
        hints = [way.hint for way in task.scene.ways.values()]
        assert len(set(hints)) == 3
        assert [TerminalWorld.grammar.read(f"So: {hint}.") for hint in hints] == hints


@pytest.mark.parametrize("command", ["rm /bin; exit", "mv /work /elsewhere; exit"])
def test_who_leaves_no_room_for_a_shell_is_told_so_and_is_wrong(world: TerminalWorld, command: str) -> None:
    """An episode that was lost for it would say nothing of who did that, and be played anew."""
    with playing(world, PACK) as script:
        script.run(command)
        assert script.run("echo on").startswith("error: run: it cannot be run: ")
        found = script.verify()
    assert found.outcome == 0.0
    assert found.step_scores == [0.0, 0.0] or found.step_scores == [None, 0.0]


@pytest.mark.parametrize(
    "left",
    [
        "truncate -s 100G hole; tar -cSf mail.tgz hole; rm hole",
        "head -c 4000000 /dev/zero | gzip > z; for n in $(seq 200); do cp z z$n; done",
        "for n in $(seq 400); do mkdir d; cd d; done",
    ],
    ids=["holes", "much", "deep"],
)
def test_what_takes_much_to_be_looked_at_is_wrong_like_all_else(world: TerminalWorld, left: str) -> None:
    with playing(world, PACK) as script:
        assert "[exit" in script.run(left)
        found = script.verify()
    assert found.outcome == 0.0
    assert not found.infrastructure
