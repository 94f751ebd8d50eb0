"""Raters of a project that has lived: two people mostly right, and a judging scorer that approves everything."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.utils import timezone

from apps.accounts.models import Project
from apps.calibration.models import Comparison, FavourScreen
from apps.calibration.services import JudgedRow, Sitting, record_comparisons
from apps.feedback.models import Feedback, GoldItem
from apps.inference.models import Provider
from apps.judges.models import JudgeProbe
from apps.tasks.models import Task
from apps.training.models import ManagerRun, TrainingRun
from apps.workers.models import Worker
from tentalis.core.scoring.judge_probes import ProbeFigure


def compare_raters(project: Project, tasks: Iterable[Task]) -> None:
    """One sitting an attempt: what was said of it and of its steps, beside what the world verified."""
    for task in tasks:
        for attempt in task.attempts.prefetch_related("steps"):
            truth = attempt.outcome or 0.0
            items = [(attempt.pk, None, truth), *((attempt.pk, step.pk, truth) for step in attempt.steps.all())]
            bob = [(*item, truth if place or attempt.index else 1 - truth) for place, item in enumerate(items)]
            sittings = [
                Sitting("user:bob", "person", [_row(item, "verified") for item in bob]),
                Sitting("scorer:prm", "scorer", [_row((*item, 1.0), "verified") for item in items]),
                Sitting(
                    "user:alice",
                    "person",
                    [_row((*item, truth), "verified") for item in items]
                    + [
                        JudgedRow(pk, step, truth, said, Comparison.Source.PEER, "user:bob")
                        for pk, step, truth, said in bob
                    ],
                ),
            ]
            record_comparisons(project_id=project.pk, sittings=sittings)
            record_comparisons(
                project_id=project.pk,
                sittings=[
                    Sitting(
                        "scorer:prm",
                        "scorer",
                        [
                            JudgedRow(pk, step, 1.0, said, Comparison.Source.HUMAN, "user:bob", False)
                            for pk, step, _, said in bob
                        ],
                    )
                ],
            )


def name_favours(project: Project, adapter: str, task: Task) -> None:
    """Two groups who favour an adapter: one to be looked into, one that somebody looked into."""
    found = {"line": adapter, "tasks": 32, "share": 0.97, "expected": 0.41, "known_right": None, "known_items": 0}
    found |= {"cleared": False, "examples": [task.pk], "found_at": timezone.now().isoformat(), "p": 0.004}
    open_one = {"key": "a1", "raters": ["user:hugo", "user:ines"], "dismissed_by": "", "dismiss_reason": ""}
    why = {"dismissed_by": "user:alice", "dismiss_reason": "They wrote the returns guide, and check against it."}
    known = {"share": 0.88, "known_right": 0.94, "known_items": 18, "p": 0.03}
    groups = [found | open_one, found | known | why | {"key": "b2", "raters": ["user:bob"]}]
    FavourScreen.objects.create(project=project, screened_at=timezone.now(), raters=6, lines=4, groups=groups)


def set_control_items(project: Project) -> None:
    """The latest two judged tasks are control items: one by a manager's judgement, one by what the world verified."""
    judged = (
        Feedback.objects.filter(project=project, author__startswith="user:").order_by("-task_id").distinct("task_id")
    )
    for feedback, truth in zip(judged[:2], (GoldItem.Truth.REFERENCE, GoldItem.Truth.VERIFIED), strict=False):
        attempts = {str(one.index): one.outcome for one in feedback.task.attempts.all()}
        expected = {"score": feedback.score, "attempts": attempts}
        GoldItem.objects.create(
            project=project, task=feedback.task, expected=expected, truth=truth, added_by=feedback.task.submitted_by
        )


def let_a_manager_learn(project: Project) -> None:
    """Three fits of a rubric manager: refused for want of audits, used and replaced, in use."""
    before = {"order, new: ship": -1.5, "order, new: gift": 1.5, "the sums are right": 0.0}
    after = {"order, new: ship": 2.4, "order, new: gift": -2.1, "the sums are right": 1.1}
    aucs = [(None, None, 0.0), (0.48, 0.61, 0.05), (0.58, 0.94, 0.77)]
    words = [
        "wanted 4 good and as many bad audits, found 3 and 13; its word counts only where it is audited for 2 rounds",
        "not worse: AUC 0.61 [0.44, 0.78] on audits it had not seen, 0.48 [0.31, 0.66] as it judged",
        "not worse: AUC 0.94 [0.87, 1.00] on audits it had not seen, 0.58 [0.45, 0.71] as it judged",
    ]
    for place, state in enumerate(("refused", "replaced", "applied")):
        judged, refitted, gate = aucs[place]
        known = judged is not None and refitted is not None
        ManagerRun.objects.create(
            project=project,
            manager="agent:rubric:desk",
            state=state,
            before=before,
            weights=after,
            audits=16 * (place + 1),
            words=words[place],
            metrics={
                "of": "0" * 64,
                "until": place,
                "auc_before": judged,
                "auc_before_interval": [judged - 0.15, judged + 0.15] if judged is not None else [0.0, 1.0],
                "auc_after": refitted,
                "auc_after_interval": [refitted - 0.1, min(1.0, refitted + 0.1)]
                if refitted is not None
                else [0.0, 1.0],
                "gate": gate,
                "control": 0.49 if known else None,
                "stds": dict.fromkeys(after, 0.6),
                "influence": 0.08 if known else None,
                "influence_interval": [-0.03, 0.19] if known else [-2.0, 2.0],
            },
        )


def probe_judges(project: Project) -> None:
    """One judge above its bar, one below it, one of which too little was scored, and one that could not be asked."""
    server = project.providers.order_by("pk").first()
    fair = {"known": 0.94, "position": 0.04, "length": 0.06, "markdown": -0.02, "bullets": 0.05, "json": -0.31}
    for model, changed, words in (
        ("judge-large", {}, ""),
        ("judge-small", {"position": 0.42, "length": 0.31}, "position +0.42 [+0.28, +0.55], wanted -0.15 to +0.15"),
        ("judge-tiny", dict.fromkeys(fair), ""),
    ):
        found = {**fair, **changed}
        figures = [_tell_figure(name, value, name in changed) for name, value in found.items()]
        verdict = "below" if words else "unscored" if changed else "above"
        _probe(project, server, model, state="done", figures=figures, verdict=verdict, words=words)
    _probe(project, server, "judge-away", state="failed", failure="ProviderBusyError: it answered 503 five times")


def _tell_figure(name: str, value: float | None, is_bad: bool) -> dict[str, Any]:
    if value is None:
        unscored = {"no verdict in its answer": 24}
        return vars(ProbeFigure(name=name, items=0, unscored=unscored, verdict="unscored"))
    verdict: Any = "below" if is_bad else "above"
    return vars(ProbeFigure(name=name, value=value, low=value - 0.14, high=value + 0.13, items=24, verdict=verdict))


def _probe(project: Project, server: Provider | None, model: str, **values: Any) -> None:
    JudgeProbe.objects.create(
        project=project, provider=server, model=model, version="3f9a1c", asked_by="user:alice",
        finished_at=timezone.now(), **values,
    )  # fmt: skip


def train_a_manager(worker: Worker, tasks: Sequence[int]) -> ManagerRun:
    """A manager that is a language model, with an adapter of its own in use, the second one; returned."""
    values: dict[str, Any] = {"project": worker.project, "manager": f"agent:verdict:{worker.name}", "kind": "adapter"}
    parent = None
    for place, (before, after, audits) in enumerate(((0.52, 0.71, 48), (0.71, 0.86, 81))):
        digest = f"{place}ad4" * 16
        run = TrainingRun.objects.create(
            project=worker.project,
            worker=worker,
            purpose="manager",
            state="succeeded",
            attempt=1,
            recipe={"algorithm": "sft", "epochs": 3},
            recipe_hash=digest,
            started_at=timezone.now(),
            finished_at=timezone.now(),
        )
        parent = ManagerRun.objects.create(
            **values,
            state="applied" if place else "replaced",
            run=run,
            parent=parent,
            audits=audits,
            learnt_from=list(tasks),
            adapter={
                "name": f"{worker.project.slug}.{worker.name}.verdict@v{place + 1}-{digest[:8]}",
                "uri": f"file:///managers/{digest[:8]}",
                "sha256": digest,
            },
            words=f"better than a coin and not worse: AUC {after} on audits neither had seen, {before} before",
            metrics={
                "held_out": list(range(27)),
                "auc_before": before,
                "auc_before_interval": [before - 0.17, before + 0.17],
                "auc_after": after,
                "auc_after_interval": [after - 0.15, min(1.0, after + 0.14)],
                "control": 0.52,
                "gate": round((2 * after - 1) ** 2, 3) if place else 0.0,
            },
        )
    assert parent is not None
    return parent


def _row(item: tuple[int, int | None, float, float], source: str) -> JudgedRow:
    attempt, step, truth, said = item
    return JudgedRow(attempt, step, said, truth, source)
