"""The scene of the browser tests, grown: more rows of everything its pages show."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import Model
from django.utils import timezone

from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.adapters.models import Adapter, Verdict
from apps.audit.models import AuditEntry
from apps.calibration.models import Comparison, Rater
from apps.console.models import SavedView
from apps.evals.models import Evaluation, Item, Taskset
from apps.feedback.models import BulkJudgement, Feedback, GoldItem, Hint, ReviewSkip, StepFeedback
from apps.inference.models import Exchange, Session
from apps.outbox.models import Segment
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.scoring.models import StepScore
from apps.supervision.models import Proposal
from apps.tasks.models import Attempt, Step, Task
from apps.training.models import TrainingRun
from tests.e2e.scenery import Scene

ATTEMPTS = 8
FIRST = 1000
"""Numbers from here on are taken by nobody in the scene."""


def grow(scene: Scene, rows: int, *, first: int = FIRST) -> None:
    """`rows` more of each kind, numbered from `first`, and more attempts at the tasks whose pages are looked at."""
    project = scene.project
    _grow_house(scene, rows, first)
    done = _copy(scene.reviewed, rows)
    waiting = _copy(scene.in_review, rows)
    _copy(scene.failed, rows)
    _copy(scene.review, rows, task=lambda n: waiting[n], claimed_by=None, lease_until=None)
    for task in (scene.reviewed, scene.in_review):
        _grow_attempts(task)
    for task in done:
        GoldItem.objects.create(project=project, task=task, expected={}, truth="verified", added_by=scene.alice)
    _grow_judgements(scene, done, first)
    _grow_learning(scene, done, first)
    for row in (*Proposal.objects.filter(project=project).order_by("pk")[:2], scene.dead):
        _copy(row, rows, **({"subject_id": lambda n: first + n} if isinstance(row, Segment) else {}))
    session = Session.objects.filter(project=project).earliest("pk")
    _copy(session, rows, key=lambda n: f"claw-{first + n}")
    for exchange in list(Exchange.objects.filter(session=session).order_by("pk")[:2]):
        _copy(exchange, rows, public_id=lambda n: uuid.uuid4())
    taskset = Taskset.objects.filter(project=project).earliest("pk")
    _copy(Item.objects.filter(taskset=taskset).earliest("pk"), rows, content_hash=lambda n: f"{first + n}")
    _copy(taskset, rows, name=lambda n: f"questions-{first + n}")
    benchmark, course = project.benchmarks.earliest("pk"), project.courses.earliest("pk")
    _copy(benchmark, rows, name=lambda n: f"bench-{first + n}")
    _copy(course, rows, state="done")
    _copy(course.rounds.earliest("pk"), rows, number=lambda n: first + n)
    _copy(AuditEntry.objects.filter(project_id=project.pk).earliest("pk"), rows)


def _grow_house(scene: Scene, rows: int, first: int) -> None:
    users = [User.objects.create(username=f"person-{number}") for number in range(first, first + rows)]
    Member.objects.bulk_create(Member(project=scene.project, user=user, role=Role.REVIEWER) for user in users)
    others = [
        Project.objects.create(slug=f"other-{number}", name=f"Other {number}") for number in range(first, first + rows)
    ]
    Member.objects.bulk_create(Member(project=other, user=scene.alice, role=Role.VIEWER) for other in others)
    ApiToken.objects.bulk_create(
        ApiToken(
            key_id=f"grown-{n}", name=f"token {n}", user=scene.alice, project=scene.project, expires_at=timezone.now()
        )
        for n in range(first, first + rows)
    )
    SavedView.objects.bulk_create(
        SavedView(project=scene.project, owner=scene.alice, page=page, name=f"view {number}", query="state=done")
        for page in ("tasks", "reviews", "audit")
        for number in range(first, first + rows)
    )
    _copy(scene.worker, rows, name=lambda n: f"desk-{first + n}")
    BulkJudgement.objects.bulk_create(
        BulkJudgement(project=scene.project, by=scene.alice, total=3, done=3, state="done") for _ in range(rows)
    )
    ReviewSkip.objects.bulk_create(
        ReviewSkip(review=scene.review, user=user, reason="too long", then="others") for user in users
    )


def _grow_attempts(task: Task) -> None:
    first = task.attempts.earliest("index")
    kept = list(Step.objects.filter(attempt=first)), list(StepScore.objects.filter(attempt=first))
    for attempt in _copy(first, ATTEMPTS - task.attempts.count(), index=lambda n: 20 + n, exchange=None):
        steps = {step.index: _copy(step, 1, attempt=attempt)[0] for step in kept[0]}
        for score in kept[1]:
            _copy(score, 1, attempt=attempt, step=steps[score.step.index] if score.step else None)


def _grow_judgements(scene: Scene, done: Iterable[Task], first: int) -> None:
    given = Feedback.objects.filter(task=scene.reviewed).earliest("pk")
    words = list(StepFeedback.objects.filter(feedback=given))
    rater = Rater.objects.get(project=scene.project, handle="user:bob")
    attempt = scene.reviewed.attempts.earliest("index")
    for number, task in enumerate(done):
        review = _copy(scene.review, 1, task=task, state="closed", closed_at=timezone.now())[0]
        feedback = _copy(given, 1, task=task, review=review)[0]
        _copy(given, 1, review=None)
        for word in words:
            _copy(word, 1, feedback=feedback)
        Hint.objects.create(task=task, feedback=feedback, text="No surcharge.", source="grammar")
        Rater.objects.create(
            project=scene.project, handle=f"user:person-{first + number}", kind="person", bad=9, good=9
        )
        Comparison.objects.create(
            project=scene.project,
            rater=rater,
            attempt=attempt,
            said=1,
            truth=0,
            source=("human", "peer")[number % 2],
            against=f"user:person-{first + number}",
            counts=True,
        )


def _grow_learning(scene: Scene, done: Iterable[Task], first: int) -> None:
    attempt = scene.reviewed.attempts.earliest("index")
    rollout = Rollout.objects.filter(task=scene.reviewed, is_usable=True).earliest("pk")
    verdict = Verdict.objects.filter(adapter=scene.adapter).earliest("pk")
    panel = Evaluation.objects.on_panels().filter(adapter=scene.adapter).earliest("pk")
    taught = Batch.objects.get(run=scene.run)
    for number, task in enumerate(done):
        batch: Batch = _copy(taught, 1, number=first + number)[0]
        run: TrainingRun = _copy(scene.run, 1, batch=batch)[0]
        adapter: Adapter = _copy(
            scene.adapter,
            1,
            name=f"desk@v{first + number}-grown",
            version=first + number,
            line_version=first + number,
            run_id=run.pk,
            state="retired",
            is_anchor=False,
        )[0]
        _copy(verdict, 1, adapter=adapter)
        _copy(panel, 1, adapter=adapter)
        made: Attempt = _copy(attempt, 1, task=task, adapter=adapter, exchange=None)[0]
        learned: Rollout = _copy(rollout, 1, task=task, attempt=made, adapter=adapter)[0]
        TrainingUse.objects.create(rollout=learned, batch=batch)
        also: Attempt = _copy(attempt, 1, task=task, index=1, exchange=None)[0]
        use: Rollout = _copy(rollout, 1, task=task, attempt=also)[0]
        TrainingUse.objects.create(rollout=use, batch=taught)
    _copy(scene.failed_run, 1, batch=_copy(taught, 1, number=first + 50_000)[0])


def _copy(row: Model, count: int, **changes: Callable[[int], Any] | Any) -> list[Any]:
    """As many more like this row, but for what is changed; a callable is given the copy's number."""
    values = {
        field.attname: getattr(row, field.attname)
        for field in row._meta.concrete_fields
        if not field.primary_key and field.name not in changes
    }
    model: Any = type(row)
    made = []
    for number in range(count):
        varied = {name: change(number) if callable(change) else change for name, change in changes.items()}
        made.append(model.objects.create(**values, **varied))
    return made
