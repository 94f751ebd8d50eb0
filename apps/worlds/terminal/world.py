"""The terminal world: small jobs at a shell in a sandbox, judged by what is left of its files and programs."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, ClassVar, Final

from apps.worlds.terminal.sandboxed import COMMAND_S, CommandSaid, TaskSandbox
from tentalis.core.hints import hinted_prompt, write_behind_task
from tentalis.core.terminal import tasks
from tentalis.core.terminal.judging import Judgement, judge
from tentalis.core.terminal.scenes import Scene
from tentalis.core.terminal.shell import DONE, MOST_COMMAND_CHARS, RUN, TOOLS, read_keys, show_result
from tentalis.core.terminal.tasks import Task, read_task
from tentalis.core.terminal.trees import Tree
from tentalis.core.tool_calls import read_arguments
from tentalis.core.worlds import (
    AgentKind,
    AttemptDraft,
    DraftStep,
    EpisodeLimits,
    HintGrammar,
    Observation,
    PanelItem,
    Solution,
    ToolCall,
    Verification,
    World,
)
from tentalis.sandbox.errors import SandboxRefusedError
from tentalis.sandbox.frames import MAX_KEYS_BYTES

_ERROR: Final = "error: "
_SETTLES_WITHIN_S: Final = 2.0
_LOOKS_EVERY_S: Final = 0.02
_LOOKS_AT_REST: Final = 15
"""One after the other that find the same. In looks and not in seconds: where all is slow, both take longer."""


@dataclass(frozen=True)
class _Moment:
    """What a call did.

    Args:
        changed: paths that were otherwise before it.
    """

    changed: frozenset[str]
    is_done: bool


@dataclass(eq=False)
class _State:
    task: Task
    sandbox: TaskSandbox
    now: Tree
    digest: str
    moments: list[_Moment] = field(default_factory=list)
    answered: dict[str, Observation] = field(default_factory=dict)


def _read_hints(text: str) -> str:
    return ", ".join(tasks.find_hints(text))


class TerminalWorld(World):
    """Tasks in, files and programs as the house wants them out."""

    name = "terminal"
    label = "Terminal"
    version = "1"
    made_of = ("tentalis.core.terminal",)
    profile: ClassVar = {"outcome": 0.7, "step_verifier": 0.3}
    manager = "rule-book"
    grammar = HintGrammar(_read_hints, '"pack NAME.tgz" or "let it save"')
    limits = EpisodeLimits(turns=12, tokens=8_000, seconds=600.0, output_chars=4_000)
    idempotent = True

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return TOOLS

    def reset(self, prompt: str, seed: int | None) -> _State:
        """Raises SandboxError where no sandbox can be had: that is nobody's fault who works in it."""
        task = read_task(prompt)
        sandbox = TaskSandbox.make(task.scene)
        return _State(task, sandbox, sandbox.before, sandbox.hash(sandbox.before))

    def act(self, state: _State, call: ToolCall, key: str) -> Observation:
        """Run a command, or end the episode. The sandbox that is gone is raised, and no result."""
        if key in state.answered:
            return state.answered[key]
        said = self._act(state, call, key)
        state.answered[key] = said
        return said

    def _act(self, state: _State, call: ToolCall, key: str) -> Observation:
        if call.name == DONE:
            state.moments.append(_Moment(frozenset(), is_done=True))
            return Observation(text="", ends=True)
        if call.name != RUN:
            return Observation(text=f"{_ERROR}there is no tool {call.name[:100]!r}: there are {RUN}, {DONE}")
        arguments = read_arguments(call.arguments)
        command, screen = (arguments or {}).get("command"), (arguments or {}).get("screen", False)
        is_known = isinstance(screen, bool) and {"command"} <= set(arguments or {}) <= {"command", "screen"}
        if not is_known or not isinstance(command, str) or not command.strip():
            return Observation(text=f'{_ERROR}{RUN}: wanted {{"command": text}}, found {call.arguments[:200]!r}')
        if len(command) > MOST_COMMAND_CHARS:
            found = f"found {len(command):,}"
            return Observation(text=f"{_ERROR}{RUN}: wanted at most {MOST_COMMAND_CHARS:,} characters, {found}")
        if not _is_text(command):
            return Observation(text=f"{_ERROR}{RUN}: wanted a command of plain text, found a NUL or half a character")
        if screen and len(read_keys(command).encode()) > MAX_KEYS_BYTES:
            return Observation(
                text=f"{_ERROR}{RUN}: wanted at most {MAX_KEYS_BYTES:,} bytes for the screen, found more"
            )
        try:
            shown, code = self._run(state.sandbox, command, key=key, screen=screen)
        except SandboxRefusedError as error:  # there is no shell any more, or no room for one
            state.sandbox.require()
            return Observation(text=f"{_ERROR}{RUN}: it cannot be run: {error}")
        before, state.now = state.now, state.sandbox.read_home()
        state.digest = state.sandbox.hash(state.now)
        state.moments.append(_Moment(_list_changed(before, state.now), is_done=False))
        return Observation(text=shown, details={} if code is None else {"exit_code": code})

    def _run(self, sandbox: TaskSandbox, command: str, *, key: str, screen: bool) -> tuple[str, int | None]:
        """What is shown of a command, and its code if it has ended."""
        if screen:
            return sandbox.ask_screen(command)
        said = sandbox.ask(command, key=key)
        return _show(said), said.code

    def hash_state(self, state: _State) -> str:
        """As the last call left it: what runs on in the background is no part of it."""
        return state.digest

    def close(self, state: _State) -> None:
        state.sandbox.destroy()

    def verify_state(self, prompt: str, reference: Any, state: _State, draft: AttemptDraft) -> Verification:
        """Held against what the house wants of files and programs; whatever else was written is wrong."""
        found, now = self._judge(state)
        moments = _add_late(state.moments, _list_changed(state.now, now))
        scores, reasons = _score_steps(draft.steps, moments, found)
        touched = {found.find_wanted(path) for moment in moments for path in moment.changed}
        checks = [
            {"check": "wanted", "path": path, "passes": not words, "words": words} for path, words in found.wanted
        ]
        checks += [{"check": "untouched", "path": path, "passes": False, "words": "changed"} for path in found.strays]
        return Verification(
            outcome=float(found.is_right),
            step_scores=scores,
            step_reasons=reasons,
            missing_steps=sum(bool(words) and path not in touched for path, words in found.wanted),
            details={"actions": len(state.moments), "strays": len(found.strays)},
            checks=checks,
        )

    def solve(self, prompt: str, seed: int | None) -> Solution:
        """The house's commands, behind those that show what has to be seen first."""
        scene, house = read_task(prompt).scene, read_task(prompt).house
        commands = [command for command, _ in (*scene.looks, *house.commands)]
        return _write_solution(commands)

    def cheat(self, prompt: str, seed: int | None) -> Sequence[Solution]:
        """Where programs may take a moment: one that gives every house's answer in turn."""
        return [_write_solution(cheat) for cheat in read_task(prompt).scene.cheats]

    def _judge(self, state: _State) -> tuple[Judgement, Tree]:
        """What is so at the end, and what lies there. Programs may take a moment to do what they were told; what they
        leave is judged once, when it rests: who gives all answers in turn is right at some look."""
        scene = state.task.scene
        found, now = self._look(state)
        if not (scene.ends or scene.keeps) or not state.moments:
            return found, now
        until, rests = time.monotonic() + _SETTLES_WITHIN_S, 1
        while rests < _LOOKS_AT_REST or (_awaits_programs(scene, found) and time.monotonic() < until):
            time.sleep(_LOOKS_EVERY_S)
            before, (found, now) = found, self._look(state)
            rests = rests + 1 if found == before else 1
            if found != before and time.monotonic() > until:
                return found.as_restless(before), now
        return found, now

    def _look(self, state: _State) -> tuple[Judgement, Tree]:
        scene, now = state.task.scene, state.sandbox.read_home()
        programs = state.sandbox.read_programs() if scene.ends or scene.keeps else []
        return judge(state.task, state.sandbox.before, now, programs, state.sandbox.find_strays(now)), now

    def refuse_agent(self, kind: AgentKind) -> str:
        return "" if kind.takes_turns else "cannot call the terminal's tools"

    def find_rules(self, prompt: str) -> Sequence[str]:
        return (read_task(prompt).house.hint,)

    def find_kind(self, prompt: str) -> str:
        try:
            return read_task(prompt).kind
        except tasks.TaskError:
            return "no task"

    def say_limits(self) -> Sequence[str]:
        return tasks.say_forms()

    def draw_prompt(self, rng: Random) -> str:
        """A task of any family that is not held out."""
        return tasks.draw_task(rng, held_out=False).text

    def check_prompt(self, prompt: str) -> None:
        """Refuse what is not exactly one task; raises ValueError."""
        read_task(prompt)

    def is_held_out(self, prompt: str) -> bool:
        """Raises ValueError for what is no task."""
        return tasks.is_held_out(read_task(prompt).text)

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        return super().messages_for(prompt.strip(), system_prompt)

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The conversation with the rule book's hints that are in `hint` behind the task.

        Raises:
            ValueError: the words hold none, or there is no task.
        """
        found = tasks.find_hints(hint)
        if not found:
            raise ValueError(f"the terminal reads hints like {self.grammar.example}; found {hint[:120]!r}")
        return write_behind_task(messages, hinted_prompt("", found), noun=self.noun)

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks; their sampling seeds follow from `seed`."""
        rng = Random(seed)
        return [
            PanelItem.placed(tasks.draw_task(rng, held_out=True).text, seed=seed, place=place) for place in range(size)
        ]

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks of every family in turn, so that none is lost while the others gain."""
        rng, families = Random(seed), list(tasks.FAMILIES)
        return [
            PanelItem.placed(
                tasks.draw_task(rng, held_out=True, families=[families[place % len(families)]]).text,
                seed=seed,
                place=place,
            )
            for place in range(size)
        ]


def _write_solution(commands: Sequence[str]) -> Solution:
    runs = [
        ToolCall(id=f"run-{place}", name=RUN, arguments=json.dumps({"command": command}, ensure_ascii=False))
        for place, command in enumerate(commands)
    ]
    return Solution(calls=[*runs, ToolCall(id="done", name=DONE)])


def _awaits_programs(scene: Scene, found: Judgement) -> bool:
    """Whether a program runs that shall not, or the other way round: which do is no secret of the house."""
    return any(words for path, words in found.wanted if path in {*scene.ends, *scene.keeps})


def _is_text(command: str) -> bool:
    return "\0" not in command and not any("\ud800" <= letter <= "\udfff" for letter in command)


def _list_changed(before: Tree, now: Tree) -> frozenset[str]:
    return frozenset(path for path in {*before, *now} if before.get(path) != now.get(path))


def _add_late(moments: Sequence[_Moment], late: frozenset[str]) -> list[_Moment]:
    """With what programs did after the last look as the last command's doing."""
    found = list(moments)
    for place in reversed(range(len(found))):
        if not found[place].is_done:
            found[place] = replace(found[place], changed=found[place].changed | late)
            break
    return found


def _show(said: CommandSaid) -> str:
    """What a command printed as an agent reads it, and what became of it."""
    text = said.output.decode(errors="replace")
    if "\0" in text or text.count("\ufffd") * 10 > len(text):
        text = f"[{len(said.output):,} bytes that are no text]"
    notes = [f"[{said.dropped:,} more bytes, not kept]"] if said.dropped else []
    notes += [f"[ended from outside after {COMMAND_S:.0f} s]"] if said.timed_out else []
    notes += ["[the shell ended: the next command gets a new one]"] if said.has_ended else []
    return show_result("\n".join(filter(None, [text.removesuffix("\n") if notes else text, *notes])), said.code)


def _score_steps(
    steps: Sequence[DraftStep], moments: Sequence[_Moment], found: Judgement
) -> tuple[list[float | None], list[str]]:
    """A score and a reason a step, by what became of what it touched: a step that touched nothing has none."""
    faults, waiting = dict(found.wanted), list(moments)
    scores: list[float | None] = []
    reasons: list[str] = []
    for step in steps:
        score: float | None = None
        reason = "nothing was changed by it"
        if step.kind != "call":
            reason = "words change nothing"
        elif step.tool_result.startswith(_ERROR) and not step.tool_result.endswith("]"):
            score, reason = 0.0, "the call could not be made"
        elif waiting:
            moment = waiting.pop(0)
            paths = {found.find_wanted(path) for path in moment.changed}
            wrong = [words for path in sorted(paths) if (words := faults.get(path) or found.find_stray(path))]
            if moment.is_done:
                score, reason = float(found.is_right), "" if found.is_right else "the task was not done"
            elif wrong:
                score, reason = 0.0, wrong[0]
            elif any(path in faults for path in paths):
                score, reason = 1.0, ""
        scores.append(score)
        reasons.append(reason)
    return scores, reasons
