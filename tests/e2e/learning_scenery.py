"""What can happen to trainings and adapters beside success: each as a row that its page can show."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.adapters.models import Adapter, Verdict
from apps.rollouts.models import Batch
from apps.scoring.models import RewardModel
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.learning.gate import PairedComparison, compare_paired
from tentalis.core.learning.quarantine_checks import WEAKER
from tests.factories import make_measured

GATES = {
    "G1": (False, "37 distinct tasks are solved, dpo wants 100", 37, 100),
    "G2": (True, "4 of 4 prompts read out and in again are the very tokens that were answered", 4, 4),
    "G3": (True, "no task is split over two batches", 0, 0),
    "G6": (True, "its environments keep nothing between attempts", None, None),
    "G8": (False, "3 of 192 attempts are on held-out tasks, 2 hold one that is measured on", 3, 0),
    "G10": (True, "the base model is not quantised", None, None),
    "G4": (None, "not asked: the trainer told no validation loss", None, None),
    "G5": (True, "answers of 41.2 tokens where 44.0 were: 94%, 50% are wanted", 0.94, 0.5),
    "G7": (True, "loss and gradients are finite, the largest norm is 1.1, 1000 is allowed", 1.1, 1000),
    "G9": (True, "−0.4 points on what the base model could do, at best +0.8; −2.0 are allowed", -0.004, -0.02),
}
ALARMS = (
    ("max_ratio", 12.4, 10.0, 2, "a token became 12.4 times as likely, at most 10 is healthy"),
    ("entropy_ratio", 0.21, 0.3, 3, "entropy 0.130 nats a token where it began at 0.620"),
    ("proxy_gap", 0.22, 0.15, None, "a mean reward of 0.81 where 0.59 is verified, on 96 attempts"),
)
WHY_SUSPICIOUS = (
    "its gain is on known tasks alone: +14.3 points [+9.1, +19.2] on the panel, +1.3 points [−5.0, +7.6] on 150 drawn "
    "anew; over-scaled: at 0.5 of its strength it is +9.0 points [+2.5, +15.1] better"
)


def cost_of(number: int) -> dict[str, float]:
    """What a run of the scenery cost; the people behind every fourth did not use the console, nobody timed them."""
    untimed = 3 if number % 4 == 0 else 0
    return {
        "gpu_s": 61.4 + 3.1 * (number % 5),
        "judge_tokens": 31_200.0 + 450 * number,
        "usd": 0.062 + 0.001 * number,
        "calls": 210,
        "unpriced": 0,
        "human_minutes": 0.0 if untimed else 11.5 + 0.4 * (number % 3),
        "judgements": 3,
        "untimed": untimed,
    }


def spread(items: int, share: float) -> list[float]:
    """(items,) outcomes with this share of them right, evenly spread."""
    right = round(share * items)
    return [float((place + 1) * right // items - place * right // items) for place in range(items)]


def compare(items: int, right: float, before: float) -> dict[str, Any]:
    """A paired comparison as the gate writes it: this share right, before that share."""
    return vars(compare_paired(spread(items, right), spread(items, before)))


def verdict_details(items: int, right: float, before: float) -> dict[str, Any]:
    """Numbers behind a verdict, as the gate writes them."""
    numbers = {"panel": "desk-300", "alarms": [], "faults": [], "noise_std": 0.42, "evidence": {"kind": "verification"}}
    return {"sampled accuracy": compare(items, right, before), **numbers}


def say_points(details: dict[str, Any]) -> str:
    """The difference and its interval, as the gate says them."""
    return PairedComparison(**details["sampled accuracy"]).points


def get_into_trouble(worker: Worker) -> dict[str, TrainingRun]:
    """One run in each state that asks for a person, or for patience."""
    now = timezone.now()
    ended = {"started_at": now - timedelta(minutes=9), "finished_at": now - timedelta(minutes=8)}
    gates = [
        {"gate": gate, "passed": passed, "words": words, "found": found, "wanted": wanted}
        for gate, (passed, words, found, wanted) in GATES.items()
    ]
    alarms = [
        {"detector": detector, "found": found, "allowed": allowed, "update": update, "words": words}
        for detector, found, allowed, update, words in ALARMS
    ]
    refusal = "; ".join(f"{gate}: {GATES[gate][1]}" for gate in ("G1", "G8"))
    metrics = [{"reward": 0.6 + 0.05 * n, "entropy": 0.62 * 0.6**n, "max_ratio": 3.1 * (n + 1)} for n in range(4)]
    scorer = TrainingRun.objects.create(
        project=worker.project,
        worker=worker,
        purpose="reward_model",
        recipe={"schema": "head-recipe/1", "epochs": 40, "learning_rate": 0.003},
        recipe_hash="77ab" * 16,
        state="succeeded",
        attempt=1,
        cost={"gpu_s": 8.2, "judge_tokens": 0.0, "usd": 0.0, "human_minutes": 0.0, "judgements": 0, "untimed": 0},
        summary={"steps": 2_411, "auc": 0.918},
        **ended,
    )
    RewardModel.objects.create(
        project=worker.project,
        worker=worker,
        name=f"{worker.project.slug}.{worker.name}.prm@v1-77ab77ab",
        version=1,
        run_id=scorer.pk,
        uri="file:///heads/77ab77ab",
        sha256="77ab" * 16,
        manifest={},
        state="live",
        words="better: step AUC 0.918 [0.902, 0.934] on 2,411 held-out steps, the judges 0.741",
        measured={"candidate": 0.918, "reference": 0.741, "against": "the judges", "items": 2_411},
    )
    return {
        "refused": _make(worker, "refused", gates=gates[:6], failure=refusal, recipe={"algorithm": "dpo", "beta": 0.1}),
        "alarmed": _make(
            worker,
            "succeeded",
            gates=gates,
            alarms=alarms,
            metrics=metrics,
            cost=cost_of(1),
            summary=metrics[-1],
            **ended,
        ),
        "waiting": _make(
            worker, "queued", waiting_reason="outside its training hours, which begin Mon 22:00 (Europe/Zurich)"
        ),
        "untaken": _make(
            worker,
            "running",
            attempt=7,
            started_at=now - timedelta(minutes=20),
            heartbeat_at=now - timedelta(minutes=20),
            untaken_since=now - timedelta(hours=3),
        ),
        "paused": _make(
            worker,
            "paused",
            waiting_reason="paused by user:alice",
            metrics=metrics,
            cost={"gpu_s": 30.2},
            attempt=1,
            started_at=now - timedelta(minutes=3),
        ),
        "scorer": scorer,
    }


def measure_beside(worker: Worker, adapter: Adapter, accuracy: float) -> None:
    """What the gate tried beside the panel."""
    for model, right in ((adapter, round(150 * accuracy)), (None, 40)):
        if model is not None or not worker.evaluations.filter(adapter=None, purpose="fresh").exists():
            drawn = [1.0] * right + [0.0] * (150 - right)
            make_measured(worker, model, drawn, purpose="fresh", items="desk/150/5e1c", steps=[])
    for scale in WEAKER:
        swept = spread(40, accuracy * (1 - 0.4 * abs(scale - 1)))
        make_measured(worker, adapter, swept, purpose="scale", items="desk-300", scale=scale, steps=[])


def fall_under_suspicion(worker: Worker) -> Adapter:
    """An adapter with everything that the gate can measure, and why it may not serve."""
    run = _make(worker, "succeeded", cost=cost_of(2))
    version = worker.adapters.order_by("-version").values_list("version", flat=True)[0] + 1
    adapter = Adapter.objects.create(
        project=worker.project,
        worker=worker,
        name=f"{worker.name}@v{version}-0badcafe",
        version=version,
        line_version=version,
        parent=worker.adapters.order_by("-version").first(),
        run_id=run.pk,
        uri="file:///adapters/0badcafe",
        sha256="0badcafe" * 8,
        manifest={"worker": worker.name, "rank": 8, "alpha": 24.0},
        state="quarantined",
        suspicion=WHY_SUSPICIOUS,
    )
    outcomes = spread(300, 0.66)
    failed = sum(outcome < 1 for outcome in outcomes[:40])
    swept = {0.1: (2, failed), 0.25: (4, failed), 0.5: (33, 40)}
    scales = {f"{scale:g}": {"tried": tried, "of": 40, "right": right} for scale, (right, tried) in swept.items()}
    for question, outcome, words in (
        (
            "safe",
            "yes",
            f"+7.6 points [+3.4, +11.5] against {adapter.parent}: safe to serve; under suspicion: {WHY_SUSPICIOUS}",
        ),
        ("proved", "inconclusive", "+7.6 points [+3.4, +11.5] against the anchor: too early to tell, 1 of 12 updates"),
    ):
        Verdict.objects.create(
            adapter=adapter,
            question=question,
            outcome=outcome,
            words=words,
            compared_with=adapter.parent.name if adapter.parent else "",
            details=verdict_details(450, 0.66, 0.58) | {"skills": compare(400, 0.88, 0.91), "scales": scales},
        )
    make_measured(worker, adapter, outcomes, items="desk-300", steps=[])
    for model, share in ((adapter, 0.6), (adapter.parent, 0.587)):
        drawn = spread(150, share)
        make_measured(worker, model, drawn, purpose="fresh", items="desk/150/0bad", steps=[])
    for scale, (right, tried) in swept.items():
        places = sorted(range(40), key=lambda place: bool(outcomes[place] == 1.0))[:tried]
        found = spread(tried, right / tried)
        make_measured(worker, adapter, found, purpose="scale", items="desk-300", scale=scale, places=places, steps=[])
    return adapter


def _make(worker: Worker, state: str, **values: Any) -> TrainingRun:
    number = worker.batches.order_by("-number").values_list("number", flat=True)[0] + 1
    batch = Batch.objects.create(
        project=worker.project,
        worker=worker,
        number=number,
        target_tasks=24,
        task_count=24,
        rollout_count=192,
        state="closed",
        closed_at=timezone.now(),
    )
    standing = {"recipe": {"algorithm": "grpo", "learning_rate": 0.004}, "recipe_hash": "5e1c" * 16}
    return TrainingRun.objects.create(
        project=worker.project, worker=worker, batch=batch, state=state, **standing | values
    )
