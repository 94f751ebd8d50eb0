"""What worlds have in common in which a repository is mended: tools, a state that is data, and tests at the end.

An episode's state is the task's text, and what was changed of its files. A sandbox is where tests run, a fresh one each
time; so nothing of an episode can vanish with one, and what tests do to files is not kept.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from apps.worlds.sandboxes import open_client
from tentalis.core.canon import canonical_json
from tentalis.core.swe.patches import Files, write_patch
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
    Observation,
    ToolCall,
    Verification,
    World,
)
from tentalis.sandbox.errors import SandboxLostError
from tentalis.verification.verifying import KeptInMemory, Verifier

SHOWN_FAILURES: Final = 3
VERIFIER: Final = Verifier(open_client, kept=KeptInMemory())
"""Finds out once what the same patch of a task comes to."""
State = dict[str, Any]


class RepositoryWorld(World):
    """A repository with something to mend. Which one, and how it is judged, says the world."""

    made_of: ClassVar[Sequence[str]] = ("apps.worlds.repositories", "tentalis.core.swe", "tentalis.verification")
    profile: ClassVar[Mapping[str, float]] = {"outcome": 0.7, "step_verifier": 0.3}
    idempotent = True

    def read_prompt(self, prompt: str) -> str:
        """The task of a prompt, as its state names it. Raises ValueError where it is none."""
        raise NotImplementedError

    def find_files(self, task: str) -> Files:
        """Its repository, as it is before anything is mended."""
        raise NotImplementedError

    def run_shown_tests(self, task: str, patch: str) -> Report | None:
        """What the tests that everybody may see say of a patch; None: it has none."""
        raise NotImplementedError

    def judge(self, task: str, patch: str) -> Report:
        """What the tests that decide say of a patch."""
        raise NotImplementedError

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return TOOLS

    def reset(self, prompt: str, seed: int | None) -> State:
        return {"task": self.read_prompt(prompt), "changed": {}, "edits": 0, "submitted": False}

    def act(self, state: State, call: ToolCall, key: str) -> Observation:
        """Do what a call wants. A sandbox that cannot be had for tests is raised, and no result."""
        tree = Tree(self.find_files(state["task"]), state["changed"])
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
                report = self.run_shown_tests(state["task"], self._write_patch(state))
                if report is None:
                    return Observation(text="this repository has no tests to show")
                return Observation(text=show_report(_require_known(report)), details=_count_tests(report))
            return Observation(text=search(tree, **given))
        except CallError as error:
            return Observation(text=f"{ERROR}{error}")

    def snapshot(self, state: State) -> bytes:
        return canonical_json(state)

    def restore(self, prompt: str, snapshot: bytes) -> State:
        restored: State = json.loads(snapshot)
        return restored

    def verify_state(self, prompt: str, reference: Any, state: State, draft: AttemptDraft) -> Verification:
        """By the tests that decide, of what is left when tests and how they run are as the task has them."""
        report = self.judge(state["task"], self._write_patch(state))
        outcome = report.outcome
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

    def _write_patch(self, state: State) -> str:
        changed = {path: text.encode() for path, text in state["changed"].items()}
        return write_patch(self.find_files(state["task"]), changed)


def write_call(name: str, given: Mapping[str, Any]) -> ToolCall:
    return ToolCall(id=name, name=name, arguments=json.dumps(given))


def show_report(report: Report) -> str:
    """For an agent: how many tests pass, and what is wrong with the first that do not."""
    if not report.outcomes:
        return f"no test ran: {report.words}"
    lines = [f"failed {test.rpartition('.')[2]}" for test, outcome in report.outcomes.items() if outcome != "passed"]
    passed = len(report.outcomes) - len(lines)
    words = [report.words.rpartition(": ")[2]] if lines else []
    return "\n".join([f"{passed} of {len(report.outcomes)} tests pass", *lines[:SHOWN_FAILURES], *words])


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
