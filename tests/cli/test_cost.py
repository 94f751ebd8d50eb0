"""What training cost beside what it brought, from the command line."""

import re

from apps.adapters.models import Adapter, Verdict
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.cli.conftest import Run
from tests.factories import make_worker


def test_a_run_and_a_whole_line_say_what_they_cost_and_brought(signed_in: Run) -> None:
    worker = Worker.objects.select_related("project").get()
    cost = {"gpu_s": 1800.0, "judge_tokens": 900.0, "usd": 0.5, "human_minutes": 0.0, "judgements": 2, "untimed": 2}
    values = {"project": worker.project, "worker": worker, "recipe": {}, "purpose": "policy", "state": "succeeded"}
    batch = worker.batches.create(project=worker.project, number=1, target_tasks=1, state="closed")
    run = TrainingRun.objects.create(**values, batch=batch, cost=cost)
    adapter = Adapter.objects.create(
        project=worker.project, worker=worker, name="echo@v1", version=1, line_version=1, run_id=run.pk, manifest={}
    )
    numbers = {"items": 300, "candidate": 0.75, "reference": 0.7, "difference": 0.05, "low": 0.01, "high": 0.09}
    details = {"sampled accuracy": numbers | {"std": 0.5, "confidence": 0.9}}
    Verdict.objects.create(adapter=adapter, question="safe", outcome="yes", words="safe", details=details)
    one = signed_in("run", "cost", str(run.pk)).out
    said = dict(re.split(r"  +", line, maxsplit=1) for line in one.splitlines())
    assert said["training time"] == "1,800 s"
    assert said["people"] == "not measured"
    assert said["per GPU hour"] == "+10 points [+2, +18]"
    TrainingRun.objects.filter(pk=run.pk).update(cost=cost | {"gpu_s": 1.0, "judge_tokens": 1_234_567.0})
    short = re.sub(" +", " ", signed_in("run", "cost", str(run.pk)).out)
    assert "per GPU hour not told: less than a minute was spent" in short
    assert "1,234,567 tokens" in short
    every = signed_in("run", "cost").out
    assert "gained" in every
    assert "nothing was measured: the base model serves" in every
    assert signed_in("run", "cost", "--json").json["rows"][0]["gain"]["against"] == "the base model"


def test_costs_of_what_is_not_there_or_not_chosen_are_refused_in_words(signed_in: Run) -> None:
    missing = signed_in("run", "cost", "99999")
    assert (missing.code, "none that you may see" in missing.err) == (1, True)
    assert signed_in("run", "cost", "-w", "nobody").code == 1
    make_worker(Worker.objects.get().project, name="other")
    choice = signed_in("run", "cost")
    assert choice.code == 2
    assert "name one with --worker: echo, other" in choice.err
