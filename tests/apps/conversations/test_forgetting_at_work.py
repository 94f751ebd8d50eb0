"""Somebody is forgotten while a link is writing what they taught."""

import threading
import time

import pytest
from django.db import connection, transaction

from apps.accounts.models import Member, Project, Role
from apps.erasure.records import forget_person
from apps.outbox import services as outbox
from apps.outbox.models import Segment
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.rollouts.services import build_rollouts
from tests.factories import make_judged_task, make_user

NAME = "Grace Hopper of Arlington"
PATIENCE_S = 60.0
BLOCKED = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def wait_for_somebody_blocked() -> None:
    until = time.monotonic() + PATIENCE_S
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute(BLOCKED)
            if cursor.fetchone()[0]:
                return
            time.sleep(0.02)
    raise AssertionError("nobody waits for a lock")


@pytest.mark.django_db(transaction=True)
def test_what_is_being_put_into_a_batch_meanwhile_is_known_to_have_taught_it(project: Project) -> None:
    owner = make_user("olivia")
    Member.objects.create(project=project, user=owner, role=Role.OWNER)
    task = make_judged_task(project, prompt=f"A ticket by {NAME}")
    outbox.start("learn", subject_id=task.pk, project_id=project.pk)
    segment = Segment.objects.get(kind="learn")
    Segment.objects.filter(pk=segment.pk).update(position=1)
    claim = outbox.claim_links([segment.pk], 1, owner="learner")
    assert claim is not None
    found = []

    def forget() -> None:
        try:
            found.append(forget_person(project=project, by=owner, text=NAME))
        finally:
            connection.close()

    thread = threading.Thread(target=forget)
    with transaction.atomic(), outbox.hold(outbox.Hold(claim)):
        build_rollouts([task.pk], by="test")
        [batch] = Batch.objects.values_list("pk", flat=True)
        thread.start()
        wait_for_somebody_blocked()
    thread.join(PATIENCE_S)
    assert [forgetting.batches for forgetting in found] == [[batch]]
    assert not Rollout.objects.exists()
    assert not TrainingUse.objects.exists()
