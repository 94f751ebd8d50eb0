"""The page of a run that no training box takes up, and REST, say since when, how often it was sent and what to do."""

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.console.selectors.dashboard import glance
from apps.rollouts.models import Batch
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.edges.caller import Caller

pytestmark = pytest.mark.django_db

COMMAND = "celery -A gpu_workers.celery worker -P solo -Q gpu"


@pytest.fixture
def run(project: Project, worker: Worker) -> TrainingRun:
    """Sent four times in three hours; nobody took it up."""
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    now = timezone.now()
    return TrainingRun.objects.create(
        project=project,
        worker=worker,
        batch=batch,
        recipe={},
        recipe_hash="0" * 64,
        state="running",
        attempt=4,
        started_at=now - timedelta(minutes=20),
        heartbeat_at=now - timedelta(minutes=20),
        untaken_since=now - timedelta(hours=3),
    )


def read_page(alice: User, run: TrainingRun) -> str:
    client = Client()
    client.force_login(alice)
    return client.get(reverse("console:run", args=[run.project.slug, run.pk])).content.decode().replace("\xa0", " ")


def test_its_page_says_since_when_how_often_and_what_to_do(alice: User, run: TrainingRun) -> None:
    page = read_page(alice, run)
    for words in (
        "Waits for a training machine",
        "sent 4 times",
        "3 hours ago",
        "20 minutes ago",
        COMMAND,
        "an alarm tells",
    ):
        assert words in page, words
    TrainingRun.objects.update(untaken_since=None)
    assert "Waits for a training machine" not in read_page(alice, run)


def test_the_dashboard_does_not_call_silent_a_box_that_never_took_it(project: Project, run: TrainingRun) -> None:
    said = [alarm.words for alarm in glance(project).alarms]
    assert f"No training machine takes up run {run.pk}." in said
    assert not [words for words in said if "gone silent" in words]


def test_rest_says_the_same_and_nothing_of_a_run_that_has_ended(alice: User, run: TrainingRun) -> None:
    caller = Caller(create_token(user=alice, name="t", scopes=[Right.RUNS_READ], by=alice)[1])
    told = caller.get(f"runs/{run.pk}").body["untaken"]
    assert (told["sent"], told["command"]) == (4, COMMAND)
    assert "no training machine has taken it up" in told["words"]
    assert datetime.fromisoformat(told["since"]) == run.untaken_since
    TrainingRun.objects.update(state="cancelled")
    assert caller.get("runs").body["results"][0]["untaken"] is None
