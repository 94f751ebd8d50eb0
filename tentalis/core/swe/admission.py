"""Whether a task may be used: what its tests did on the base and on the gold patch decides it, round by round."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from tentalis.core.swe.leakage import LEAKS_FROM
from tentalis.core.swe.repo_tasks import RepoTask, TestRun

ROUNDS: Final = 3
"""Each with another seed of Python's hashes, so that what hangs on the order of a set shows."""
MISSING: Final = "missing"


class Dropped(NamedTuple):
    """A test that is not asked any more."""

    test: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What came of it.

    Args:
        is_admitted: else it is quarantined, for `reason`.
        task: with the tests that are left.
        leak: share of the fix that stands in the issue (`leakage.measure_leak`).
        is_known: False where its environment or the machine said why nothing was found out: it may be tried again.
    """

    is_admitted: bool
    reason: str
    task: RepoTask
    leak: float = 0.0
    dropped: Sequence[Dropped] = field(default_factory=tuple)
    is_known: bool = True
    task_hash: str = ""
    environment_hash: str = ""

    def to_json(self) -> dict[str, Any]:
        told = {name: value for name, value in asdict(self).items() if name != "task"}
        told |= {"state": "admitted" if self.is_admitted else "quarantined", "name": self.task.name}
        counts = {"fail_to_pass": len(self.task.fail_to_pass), "pass_to_pass": len(self.task.pass_to_pass)}
        return {**told, **counts, "dropped": [one._asdict() for one in self.dropped]}


def decide_admission(task: RepoTask, base: Sequence[TestRun], gold: Sequence[TestRun], *, leak: float) -> Admission:
    """Drop the tests that are flaky, and admit the task if what is left tells the gold patch from the base each time.

    Args:
        base, gold: a run a round.
    """

    def refuse(reason: str, dropped: Sequence[Dropped] = ()) -> Admission:
        return Admission(is_admitted=False, reason=reason, task=task, leak=leak, dropped=dropped)

    for name, runs in (("base", base), ("gold patch", gold)):
        for run in runs:
            if run.tampering:
                return refuse(f"the {name} changes how it is tested: {run.tampering[0]}")
            if run.timed_out:
                return refuse(f"tests on the {name} take longer than {task.timeout_s:g} s")
    dropped = [Dropped(test, why) for test in task.tests if (why := _find_flaky(test, base, gold))]
    gone = {one.test for one in dropped}
    left = replace(
        task,
        fail_to_pass=[one for one in task.fail_to_pass if one not in gone] or list(task.fail_to_pass),
        pass_to_pass=[one for one in task.pass_to_pass if one not in gone],
    )
    if gone.issuperset(task.fail_to_pass):
        return refuse(f"no test is left that tells a fix from none: {dropped[0].test} {dropped[0].why}", dropped)
    before, behind = _outcomes(base[0]), _outcomes(gold[0])
    for tests, found, wanted, words in (
        (left.fail_to_pass, before, False, "passes on the base, and should fail there"),
        (left.pass_to_pass, before, True, "does not pass on the base, and should"),
        (left.fail_to_pass, behind, True, "does not pass on the gold patch"),
        (left.pass_to_pass, behind, True, "passes on the base, and not on the gold patch"),
    ):
        for test in tests:
            if (found.get(test, MISSING) == "passed") is not wanted:
                run = base[0] if found is before else gold[0]
                said = run.words.get(test) or run.ended or found.get(test, MISSING)
                return refuse(f"{test} {words}: {said}"[:500], dropped)
    if leak >= LEAKS_FROM:
        return refuse(f"the issue tells the fix: {leak:.0%} of it stands there", dropped)
    return Admission(is_admitted=True, reason="", task=left, leak=leak, dropped=dropped)


def _find_flaky(test: str, base: Sequence[TestRun], gold: Sequence[TestRun]) -> str:
    for name, runs in (("base", base), ("gold patch", gold)):
        passed = [_outcomes(run).get(test) == "passed" for run in runs]
        if len(set(passed)) > 1:
            return f"passes {sum(passed)} times of {len(passed)} on the {name}"
    return ""


def _outcomes(run: TestRun) -> Mapping[str, str]:
    return run.outcomes
