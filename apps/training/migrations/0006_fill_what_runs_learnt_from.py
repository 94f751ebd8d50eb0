from typing import Any

from django.db import migrations

AT_ONCE = 100


def fill(apps: Any, schema_editor: Any) -> None:
    """What step scorers and fits that are there already may have learnt from: all that was known when they did."""
    runs = apps.get_model("training", "TrainingRun").objects.filter(purpose="reward_model", started_at__isnull=False)
    labels = apps.get_model("scoring", "StepLabel").objects
    for run in runs.only("worker_id", "started_at").iterator(AT_ONCE):
        known = labels.filter(attempt__worker=run.worker_id, created_at__lte=run.started_at)
        run.learnt_from = sorted(set(known.order_by().values_list("attempt__task", flat=True)))
        run.save(update_fields=["learnt_from"])
    compared = apps.get_model("calibration", "Comparison").objects.filter(step__isnull=True, counts=True)
    for fit in apps.get_model("training", "ManagerRun").objects.filter(kind="rubric").iterator(AT_ONCE):
        known = compared.filter(project=fit.project_id, rater__handle=fit.manager, pk__lte=fit.metrics["until"])
        fit.learnt_from = sorted(set(known.order_by().values_list("attempt__task", flat=True)))
        fit.save(update_fields=["learnt_from"])


class Migration(migrations.Migration):
    dependencies = [
        ("calibration", "0002_weights_of_a_rubric"),
        ("scoring", "0002_reward_models_and_labels_of_steps"),
        ("training", "0005_what_runs_learnt_from"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
