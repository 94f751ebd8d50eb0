"""A project that has lived: every state, score, verdict and failure that the pages can show, made up without chance."""

import math
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Deployment, Verdict
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.checks.models import NamedCheck
from apps.evals.models import Item, Taskset
from apps.feedback.models import Feedback, Hint, Review, StepFeedback
from apps.inference.models import Session
from apps.outbox.models import Segment
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.scoring.models import StepScore
from apps.supervision.models import Proposal
from apps.tasks.models import Attempt, Step, Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.near_duplicates import hash_words, list_bands
from tests.e2e.benchmark_scenery import keep_corrections, learn_a_benchmark, run_a_benchmark
from tests.e2e.gateway_scenery import hear, make_exchange, read_pieces, tell
from tests.e2e.learning_scenery import compare, cost_of, measure_beside, say_points, spread, verdict_details
from tests.e2e.provider_scenery import add_servers
from tests.e2e.quality_scenery import compare_raters, let_a_manager_learn, name_favours, probe_judges, set_control_items
from tests.factories import make_measured, make_project, make_task, make_user, make_worker

ITEMS = 300
BASE_ACCURACY = 0.257
PROMPTS = (
    "Ticket 4127: “Two parcels, 3 kg and 5 kg, to Zurich by Friday. What will it cost me?” Customer since 2019.",
    "Ticket 4131: “I was charged twice for the blue lamp. Please sort it out today.” Order total 84.50.",
    "Ticket 4133: “Can I still send the shoes back? They arrived 29 days ago and I wore them once.”",
    "Ticket 4138: “Our school needs 40 rulers, do we get a discount?” Public body, second order.",
    "Ticket 4140: “The voucher from your letter is refused at the till.” Voucher W-20, basket 61.00.",
)


@dataclass(frozen=True)
class Scene:
    """What the tests look at."""

    project: Project
    alice: User
    worker: Worker
    reviewed: Task
    in_review: Task
    failed: Task
    review: Review
    run: TrainingRun
    failed_run: TrainingRun
    adapter: Adapter
    candidate: Adapter
    dead: Segment
    proposal: Proposal


def build_scene(*, updates: int = 6, slug: str = "desk") -> Scene:
    """A project after `updates` trainings, one more of them failed, with work in every state."""
    alice = make_user("alice")
    project = make_project(slug, rubric="Totals follow the house rules; each step names its rule.")
    Project.objects.filter(pk=project.pk).update(name="Ticket desk")
    project.refresh_from_db()
    worker = make_worker(project, name="desk", kind="desk")
    add_servers(project)
    _measure(worker, None, BASE_ACCURACY)
    adapter: Adapter | None = None
    previous: Adapter | None = None
    reviewed = _make_judged_task(project, worker, None, PROMPTS[0], alice)
    for number in range(1, updates + 1):
        run = _make_run(project, worker, number, adapter, task=reviewed if number == 1 else None)
        previous, adapter = adapter, _make_adapter(project, worker, run, adapter, number, updates)
    if adapter is None:
        raise ValueError(f"updates must be at least 1, found {updates}")
    Deployment.objects.create(worker=worker, adapter=adapter, previous=previous, epoch=updates)
    record(Kind.DEPLOYMENT_MOVED, subject=adapter, by="pipeline", payload={"worker": "desk", "to": adapter.name})
    failed_run = _make_run(project, worker, updates + 1, adapter)
    TrainingRun.objects.filter(pk=failed_run.pk).update(
        state="failed",
        summary={},
        metrics=[],
        failure="the loss was not finite at update 1: learning rate 0.4 is too high",
    )
    Batch.objects.create(
        project=project, worker=worker, number=updates + 2, target_tasks=24, task_count=15, rollout_count=120
    )
    candidate = Adapter.objects.get(worker=worker, version=max(1, updates - 1))
    for state, prompt in zip(("queued", "working", "scoring"), PROMPTS[1:], strict=False):
        make_task(project, worker, prompt=prompt, environment="desk", state=state, group_size=8, submitted_by=alice)
    in_review = _make_scored_task(project, worker, adapter, PROMPTS[2], alice)
    review = Review.objects.create(
        project=project, task=in_review, audience="human", reason="scorers lie 0.41 apart; above the policy's 0.30"
    )
    record(Kind.REVIEW_OPENED, subject=review, by="pipeline", payload={"task": in_review.pk})
    failed = make_task(
        project,
        worker,
        prompt=PROMPTS[4],
        environment="desk",
        group_size=8,
        state="failed",
        failed_link="tasks.work",
        failure="ProviderBusyError: the engine answered 503 five times",
    )
    _converse(project, adapter)
    keep_corrections(adapter, alice)
    learn_a_benchmark(worker, run_a_benchmark(worker, adapter, alice), alice)
    tell(project)
    compare_raters(project, [reviewed, in_review])
    let_a_manager_learn(project)
    set_control_items(project)
    probe_judges(project)
    name_favours(project, adapter.name, reviewed)
    return Scene(
        project=project,
        alice=alice,
        worker=worker,
        reviewed=reviewed,
        in_review=in_review,
        failed=failed,
        review=review,
        run=TrainingRun.objects.filter(worker=worker, state="succeeded").latest("id"),
        failed_run=failed_run,
        adapter=adapter,
        candidate=candidate,
        dead=_bury(failed),
        proposal=_propose(in_review),
    )


def add_task(scene: Scene, attempts: int) -> Task:
    """One more scored task, to see that a page costs the same however much it shows."""
    return _make_scored_task(scene.project, scene.worker, scene.adapter, PROMPTS[3], scene.alice, attempts=attempts)


def _converse(project: Project, adapter: Adapter) -> None:
    """A session of three calls, one of them beside the talk, and a data set that somebody measured on."""
    session = Session.objects.create(
        project=project, key="claw-4127", worker_name="desk", agent="agent:claw", end_user="Customer 4127"
    )
    asked = [
        {"role": "system", "content": "You answer tickets of a shop."},
        {"role": "user", "content": "What does the blue lamp cost with shipping?"},
    ]
    tool = {"role": "tool", "content": "12 in stock, 31.00 each"}
    call = {"function": {"name": "stock", "arguments": '{"item": "blue lamp", "room": 3}'}}
    tools = [{"type": "function", "function": {"name": "stock", "description": "How many of an article there are."}}]
    said = {
        "project": project,
        "session": session,
        "model": "desk",
        "adapter_name": adapter.name,
        "worker_name": "desk",
        "agent": "agent:claw",
        "api": "chat",
        "upstream": "http://127.0.0.1:8300",
    }
    first = make_exchange(
        said | {"request": {"temperature": 0.7, "max_tokens": 512, "stream": True, "tools": tools}},
        prompt=read_pieces("You answer tickets of a shop. What does the blue lamp cost with shipping?"),
        answer=read_pieces("Let me look."),
        messages=asked,
        tool_calls=[call],
        latency_ms=81.2,
        first_token_ms=22.5,
        finish_reason="tool_calls",
        is_streamed=True,
        cost_usd="0.00041",
    )
    second = make_exchange(
        said | {"request": {"temperature": 0.7, "max_tokens": 512}},
        prompt=read_pieces(" 12 in stock, 31.00 each"),
        answer=read_pieces("31.00 and 5.90 for shipping: 36.90 in all. Shall I put it into your basket?"),
        parent=first,
        shared_messages=3,
        shared_tokens=first.prompt_tokens + first.completion_tokens,
        messages=[tool],
        latency_ms=140.9,
        finish_reason="stop",
        cost_usd="0.00067",
    )
    beside = make_exchange(
        said | {"turn": "side", "request": {}, "adapter_name": "", "model": "small"},
        prompt=[],
        answer=[],
        messages=[{"role": "user", "content": "Sum the talk up in one line."}],
        status=503,
        error="every server of small is away",
    )
    hear(session, (first, second, beside))
    NamedCheck.objects.create(
        project=project,
        name="short-and-honest",
        about="No long answers, and no promises.",
        spec={
            "all": [
                {"check": "length", "unit": "words", "max": 80},
                {"check": "forbidden", "words": ["guarantee", "free of charge"]},
            ]
        },
        default_for="chat",
    )
    taskset = Taskset.objects.create(
        project=project,
        name="questions-2026",
        environment="chat",
        about="Questions of one week in March, answered by the shop's own people.",
    )
    for place, split in enumerate(("held_out", "held_out", "train", "skills")):
        prompt = f"How long does a parcel to town {place} take?"
        Item.objects.create(
            taskset=taskset,
            split=split,
            prompt=prompt,
            reference=f"{place + 2} days",
            source=f"questions.jsonl, line {place + 1}",
            content_hash=hash_words(prompt),
            bands=list_bands(prompt),
        )


def _measure(worker: Worker, adapter: Adapter | None, accuracy: float) -> None:
    outcomes = spread(ITEMS, accuracy)
    make_measured(worker, adapter, outcomes, items="desk-300")


def _make_run(
    project: Project, worker: Worker, number: int, parent: Adapter | None, task: Task | None = None
) -> TrainingRun:
    batch = Batch.objects.create(
        project=project,
        worker=worker,
        number=number,
        target_tasks=24,
        task_count=24,
        rollout_count=192,
        state="closed",
        closed_at=timezone.now(),
    )
    subject = task or _make_judged_task(project, worker, parent, PROMPTS[number % len(PROMPTS)], make_user("alice"))
    for rollout in Rollout.objects.filter(task=subject, is_usable=True):
        reward = min(1.0, 0.3 + 0.07 * number + 0.02 * math.sin(2.4 * number))
        Rollout.objects.filter(pk=rollout.pk).update(reward=reward)
        TrainingUse.objects.create(rollout=rollout, batch=batch)
    metrics = [
        {
            "reward": 0.31 + 0.04 * update + 0.02 * math.sin(update),
            "kl": 0.002 * (update + 1) ** 1.3,
            "entropy": 0.62 * 0.93 ** (update + number),
            "mean_length_tokens": 41.0 - 1.5 * number - 0.2 * update,
            "clip_fraction": 0.04 + 0.01 * math.cos(update),
            "max_ratio": 1.4 + 0.1 * math.sin(1.7 * update),
            "grad_norm": 0.8 + 0.3 * math.cos(1.3 * update),
            "tokens_per_s": 41_000 + 900 * math.sin(update),
        }
        for update in range(8)
    ]
    now = timezone.now()
    run = TrainingRun.objects.create(
        project=project,
        worker=worker,
        batch=batch,
        parent=parent,
        attempt=1,
        recipe={"algorithm": "grpo", "learning_rate": 0.004, "lora_rank": 8, "w_rl": 0.7, "w_opd": 0.3},
        recipe_hash="5e1c" * 16,
        state="succeeded",
        metrics=metrics,
        summary={
            "reward": metrics[-1]["reward"],
            "reward_std": 0.34 - 0.02 * number,
            "groups": 24.0,
            "groups_without_signal": 3.0 + number % 3,
            "staleness": 0.25 * (number % 4),
            "updates": 8,
            "rollouts": 192,
            "train_seconds": 1.32,
        },
        name="Half the learning rate" if number == 2 else "",
        tags=["rate"] if number == 2 else [],
        gates=[
            {"gate": "G1", "passed": True, "words": "212 distinct tasks are solved", "found": 212.0, "wanted": 100.0},
            {"gate": "G2", "passed": None, "words": "the model server tells no tokens", "found": None, "wanted": None},
            {"gate": "G7", "passed": True, "words": "losses and norms are finite", "found": 1.1, "wanted": 1000.0},
        ],
        alarms=[
            {
                "detector": "max_ratio",
                "found": 12.4,
                "allowed": 10.0,
                "update": 5,
                "words": "a token became 12.4 times as likely",
            },
        ],
        cost=cost_of(number),
        versions={"torch": "2.13.0", "peft": "0.18.0", "tentalis": "0.1.0"},
        started_at=now - timedelta(seconds=61),
        finished_at=now - timedelta(seconds=58),
    )
    record(Kind.RUN_SUCCEEDED, subject=run, by="pipeline", payload={"from": "running", "to": "succeeded"})
    return run


def _accuracy_of(number: int) -> float:
    return 0.75 - 0.49 * math.exp(-0.42 * number) + 0.012 * math.sin(3 * number)


def _make_adapter(
    project: Project, worker: Worker, run: TrainingRun, parent: Adapter | None, number: int, updates: int
) -> Adapter:
    accuracy = _accuracy_of(number)
    digest = f"{(0x9E3779B1 * number) & 0xFFFFFFFF:08x}"
    adapter = Adapter.objects.create(
        project=project,
        worker=worker,
        name=f"{worker.name}@v{number}-{digest}" if project.slug == "desk" else f"{project.slug}@v{number}-{digest}",
        version=number,
        line_version=number,
        parent=parent,
        run_id=run.pk,
        uri=f"file:///adapters/{digest}",
        sha256=digest * 8,
        manifest={
            "worker": worker.name,
            "rank": 8,
            "alpha": 16.0,
            "files": {"adapter_model.safetensors": {"size_bytes": 91_304}},
        },
        state="deployed" if number == updates else "retired",
        is_anchor=number == updates - 1,
    )
    _measure(worker, adapter, accuracy)
    details = verdict_details(ITEMS, accuracy, BASE_ACCURACY if parent is None else _accuracy_of(number - 1))
    details["alignment"] = {"words": "", "asked": 64, "told": 60, "honest": compare(60, 0.9, 0.933)}
    Verdict.objects.create(
        adapter=adapter,
        question="safe",
        outcome="yes",
        words=f"{say_points(details)} against {parent or 'the base model'}: safe to serve",
        compared_with=parent.name if parent else "",
        details=details,
    )
    if number == updates:
        measure_beside(worker, adapter, accuracy)
    return adapter


def _make_scored_task(
    project: Project, worker: Worker, adapter: Adapter | None, prompt: str, by: User, attempts: int = 4
) -> Task:
    task = make_task(
        project,
        worker,
        prompt=prompt,
        environment="desk",
        state="in_review",
        group_size=attempts,
        submitted_by=by,
        answer="38.60",
        checks=[{"check": "number", "value": 38.6}, {"use": "short-and-honest@1"}],
        score=0.64,
    )
    for kind in (Kind.TASK_SUBMITTED, Kind.TASK_STARTED, Kind.TASK_ATTEMPTED, Kind.TASK_IN_REVIEW):
        record(kind, subject=task, by="user:alice" if kind == Kind.TASK_SUBMITTED else "pipeline")
    for index in range(attempts):
        _make_attempt(task, adapter, index)
    return task


def _make_attempt(task: Task, adapter: Adapter | None, index: int) -> Attempt:
    is_right = index % 2 == 0
    attempt = Attempt.objects.create(
        task=task,
        index=index,
        worker=task.worker,
        adapter=adapter,
        answer="38.60" if is_right else "41.20",
        outcome=1.0 if is_right else 0.0,
        score=0.93 if is_right else 0.35,
        score_details={"weights": {"outcome": 0.5, "step_verifier": 0.5}},
        verification={
            "outcome": 1.0 if is_right else 0.0,
            "checks": [
                {"check": "number", "share": float(is_right), "words": "" if is_right else "its last number is 41.2"},
                {"check": "short-and-honest@1", "share": 1.0, "words": "the answer has 1 word"},
            ],
        },
        elapsed_s=0.18,
    )
    written = (
        ("step", "Two parcels to Switzerland: the rule for neighbouring countries applies.", "", ""),
        ("call", "rate(weight=8, zone=CH)", "rate", "base 32.10, surcharge 9.10"),
        (
            "step",
            "A customer of more than five years pays no surcharge on Fridays." if is_right else "Add the surcharge.",
            "",
            "",
        ),
        ("answer", attempt.answer, "", ""),
    )
    for place, (kind, text, tool, result) in enumerate(written):
        step = Step.objects.create(
            attempt=attempt, index=place, kind=kind, text=text, tool_name=tool, tool_result=result
        )
        score = 1.0 if is_right or place < 2 else 0.0
        StepScore.objects.create(
            attempt=attempt,
            step=step,
            scorer="step_verifier",
            score=score,
            reason="" if score else "The surcharge is waived for old customers.",
        )
    StepScore.objects.create(attempt=attempt, scorer="outcome", score=attempt.outcome)
    StepScore.objects.create(attempt=attempt, scorer="prm", score=None, reason="No judge is configured.")
    return attempt


def _make_judged_task(project: Project, worker: Worker, adapter: Adapter | None, prompt: str, by: User) -> Task:
    task = _make_scored_task(project, worker, adapter, prompt, by)
    Task.objects.filter(pk=task.pk).update(state="done")
    task.refresh_from_db()
    review = Review.objects.create(
        project=project, task=task, audience="human", state="closed", closed_at=timezone.now()
    )
    attempts = list(task.attempts.all())
    feedback = Feedback.objects.create(
        project=project,
        task=task,
        review=review,
        source="human",
        author="user:bob",
        score=0.8,
        text="Good that the rule is named. Remember: customers of more than five years never pay the Friday surcharge.",
        preferred_attempt=attempts[0],
    )
    StepFeedback.objects.create(
        feedback=feedback,
        attempt=attempts[1],
        step=attempts[1].steps.get(index=2),
        score=0.0,
        comment="Here it goes wrong.",
    )
    hint = Hint.objects.create(
        task=task,
        feedback=feedback,
        text="No Friday surcharge for customers of more than five years.",
        source="grammar",
    )
    for attempt in attempts[:-1]:
        Rollout.objects.create(
            project=project,
            worker=worker,
            task=task,
            attempt=attempt,
            adapter=adapter,
            hint=hint,
            is_usable=True,
            reward=attempt.outcome,
            reward_source="human",
        )
    Rollout.objects.create(
        project=project,
        worker=worker,
        task=task,
        attempt=attempts[-1],
        is_usable=False,
        unusable_reason="the server gave no exact tokens",
    )
    record(Kind.TASK_DONE, subject=task, by="pipeline", payload={"from": "learning", "to": "done"})
    return task


def _propose(task: Task) -> Proposal:
    """One that waits, after one that was decided."""
    now = timezone.now()
    values = {
        "project": task.project,
        "task": task,
        "proposed_by": make_user("claw", is_agent=True),
        "kind": "tool",
        "tool": "refund",
        "action": {
            "kind": "tool",
            "tool": "refund",
            "arguments": {"order": 4131, "amount": 84.5, "notify": True, "note": "Charged twice for the blue lamp."},
        },
        "context": PROMPTS[1] + "\nI found two charges of 84.50 for one lamp.\nThe second one has no delivery.",
        "risk": "The money cannot be taken back.",
        "reason": "tools named refund wait for approval",
        "step_index": 2,
    }
    decided = Proposal.objects.create(
        **values,
        state="edited",
        decided_by="user:bob",
        decided_at=now - timedelta(minutes=20),
        decision={"action": {"kind": "tool", "tool": "refund", "arguments": {"order": 4131, "amount": 42.25}}},
    )
    Proposal.objects.filter(pk=decided.pk).update(created_at=now - timedelta(minutes=21))
    record(Kind.PROPOSAL_EDITED, subject=decided, by="user:bob", payload={"task": task.pk, "tool": "refund"})
    waiting = Proposal.objects.create(**values, deadline_at=now + timedelta(minutes=4, seconds=30))
    record(Kind.PROPOSAL_MADE, subject=waiting, by="agent:claw", payload={"task": task.pk, "tool": "refund"})
    return waiting


def _bury(task: Task) -> Segment:
    record(Kind.SEGMENT_DIED, subject=task, by="outbox", payload={"link": "tasks.work", "attempts": 5})
    return Segment.objects.create(
        kind="work",
        subject_id=task.pk,
        project_id=task.project_id,
        state="dead",
        links=["tasks.work", "scoring.score", "feedback.open_review"],
        queue="workers",
        attempts=5,
        errors=[
            {
                "link": "tasks.work",
                "attempt": 5,
                "type": "ProviderBusyError",
                "message": "the engine answered 503",
                "at": "2026-11-20T09:12:00Z",
            }
        ],
        finished_at=timezone.now() - timedelta(minutes=6),
    )
