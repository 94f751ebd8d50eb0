"""2: a judge's scores of programs beside their known quality, by the platform's own way from an answer to a review.

Each answer is handed in by an agent over the older routes, reviewed by the AI manager, who asks the judge, and read
back as feedback. What people would say of it stands in no dispute: the share of hidden cases that it passes in a
sandbox.
"""

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

import httpx
from django.conf import settings

from tentalis.core.grading import GradedTask, UngradedError
from tentalis.core.scoring.agreement import Agreement, bootstrap_interval, spearman, weighted_kappa
from tentalis.core.scoring.protocol import AttemptContext
from tests.bench.experiments.code_tasks import TASKS, CodeTask
from tests.bench.experiments.ground import Bar, Findings, Ground, ModelServer, add_provider, make_table
from tests.bench.experiments.scripted_judge import JUDGES, READS_FOR, run_scripted_judge
from tests.bench.own_work import LoopOpenError, wait_for
from tests.chaos.stage import read_admin_token

TITLE: Final = "A judge against known quality"
GRADES: Final = 4
"""Both are rounded to so many quarters for kappa: people give grades, no shares."""
BINS: Final = 5
PATIENCE_S: Final = 900.0
ANSWER_S: Final = 60.0
AT_ONCE: Final = 8
Unit = Sequence[tuple[float | None, float]]
"""(judged, known) of all answers to one task; tasks are what an interval is over."""


@dataclass(frozen=True)
class Judged:
    """How one judge did.

    Args:
        unscored: answers of which it said nothing that could be read.
        brier: mean squared difference to the known share. error: expected calibration error: by bins of its scores, how
            far its mean is from the mean of the known ones.
    """

    judge: str
    answers: int
    unscored: int
    spearman: float | None
    low: float | None
    high: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    brier: float
    error: float


def run(ground: Ground) -> Findings:
    tasks = TASKS[: ground.choose(len(TASKS), 6)]
    known = grade_answers(ground, tasks)
    with run_scripted_judge() as url:
        judges = {f"scripted, {name}": ModelServer("custom", url, name) for name in JUDGES}
        if ground.judge is not None:
            judges[ground.judge.model] = ground.judge
        rows = [judge_answers(ground, name, server, tasks, known) for name, server in judges.items()]
    answers = sum(map(len, known))
    table = make_table(
        "judge", "answers", "unscored", "Spearman (95%)", "kappa, squared weights (95%)", "Brier", "ECE",
        title=f"2. {TITLE}: {len(tasks)} tasks, {answers} answers",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row.judge, str(row.answers), str(row.unscored), _say(row.spearman, row.low, row.high),
            _say(row.kappa, row.kappa_low, row.kappa_high), f"{row.brier:.3f}", f"{row.error:.3f}",
        )  # fmt: skip
    right = statistics.fmean(value == 1.0 for one in known for value in one)
    reader, inverted = rows[:2]
    bars = {
        "the judge's correlation is above 0": Bar(reader.low, "the interval's low end above 0", (reader.low or 0) > 0),
        "upside down it is below 0": Bar(inverted.high, "the interval's high end below 0", (inverted.high or 0) < 0),
        "every answer judged": Bar(
            reader.unscored + inverted.unscored, "0 unscored", not reader.unscored + inverted.unscored
        ),
    }
    words = [
        f"the scripted judge reads, and runs nothing: {READS_FOR}",
        f"known quality: share of hidden cases passed in a sandbox; {right:.0%} of the answers pass all of theirs. "
        "Intervals: bootstrap over tasks",
    ]
    return Findings(table, {"rows": [asdict(row) for row in rows], "right": round(right, 3)}, bars, words)


def _say(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "not defined"
    return f"{value:+.2f}" + (f" [{low:+.2f}, {high:+.2f}]" if low is not None and high is not None else "")


def grade_answers(ground: Ground, tasks: Sequence[CodeTask]) -> list[list[float]]:
    """(tasks, answers) shares of hidden cases passed, by the platform's own grader in its own sandboxes."""
    settings.SANDBOXES = ground.stack.home.sandboxes
    from apps.evals.graders.code import grade_code

    def grade(task: CodeTask, answer: str) -> float:
        asked = GradedTask(prompt=task.prompt, reference=task.reference)
        episode = AttemptContext(environment="chat", prompt=task.prompt, text=answer, steps=(), answer=answer)
        try:
            return float(grade_code(asked, episode).signals["passed"])
        except UngradedError as error:
            raise LoopOpenError(f"{task.function} could not be graded: {error}") from None

    with ThreadPoolExecutor(2) as pool:
        return [list(pool.map(lambda answer, task=task: grade(task, answer), task.answers)) for task in tasks]


def judge_answers(
    ground: Ground, name: str, server: ModelServer, tasks: Sequence[CodeTask], known: Sequence[Sequence[float]]
) -> Judged:
    """Hand all answers in to a project of its own, and read what its AI manager said of them."""
    team, slug = ground.team, f"judged-{time.time_ns() // 10**6}"
    policy = {"who": "ai", "ai_manager": "llm", "model": f"judge/{server.model}", "undo_s": 0}
    team.create_project(slug=slug, name=f"Judged by {name}", group_size=1, batch_tasks=1_000, review_policy=policy)
    add_provider(team, slug, "judge", server)
    team.create_worker(project=slug, name="coder", kind="outside")
    handed_in = [(task.prompt, answer) for task in tasks for answer in task.answers]
    url = f"{ground.stack.state().addresses['console_url']}/bridge/"
    headers = {"Authorization": f"Bearer {read_admin_token(ground.stack)}"}
    with (
        httpx.Client(base_url=url, headers=headers, timeout=ANSWER_S) as bridge,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        ids = list(pool.map(lambda one: hand_in(bridge, slug, *one), handed_in))

    def find_said() -> Mapping[int, float] | None:
        """Once every task is past its review: what was said of each."""
        states = {one["state"] for one in team.iterate(team.list_tasks, project=slug, limit=200)}
        waits = team.list_reviews(project=slug, state="open", audience="ai", limit=1)["results"]
        if states & {"queued", "working", "scoring"} or waits:
            return None
        return {one["task"]: one["score"] for one in team.iterate(team.list_feedback, project=slug, limit=200)}

    said = wait_for(find_said, f"{name} has not judged everything", patience_s=PATIENCE_S)
    shares = [share for one in known for share in one]
    judged = [said.get(pk) for pk in ids]
    units, start = list[Unit](), 0
    for task in tasks:
        units.append(list(zip(judged[start:], shares[start : start + len(task.answers)], strict=False)))
        start += len(task.answers)
    return measure(name, units)


def hand_in(bridge: httpx.Client, slug: str, prompt: str, answer: str) -> int:
    """The task's id."""
    asked: dict[str, Any] = {"task_type": "chat", "prompt": prompt, "metadata": {"project": slug, "worker": "coder"}}
    task_id = bridge.post("tasks/assign", json=asked).raise_for_status().json()["task_id"]
    told = {"task_id": task_id, "worker_id": "coder", "result": answer, "status": "success"}
    bridge.post("tasks/result", json=told).raise_for_status()
    return int(task_id)


def measure(name: str, units: Sequence[Unit]) -> Judged:
    """All figures of a judge."""

    def correlate(drawn: Sequence[Unit]) -> Agreement:
        return spearman(*_split(drawn))

    def agree(drawn: Sequence[Unit]) -> Agreement:
        judged, known = _split(drawn)
        return weighted_kappa(
            [None if one is None else round(one * GRADES) for one in judged], [round(one * GRADES) for one in known]
        )

    rng = random.Random(0)
    low, high = bootstrap_interval(units, correlate, rng=rng) or (None, None)
    kappa_low, kappa_high = bootstrap_interval(units, agree, rng=rng) or (None, None)
    scored = [(one, other) for unit in units for one, other in unit if one is not None]
    return Judged(
        judge=name, answers=sum(map(len, units)), unscored=sum(map(len, units)) - len(scored),
        spearman=correlate(units).value, low=low, high=high,
        kappa=agree(units).value, kappa_low=kappa_low, kappa_high=kappa_high,
        brier=statistics.fmean((one - other) ** 2 for one, other in scored) if scored else 1.0,
        error=find_calibration_error(scored),
    )  # fmt: skip


def _split(units: Sequence[Unit]) -> tuple[list[float | None], list[float]]:
    pairs = [pair for unit in units for pair in unit]
    return [one for one, _ in pairs], [other for _, other in pairs]


def find_calibration_error(scored: Sequence[tuple[float, float]]) -> float:
    """Expected calibration error over bins of equal width; 1 where nothing was scored."""
    bins: dict[int, list[tuple[float, float]]] = {}
    for judged, known in scored:
        bins.setdefault(min(int(judged * BINS), BINS - 1), []).append((judged, known))
    gaps = [len(held) * abs(statistics.fmean(one - other for one, other in held)) for held in bins.values()]
    return sum(gaps) / len(scored) if scored else 1.0
