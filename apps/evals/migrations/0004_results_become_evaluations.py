"""What the gate measured before becomes evaluations: every number stays; items are known by their place on their set."""

from typing import Any

from django.db import migrations
from django.db.migrations.state import StateApps

AT_ONCE = 20


def take_results(apps: StateApps, schema_editor: Any) -> None:
    """Panels first, so that what was tried at another strength finds the places it was tried on."""
    for result in apps.get_model("adapters", "PanelResult").objects.order_by("pk").iterator(AT_ONCE):
        _write(apps, result, purpose="panel", places=range(len(result.outcomes)))
    for result in apps.get_model("adapters", "SideResult").objects.order_by("pk").iterator(AT_ONCE):
        places = range(len(result.outcomes))
        if result.kind == "scale":
            places = _places_of_scaled(apps, result)
        _write(apps, result, purpose=result.kind, places=places, scale=result.scale)


def _places_of_scaled(apps: StateApps, result: Any) -> Any:
    """What it failed as trained was tried first, of the first tasks of the panel."""
    panels = apps.get_model("adapters", "PanelResult").objects
    panel = panels.filter(worker=result.worker_id, adapter=result.adapter_id, panel=result.panel).first()
    if panel is None:
        return range(len(result.outcomes))
    verdicts = apps.get_model("adapters", "Verdict").objects.filter(adapter=result.adapter_id, question="safe")
    told = (verdicts.values_list("details", flat=True).first() or {}).get("scales", {}).get(f"{result.scale:g}")
    planned = told["of"] if isinstance(told, dict) else len(result.outcomes)
    whole = panel.outcomes[:planned]
    return sorted(range(len(whole)), key=lambda place: bool(whole[place] == 1.0))


def _write(apps: StateApps, result: Any, *, purpose: str, places: Any, scale: float = 1.0) -> None:
    outcomes, steps = result.outcomes, result.step_scores
    evaluations, tries = apps.get_model("evals", "Evaluation").objects, apps.get_model("evals", "ItemTry")
    evaluation = evaluations.create(
        project_id=result.worker.project_id,
        worker_id=result.worker_id,
        adapter_id=result.adapter_id,
        purpose=purpose,
        item_set=result.panel,
        scale=scale,
        is_greedy=purpose == "skills" and result.panel.endswith("/skills"),
        seed=7_919 if purpose == "repeat" else 0,
        state="done",
        planned=len(outcomes),
        played=len(outcomes),
        items=len(outcomes),
        mean_outcome=sum(outcomes) / len(outcomes) if outcomes else None,
        mean_step_score=sum(steps) / len(steps) if steps else None,
        profile=result.signals,
        finished_at=result.created_at,
    )
    evaluations.filter(pk=evaluation.pk).update(created_at=result.created_at)
    tries.objects.bulk_create(
        tries(
            evaluation=evaluation,
            place=place,
            key=place,
            outcome=outcome,
            step_score=steps[index] if index < len(steps) else None,
        )
        for index, (place, outcome) in enumerate(zip(places, outcomes, strict=False))
    )


def give_back(apps: StateApps, schema_editor: Any) -> None:
    """Those that every try of has an outcome; the old tables knew no others."""
    panels, sides = (apps.get_model("adapters", name).objects for name in ("PanelResult", "SideResult"))
    evaluations = (
        apps.get_model("evals", "Evaluation").objects.exclude(purpose="report").filter(unscored=0, state="done")
    )
    for evaluation in evaluations.order_by("pk").iterator(AT_ONCE):
        rows = list(evaluation.item_tries.order_by("number", "place"))
        if evaluation.purpose == "scale":
            rows.sort(key=lambda row: row.pk)
        values = {
            "worker_id": evaluation.worker_id,
            "adapter_id": evaluation.adapter_id,
            "panel": evaluation.item_set[:64],
            "outcomes": [row.outcome for row in rows],
            "step_scores": [row.step_score for row in rows if row.step_score is not None],
            "signals": evaluation.profile,
        }
        if evaluation.purpose == "panel":
            panels.bulk_create([panels.model(**values)], ignore_conflicts=True)
        else:
            row = sides.model(kind=evaluation.purpose, scale=evaluation.scale, **values)
            sides.bulk_create([row], ignore_conflicts=True)


class Migration(migrations.Migration):
    dependencies = [
        ("evals", "0003_evaluations_and_their_tries"),
        ("adapters", "0012_what_waits_for_the_end_of_a_trial"),
    ]

    operations = [migrations.RunPython(take_results, give_back)]
