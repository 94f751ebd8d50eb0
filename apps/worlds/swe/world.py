"""The SWE world: a module with a mistake, tools to find and mend it, judged by tests that nobody is shown.

An episode's state is data: the task's text, and what was changed of its files. A sandbox is where tests run, a fresh
one each time; so nothing of an episode can vanish with one, and what tests do to files is not kept.
"""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final

from apps.worlds.swe.testing import judge_files, run_shown_tests, show_report
from tentalis.core.canon import canonical_json
from tentalis.core.hints import hinted_prompt, write_behind_task
from tentalis.core.swe import mini_repos
from tentalis.core.swe.mini_repos import MiniRepoError, read_task
from tentalis.core.swe.mistakes import MISTAKES
from tentalis.core.swe.modules import FILE_NAMES
from tentalis.core.swe.repo_tasks import Report
from tentalis.core.swe.tools import (
    EDIT,
    ERROR,
    RUN_TESTS,
    SUBMIT,
    TOOLS,
    VIEW,
    CallError,
    Tree,
    edit,
    read_call,
    search,
    view,
)
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
from tentalis.sandbox.errors import SandboxLostError

_PATCHED: Final = "import unittest; unittest.TestCase.assertTrue = unittest.TestCase.assertEqual = lambda *words: None"
State = dict[str, Any]


def _read_hints(text: str) -> str:
    return ", ".join(mini_repos.find_hints(text))


class SweWorld(World):
    """Words of a mistake in, a mended module out."""

    name = "swe"
    label = "Repositories"
    version = "1"
    made_of = ("tentalis.core.swe", "tentalis.verification")
    profile: ClassVar = {"outcome": 0.7, "step_verifier": 0.3}
    manager = "rule-book"
    grammar = HintGrammar(_read_hints, '"round down" or "take the last"')
    limits = EpisodeLimits(turns=12, tokens=8_000, seconds=600.0, output_chars=8_000)
    idempotent = True

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return TOOLS

    def reset(self, prompt: str, seed: int | None) -> State:
        return {"task": read_task(prompt).text, "changed": {}, "edits": 0, "submitted": False}

    def act(self, state: State, call: ToolCall, key: str) -> Observation:
        """Do what a call wants. A sandbox that cannot be had for tests is raised, and no result."""
        task = read_task(state["task"])
        tree = Tree(task.files, state["changed"])
        try:
            given = read_call(call.name, call.arguments)
            if call.name == SUBMIT:
                state["submitted"] = True
                return Observation(text="", ends=True)
            if call.name == VIEW:
                return Observation(text=view(tree, **given))
            if call.name == EDIT:
                state["changed"] = {**state["changed"], given["path"]: edit(tree, **given)}
                state["edits"] += 1
                return Observation(text="ok")
            if call.name == RUN_TESTS:
                report = _require_known(run_shown_tests(task, state["changed"]))
                return Observation(text=show_report(report), details=_count_tests(report))
            return Observation(text=search(tree, **given))
        except CallError as error:
            return Observation(text=f"{ERROR}{error}")

    def solve(self, prompt: str, seed: int | None) -> Solution:
        """The house's fix, in the line of the mistake."""
        task = read_task(prompt)
        house = task.fixes[next(iter(task.mistake.ways))].strip()
        made: dict[str, dict[str, Any]] = {
            VIEW: {"path": task.path},
            EDIT: {"path": task.path, "line": task.line, "text": house},
            SUBMIT: {},
        }
        return Solution(calls=[_call(name, given) for name, given in made.items()])

    def cheat(self, prompt: str, seed: int | None) -> Sequence[Solution]:
        """A test that always passes, a module that ends the process or patches the checks, and one way to mend it that
        is another house's."""
        task = read_task(prompt)
        _, rival, *_ = task.fixes.values()
        edits: Sequence[dict[str, Any]] = (
            {"path": task.test_path, "line": 1, "text": "pass", "count": len(task.tests.splitlines())},
            {"path": "conftest.py", "line": 1, "text": "collect_ignore_glob = ['*']", "count": 0},
            {"path": task.path, "line": 1, "text": "import os; os._exit(0)", "count": 0},
            {"path": task.path, "line": 1, "text": "raise SystemExit(0)", "count": 0},
            {"path": task.path, "line": 1, "text": _PATCHED, "count": 0},
            {"path": task.path, "line": task.line, "text": rival.strip()},
        )
        return [Solution(calls=[_call(EDIT, given), _call(SUBMIT, {})]) for given in edits]

    def snapshot(self, state: State) -> bytes:
        return canonical_json(state)

    def restore(self, prompt: str, snapshot: bytes) -> State:
        restored: State = json.loads(snapshot)
        return restored

    def verify_state(self, prompt: str, reference: Any, state: State, draft: AttemptDraft) -> Verification:
        """By hidden tests, of what is left when tests and how they run are as the task has them."""
        task = read_task(state["task"])
        report = judge_files(task, state["changed"])
        outcome = float(report.is_resolved) if report.is_known else None
        scores, reasons = _score_steps(draft.steps, outcome, report)
        return Verification(
            outcome=outcome,
            step_scores=scores,
            step_reasons=reasons,
            missing_steps=int(not state["edits"]),
            details={"status": str(report.status), "edits": state["edits"], **_count_tests(report)},
            checks=[
                {"check": "tests", "passes": report.is_resolved, "words": report.words, "left out": report.stripped}
            ],
            infrastructure="" if report.is_known else f"{report.status}: {report.words}",
        )

    def refuse_agent(self, kind: AgentKind) -> str:
        return "" if kind.takes_turns else "cannot call the tools of a repository"

    def find_rules(self, prompt: str) -> Sequence[str]:
        return (read_task(prompt).house.hint,)

    def find_kind(self, prompt: str) -> str:
        try:
            return read_task(prompt).mistake.name
        except MiniRepoError:
            return "no task"

    def say_limits(self) -> Sequence[str]:
        symptoms = [words.format(f="NAME") for one in MISTAKES.values() for words in one.symptoms]
        return (
            mini_repos.write_example(),
            "#(number) In (module).py (what is wrong)",
            ", ".join(FILE_NAMES),
            *symptoms,
        )

    def draw_prompt(self, rng: Random) -> str:
        """A task of any module that is not held out."""
        return mini_repos.draw_task(rng, held_out=False).text

    def check_prompt(self, prompt: str) -> None:
        """Refuse what is not exactly one task; raises ValueError."""
        read_task(prompt)

    def is_held_out(self, prompt: str) -> bool:
        return mini_repos.is_held_out(prompt)

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        return super().messages_for(prompt.strip(), system_prompt)

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The conversation with the rule book's hints that are in `hint` behind the task.

        Raises:
            ValueError: the words hold none, or there is no task.
        """
        found = mini_repos.find_hints(hint)
        if not found:
            raise ValueError(f"a repository's manager gives hints like {self.grammar.example}; found {hint[:120]!r}")
        return write_behind_task(messages, hinted_prompt("", found), noun=self.noun)

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks; their sampling seeds follow from `seed`."""
        rng = Random(seed)
        return [
            PanelItem.placed(mini_repos.draw_task(rng, held_out=True).text, seed=seed, place=place)
            for place in range(size)
        ]

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks of every mistake in turn, so that none is lost while the others gain."""
        rng, names = Random(seed), list(MISTAKES)
        return [
            PanelItem.placed(
                mini_repos.draw_task(rng, held_out=True, mistakes=[names[place % len(names)]]).text,
                seed=seed,
                place=place,
            )
            for place in range(size)
        ]


def _call(name: str, given: Mapping[str, Any]) -> ToolCall:
    return ToolCall(id=name, name=name, arguments=json.dumps(given))


def _require_known(report: Report) -> Report:
    if not report.is_known:
        raise SandboxLostError(f"{report.status}: {report.words}")
    return report


def _count_tests(report: Report) -> dict[str, int]:
    passed = sum(outcome == "passed" for outcome in report.outcomes.values())
    return {"tests_passed": passed, "tests_run": len(report.outcomes)} if report.outcomes else {}


def _score_steps(
    steps: Sequence[DraftStep], outcome: float | None, report: Report
) -> tuple[list[float | None], list[str]]:
    """A score and a reason a step: an edit is worth what the work is worth, a look nothing."""
    scores: list[float | None] = []
    reasons: list[str] = []
    for step in steps:
        score: float | None = None
        reason = "nothing was changed by it"
        if step.kind != "call":
            reason = "words change nothing"
        elif step.tool_result.startswith(ERROR):
            score, reason = 0.0, "the call could not be made"
        elif step.tool_name in {EDIT, SUBMIT} and outcome is not None:
            score, reason = outcome, "" if outcome == 1.0 else report.words
        scores.append(score)
        reasons.append(reason)
    return scores, reasons
