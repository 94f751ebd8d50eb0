"""A shadow: it does some tasks once more, nobody sees it, and what was found of it ends it."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters import services
from apps.adapters.models import Adapter, Shadow
from apps.adapters.shadows import find_shadow, stop_shadow
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, IllegalMoveError, NotAllowedError
from apps.erasure.unlearn_adapters import bar
from apps.inference.costs import cost_of_project, cost_of_task
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import flow, shadow_trials
from apps.rollouts.models import Rollout
from apps.scoring.services import score_tasks
from apps.scoring.shadows import find_own_shadow, mirror_task
from apps.tasks.models import Attempt, ShadowAttempt, Task
from apps.tasks.services import work_tasks
from apps.workers.models import Worker
from tests.apps.adapters import test_canary
from tests.apps.adapters.test_deployment import deploy, make_adapter
from tests.factories import make_attempt, make_task, make_worker

pytestmark = pytest.mark.django_db
served = test_canary.served
"""The worker whose server answers, with version 1 in service and version 2 found safe."""


def begin(worker: Worker, by: User, percent: int = 50) -> Shadow:
    return shadow_trials.start_shadow(adapter=Adapter.objects.get(worker=worker, version=2), percent=percent, by=by)


def mirrored_task(worker: Worker, **values: object) -> Task:
    """A task that falls to the shadow."""
    for _ in range(60):
        task = make_task(worker.project, worker, environment="chat", **values)
        if find_shadow(worker.pk, task_id=task.pk) is not None:
            return task
    raise AssertionError("no task of sixty falls to a shadow of half of them")


def test_a_task_is_done_once_more_and_nothing_of_the_task_changes(served: Worker, alice: User) -> None:
    shadow = begin(served, alice)
    task = mirrored_task(served, group_size=2)
    work_tasks([task.pk], by="worker")
    score_tasks([task.pk])
    flow.go_on_after_work([task.pk])
    assert Segment.objects.get(kind="mirror").subject_id == task.pk
    before = Task.objects.filter(pk=task.pk).values().get(), list(task.attempts.values())
    mirror_task(task.pk)
    mirror_task(task.pk)
    assert before == (Task.objects.filter(pk=task.pk).values().get(), list(task.attempts.values()))
    unseen = ShadowAttempt.objects.get()
    assert unseen.exchange is not None
    assert (unseen.shadow, unseen.task, unseen.error) == (shadow, task, "")
    assert (unseen.exchange.turn, unseen.exchange.adapter_name) == ("shadow", shadow.adapter.name)
    assert Exchange.objects.exclude(turn="shadow").filter(adapter_name=shadow.adapter.name).count() == 0
    assert not Rollout.objects.exists()
    paid = cost_of_task(task.pk).by_turn(), cost_of_project(task.project, since=task.created_at).by_turn()
    assert [("shadow" in one) for one in paid] == [False, True]


def test_who_judges_a_shadows_answer_is_paid_by_the_shadow(served: Worker, alice: User, settings: Settings) -> None:
    assert served.provider is not None
    changes = {"LLM_MODEL": "desk", "INFERENCE_BASE_URL": served.provider.base_url}
    settings.TENTALIS = settings.TENTALIS | changes | {"INFERENCE_BACKEND": served.provider.kind}
    shadow = begin(served, alice)
    task = mirrored_task(served, group_size=1)
    work_tasks([task.pk], by="worker")
    score_tasks([task.pk])
    judged, cost = Exchange.objects.filter(turn="judge").count(), cost_of_task(task.pk)
    assert judged > 0
    mirror_task(task.pk)
    assert (Exchange.objects.filter(turn="judge").count(), cost_of_task(task.pk)) == (judged, cost)
    paid = Exchange.objects.filter(turn="shadow", adapter_name=shadow.adapter.name, task_id=task.pk)
    assert (paid.count(), paid.exclude(shadow_attempt=None).count()) == (1 + judged, 1)


@pytest.mark.parametrize("percent", [1, 50])
def test_its_share_of_the_new_tasks_falls_to_it(served: Worker, alice: User, percent: int) -> None:
    old = make_task(served.project, served, environment="chat")
    begin(served, alice, percent)
    assert find_shadow(served.pk, task_id=old.pk) is None
    mine = sum(find_shadow(served.pk, task_id=old.pk + number) is not None for number in range(1, 2001))
    assert abs(mine / 2000 - percent / 100) < 0.04


def test_what_would_act_a_second_time_is_left_to_what_serves(served: Worker, alice: User) -> None:
    begin(served, alice)
    task = mirrored_task(served)
    assert find_own_shadow(task) is not None
    for changes in ({"environment": "moon"}, {"environment": "mars"}, {"parent": make_task(served.project, served)}):
        changed = Task.objects.get(pk=task.pk)
        for name, value in changes.items():
            setattr(changed, name, value)
        assert find_own_shadow(changed) is None, changes


def try_out(shadow: Shadow, before: float, unseen: float, tasks: int = 80) -> None:
    for number in range(tasks):
        task = make_task(shadow.worker.project, shadow.worker)
        jitter = 0.05 * (number % 3 - 1)
        for index in range(2):
            make_attempt(task, index, outcome=None, score=before + jitter)
        ShadowAttempt.objects.create(shadow=shadow, task=task, score=unseen + jitter)


@pytest.mark.parametrize(
    ("unseen", "outcome", "state"), [(0.1, "harm", "refused"), (0.9, "safe", "verified"), (0.7, "", "verified")]
)
def test_it_ends_when_enough_was_seen_and_never_goes_into_service(
    served: Worker,
    alice: User,
    unseen: float,
    outcome: str,
    state: str,
) -> None:
    shadow = begin(served, alice)
    try_out(shadow, 0.8, unseen, tasks=80 if outcome else 21)
    assert shadow_trials.watch_shadows() == int(bool(outcome))
    shadow.refresh_from_db()
    adapter = Adapter.objects.get(pk=shadow.adapter_id)
    assert (shadow.outcome, adapter.state, bool(shadow.words)) == (outcome, state, True)
    assert AuditEntry.objects.filter(kind=Kind.SHADOW_ENDED).count() == int(bool(outcome))


def test_a_shadow_that_found_harm_ends_the_trial_of_the_same_adapter(served: Worker, alice: User) -> None:
    shadow = begin(served, alice)
    test_canary.begin(served, alice)
    try_out(shadow, 0.8, 0.1)
    assert shadow_trials.watch_shadows() == 1
    assert test_canary.serving(served) == (1, None)
    assert AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload["outcome"] == "harm"


def test_only_tasks_that_both_were_scored_on_count(served: Worker, alice: User) -> None:
    shadow = begin(served, alice)
    try_out(shadow, 0.8, 0.8, tasks=3)
    unscored, half = make_task(served.project, served), make_task(served.project, served)
    ShadowAttempt.objects.create(shadow=shadow, task=unscored)
    make_attempt(unscored, 0, outcome=None, score=0.5)
    ShadowAttempt.objects.create(shadow=shadow, task=half, score=0.5)
    make_attempt(half, 0, outcome=None, score=0.5)
    make_attempt(half, 1, outcome=None, score=None)
    failed = make_task(served.project, served)
    ShadowAttempt.objects.create(shadow=shadow, task=failed, error="it said nothing")
    make_attempt(failed, 0, outcome=None, score=0.8)
    reading = shadow_trials.read_shadow(shadow)
    assert (reading.deployed.tasks, reading.canary.tasks) == (4, 4)
    assert (round(reading.deployed.mean, 3), round(reading.canary.mean, 3)) == (0.8, 0.6), "no answer counts as 0"


def test_one_shadow_a_worker_and_it_can_be_taken_out(served: Worker, alice: User, bob: User) -> None:
    shadow = begin(served, alice)
    with pytest.raises(ConflictError, match="has a shadow already"):
        begin(served, alice)
    with pytest.raises(NotAllowedError):
        stop_shadow(shadow=shadow, by=bob)
    stop_shadow(shadow=shadow, by=alice)
    with pytest.raises(IllegalMoveError):
        stop_shadow(shadow=shadow, by=alice)
    assert begin(served, alice).pk != shadow.pk
    with pytest.raises(BadInputError, match="percent"):
        begin(served, alice, percent=51)


def test_who_may_not_serve_works_in_no_shadow(served: Worker, alice: User) -> None:
    shadow = begin(served, alice)
    bar([shadow.adapter], reason="it learnt from somebody who was forgotten", by="test")
    shadow.refresh_from_db()
    assert (shadow.state, shadow.outcome) == ("ended", "stopped")
    with pytest.raises(IllegalMoveError, match="somebody who was forgotten"):
        begin(served, alice)


def test_one_that_was_put_into_service_is_compared_with_itself_no_longer(
    served: Worker,
    alice: User,
) -> None:
    shadow = begin(served, alice)
    deploy(served, shadow.adapter)
    shadow.refresh_from_db()
    assert (shadow.state, shadow.outcome) == ("ended", "stopped")
    assert shadow.words == "it serves now, and is compared with itself no longer"


def test_what_passes_the_gate_goes_into_service_and_ends_the_shadow_which_keeps_what_it_found(
    served: Worker, alice: User
) -> None:
    """A canary holds the gate back, because it serves; a shadow serves nobody and holds nothing back."""
    shadow = begin(served, alice)
    try_out(shadow, 0.8, 0.7, tasks=21)
    assert shadow_trials.watch_shadows() == 0
    shadow.refresh_from_db()
    found, unseen = shadow.words, ShadowAttempt.objects.count()
    third = test_canary.pass_the_gate(served, 3)
    assert (third.state, third.held_since) == ("deployed", None)
    shadow.refresh_from_db()
    assert (shadow.state, shadow.outcome, shadow.ended_at is None) == ("ended", "stopped", False)
    assert shadow.words == (
        f"{third.name} serves now, and it was compared with what served before; until then: {found}"
    )
    assert AuditEntry.objects.get(kind=Kind.SHADOW_ENDED).payload["words"] == shadow.words
    assert (ShadowAttempt.objects.filter(shadow=shadow).count(), unseen) == (21, 21)
    assert Adapter.objects.get(pk=shadow.adapter_id).state == "verified", "it may be tried beside the other"
    assert (shadow_trials.watch_shadows(), begin(served, alice).state) == (0, "running")


def test_what_serves_one_person_ends_no_shadow(served: Worker, alice: User) -> None:
    begin(served, alice)
    own = make_adapter(served, 3)
    Adapter.objects.filter(pk=own.pk).update(end_user="grace")
    own.refresh_from_db()
    with transaction.atomic():
        services.deploy(served, own, by="gate", kind=Kind.DEPLOYMENT_MOVED, end_user="grace")
    assert Shadow.objects.get().state == "running"


def test_the_database_allows_one(worker: Worker) -> None:
    adapter = make_adapter(worker, 1)
    Shadow.objects.create(worker=worker, adapter=adapter, percent=10, after_task=0)
    with pytest.raises(IntegrityError):
        Shadow.objects.create(worker=worker, adapter=adapter, percent=10, after_task=0)


def test_its_page_begins_it_and_ends_it(client: Client, served: Worker, alice: User) -> None:
    client.force_login(alice)
    adapter = Adapter.objects.get(worker=served, version=2)
    slug = served.project.slug
    path = reverse("console:adapter-shadow", args=(slug, adapter.pk))
    assert "Its answers are not shown to anybody" in client.get(path).content.decode()
    assert client.post(path, {"percent": "0"}).status_code == 400
    assert client.post(path, {"percent": "20"}).status_code == 302
    page = client.get(reverse("console:adapter", args=(slug, adapter.pk))).content.decode()
    assert "0 tasks repeated, answers not shown: 20 % of new tasks" in page
    for asked in (("adapter-promote", adapter.pk), ("roll-back", served.name)):
        said = client.get(reverse(f"console:{asked[0]}", args=(slug, asked[1]))).content.decode()
        assert f"The shadow test of {adapter.name} ends and keeps what it found" in said
    assert "it asks for no second person" in said
    stop = reverse("console:shadow-stop", args=(slug, served.name))
    assert client.get(stop).status_code == 200
    assert client.post(stop).status_code == 302
    assert (Shadow.objects.get().outcome, client.get(stop).status_code) == ("stopped", 404)


def test_other_attempts_of_the_worker_are_none_of_its(project: Project, worker: Worker) -> None:
    other = make_worker(project, "other")
    shadow = Shadow.objects.create(worker=worker, adapter=make_adapter(worker, 1), percent=50, after_task=0)
    task = make_task(project, other)
    assert find_shadow(other.pk, task_id=task.pk) is None
    assert not Attempt.objects.filter(adapter=shadow.adapter).exists()
