"""Where a run's served teacher is asked is written into its spec; a run without one says nothing of it."""

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.base.errors import BadInputError
from apps.rollouts.models import Batch
from apps.training import services
from tests.factories import make_worker


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("teacher", "options"),
    [("served:large", {"teacher_url": "http://10.0.0.8:8000"}), ("base", {}), ("/models/large", {})],
)
def test_only_a_served_teacher_has_an_address_in_the_spec(
    project: Project, settings: Settings, tmp_path: Path, teacher: str, options: dict[str, Any]
) -> None:
    settings.ARTIFACTS = tmp_path
    address = {"TEACHER_URL": "http://10.0.0.8:8000", "TEACHER_API_KEY": "the-key", "TRAINER_BACKEND": "standalone"}
    settings.TENTALIS = {**settings.TENTALIS, **address}
    worker = make_worker(project, name="clerk", kind="desk")
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    run = services.queue_run(batch=batch, by="ledger", changes={"teacher": teacher})
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    assert run.spec["options"] == options
    assert "the-key" not in str(run.spec)


@pytest.mark.django_db
def test_a_served_teacher_without_a_name_is_refused(project: Project) -> None:
    worker = make_worker(project, name="clerk", kind="desk")
    with pytest.raises(BadInputError, match="served:NAME or a model directory, found 'served:'"):
        services.read_recipe(worker, {"teacher": "served:"})
