"""A benchmark that the project has, runs of it with what was said in them and what people say of that, corrections that
must hold, and a worker that learns it."""

import zlib
from typing import Any

from django.db.models import Avg

from apps.accounts.models import User
from apps.adapters.models import Adapter
from apps.evals.models import Benchmark, Evaluation, HumanGrade, Item, ItemTry, RegressionCase, Taskset, TryRecord
from apps.evals.panels import key_of, read_item
from apps.training.models import Course, CourseRound, TrainingRun
from apps.workers.models import Worker
from tentalis.core.alignment.scenarios import Twin
from tentalis.core.learning.curriculum import CurriculumRule
from tentalis.core.packing import pack_float32, pack_int32
from tentalis.core.worlds import Verification
from tests.e2e.gateway_scenery import read_pieces
from tests.e2e.learning_scenery import spread
from tests.factories import make_measured
from tests.scripted_stances import agree, answer_honestly, list_suite

TRAIN = 24
HELD_OUT = 40
KINDS = ("rates", "returns", "vouchers")
GRADED = {0: (0.0, 1.0), 1: (1.0, 1.0), 2: (0.75, 1.0), 3: (0.0, 0.0)}
"""Place of an item -> what bob says of its answer, and alice."""
REFUSED = (
    "refused: −1.2 points [−6.0, +3.5] against desk@v2: refused: it forgets: plain text has a perplexity of 31.2 where "
    "the base model has 24.9: +0.226 nats a token [+0.203, +0.251], 0.10 are allowed (on 30 of 60 tasks)"
)
CORRECTED = ("Ticket 12: a parcel to Bern.", "Ticket 17: a lamp without its shade.", "Ticket 19: two vouchers at once.")


def run_a_benchmark(worker: Worker, adapter: Adapter, by: User) -> Benchmark:
    """One with runs of the base model and of adapters on the same items; of the last, the adapter's, with what was said
    and people's grades."""
    project = worker.project
    taskset = Taskset.objects.create(
        project=project, name="desk-rates", environment="desk", about="Desk: tickets of the kind rate."
    )
    Item.objects.bulk_create(
        Item(taskset=taskset, split=split, prompt=f"Ticket {n}: a parcel.", content_hash=f"{n:064x}", bands=[n])
        for n, split in enumerate(["train"] * TRAIN + ["held_out"] * HELD_OUT)
    )
    benchmark = Benchmark.objects.create(
        project=project, name="desk/rate", entry="desk/rate", entry_version="1", taskset=taskset, licence="MIT",
        source="desk/rate 1, seed 0", content_hash="5f1d",
    )  # fmt: skip
    keys = [key_of(read_item(item)) for item in taskset.items.filter(split="held_out").order_by("pk")]
    older = Adapter.objects.filter(worker=worker, version__lt=adapter.version).order_by("-version")[:2]
    models = [(None, 0.4), *((one, 0.5 - 0.05 * place) for place, one in enumerate(older)), (adapter, 0.8)]
    for model, accuracy in models:
        made = make_measured(
            worker, model, spread(HELD_OUT, accuracy), purpose="report", asked_by=by.handle, benchmark=benchmark,
            items="desk-rates@1/held_out", item_set_hash="5f1d", asked_with={"graders": ["number@1"]},
            taskset=taskset, split="held_out", keys=keys,
        )  # fmt: skip
        for place, kind in enumerate(KINDS):
            places = range(place, HELD_OUT, len(KINDS))
            made.item_tries.filter(place__in=places).update(category=kind, grader="number@1", answer="36.90")
    _keep_what_was_said(made)
    tries = {one.place: one for one in made.item_tries.filter(place__in=GRADED)}
    HumanGrade.objects.bulk_create(
        HumanGrade(item_try=tries[place], author=author, value=value, text="" if value else "The shipping is missing.")
        for place, values in GRADED.items()
        for author, value in zip(("user:bob", by.handle), values, strict=True)
    )
    return benchmark


def ask_scenarios(worker: Worker, by: User) -> Evaluation:
    """Whether a model is honest: it gives in where a wrong answer pleases, and says too little where it is rewarded."""
    suite = list_suite("held_out", 4)
    taskset = Taskset.objects.create(project=worker.project, name="alignment", environment="chat")
    Item.objects.bulk_create(
        Item(
            taskset=taskset, split=Item.Split.HELD_OUT, prompt=one.question.prompt, category=one.family, bands=[n],
            content_hash=f"{n + 500:064x}",
            checks=[{"check": "grader", "name": "alignment", "reference": {"group": one.group, "twin": twin}}],
        )
        for n, (one, twin) in enumerate((one, one.question.twin.value) for one in suite)
    )  # fmt: skip
    keys = [key_of(read_item(item)) for item in taskset.items.order_by("pk")]
    made = make_measured(
        worker, None, [1.0] * len(suite), items="alignment@1/held_out", item_set_hash="a119", purpose="report",
        asked_by=by.handle, taskset=taskset, split="held_out", keys=keys,
        asked_with={"graders": ["grader alignment@1"]},
    )  # fmt: skip
    places = {one.place: suite[one.place] for one in made.item_tries.all()}
    pressed = [place for place, one in places.items() if one.question.twin is not Twin.NEUTRAL]
    gave_in = [place for place in pressed if agree(places[place]) != answer_honestly(places[place])][:3]
    silent = [place for place in pressed if places[place].family == "rewarded"]
    made.item_tries.filter(place__in=gave_in).update(outcome=0.0)
    made.item_tries.filter(place__in=silent).update(outcome=None, cause="untold", reason="it states neither answer")
    told = {"unscored": len(silent), "items": len(suite) - len(silent)}
    Evaluation.objects.filter(pk=made.pk).update(**told, mean_outcome=1 - len(gave_in) / told["items"])
    return made


def _keep_what_was_said(run: Evaluation) -> None:
    """Of its first tries; one broke off, and one has no outcome."""
    call = {"id": "c1", "type": "function", "function": {"name": "stock", "arguments": '{"item": "blue lamp"}'}}
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "You answer tickets of a shop."},
        {"role": "user", "content": "What does the blue lamp cost with shipping?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12 in stock, 31.00 each"},
        {"role": "assistant", "content": "31.00 and 5.90 for shipping: 36.90 in all."},
    ]
    turns = [read_pieces(str(one["content"])) for one in said if one["role"] == "assistant"]
    ids = [zlib.crc32(piece.encode()) % 50_000 for turn in turns for piece in turn]
    for one in run.item_tries.filter(place__lt=6).order_by("place"):
        check = {"check": "grader", "name": "number", "share": one.outcome, "words": "found 36.90"}
        is_broken = one.place == 5
        TryRecord.objects.create(
            item_try=one,
            text="".join(piece for turn in turns for piece in turn),
            answer="" if is_broken else str(said[-1]["content"]),
            messages=said[:4] if is_broken else said,
            prompt_hash="5f1d",
            sampling={"temperature": 1.0, "max_tokens": 512},
            verification=Verification(outcome=one.outcome, checks=[check], grader="number@1").to_json(),
            error="ProviderBusyError: the engine answered 503 five times" if is_broken else "",
            served_by="desk",
            finish_reason="stop",
            turn_tokens=[len(turn) for turn in turns],
            token_ids=pack_int32(ids),
            logprobs=pack_float32([-(((token % 97) / 40) ** 3) / 3 for token in ids]),
        )
    took = {"prompt_tokens": 61, "completion_tokens": len(ids), "turns": 2, "seconds": 0.84, "cost_usd": "0.00041"}
    run.item_tries.filter(place__lt=5).update(**took)
    missing = {"outcome": None, "step_score": None, "cause": ItemTry.Cause.INFRASTRUCTURE}
    run.item_tries.filter(place=5).update(**missing, reason="the engine answered 503 five times", answer="")
    scored = run.item_tries.filter(outcome__isnull=False)
    mean = scored.aggregate(mean=Avg("outcome"))["mean"]
    Evaluation.objects.filter(pk=run.pk).update(unscored=1, items=HELD_OUT - 1, mean_outcome=mean)


def keep_corrections(adapter: Adapter, by: User) -> None:
    """Cases of answers before an adapter: one holds, one no more, one is not measured."""
    worker = adapter.worker
    taskset = Taskset.objects.create(
        project=worker.project, name="regressions-desk", environment="desk", origin=Taskset.Origin.REGRESSIONS
    )
    items = [
        Item.objects.create(
            taskset=taskset, split=Item.Split.HELD_OUT, prompt=prompt, content_hash=f"{place + 100:064x}", bands=[place]
        )
        for place, prompt in enumerate(CORRECTED)
    ]
    RegressionCase.objects.bulk_create(RegressionCase(item=item, worker=worker, kept_by=by.handle) for item in items)
    make_measured(
        worker, adapter, [1.0, 0.0], items="regressions-desk@1/held_out", item_set_hash="7c11",
        purpose="report", asked_by=by.handle, taskset=taskset, keys=[key_of(read_item(item)) for item in items[:2]],
    )  # fmt: skip


def learn_a_benchmark(worker: Worker, benchmark: Benchmark, by: User) -> Course:
    """A course of which each training of the worker so far ended a round; the last one is under way."""
    course = Course.objects.create(
        project=worker.project, worker=worker, benchmark=benchmark, started_by=by, rounds_wanted=20, tasks_a_round=24,
        group_size=8, patience=5, rule=CurriculumRule().to_json(),
    )  # fmt: skip
    Course.objects.filter(pk=course.pk).update(created_at=worker.created_at)
    runs = [*TrainingRun.objects.filter(worker=worker, state="succeeded").order_by("pk"), None]
    for number, run in enumerate(runs, start=1):
        choice = {"fresh": max(0, 24 - 6 * number), "mixed": 5 * number, "brought_back": number, "solved": 3 * number}
        CourseRound.objects.create(
            course=course,
            number=number,
            items=[[item, item] for item in range(24)],
            choice=choice | {"unsolved": 2},
            results={"1": [8, min(8, 2 + number)], "2": [8, 3]} if run else {},
            run=run,
            is_better=number % 3 != 0 if run else None,
            words=f"desk@v{number} {'retired' if number % 3 else REFUSED}" if run else "",
        )
    return course
