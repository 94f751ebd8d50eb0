"""Who may learn with whom, and what that holds fast."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.inference.models import Provider
from apps.rollouts.models import Batch
from apps.workers.models import Worker
from apps.workers.services import change_worker, create_worker, delete_worker
from tests.apps.workers.test_services import make_provider
from tests.factories import make_project, make_worker


@pytest.fixture
def lab(project: Project) -> Provider:
    return make_provider(project)


@pytest.fixture
def first(project: Project, alice: User, lab: Provider) -> Worker:
    return create_worker(project=project, name="first", kind="chat", provider=lab, by=alice)


@pytest.fixture
def second(project: Project, alice: User, lab: Provider, first: Worker) -> Worker:
    return create_worker(project=project, name="second", kind="chat", provider=lab, learns_with=first, by=alice)


def make_adapter(worker: Worker) -> Adapter:
    return Adapter.objects.create(
        project=worker.project, worker=worker, name=f"a-{worker.pk}", version=1, line_version=1, sha256="", manifest={}
    )


def test_a_worker_learns_with_another_and_its_line_is_that_ones(first: Worker, second: Worker) -> None:
    assert (second.line, second.line_id, first.line, first.line_id) == (first, first.pk, first, first.pk)
    assert list(first.learners.all()) == [second]
    assert AuditEntry.objects.get(kind="worker.created", subject_id=second.pk).payload["learns_with"] == "first"


def test_it_ends_and_begins_again_and_the_audit_says_with_whom(first: Worker, second: Worker, alice: User) -> None:
    alone = change_worker(worker=second, by=alice, learns_with=None)
    assert alone.line == alone
    assert change_worker(worker=second, by=alice, learns_with=first).line == first
    said = AuditEntry.objects.filter(kind="worker.changed").order_by("id").values_list("payload", flat=True)
    assert [(one["before"], one["after"]) for one in said] == [
        ({"learns_with": "first"}, {"learns_with": None}),
        ({"learns_with": None}, {"learns_with": "first"}),
    ]


@pytest.mark.parametrize(
    ("fields", "at_fault", "words"),
    [
        ({"base_model": "other"}, "learns_with", "wanted the model of first, 'qwen' of lab, found 'other' of lab"),
        ({"kind": "desk", "provider": None}, "learns_with", "found 'desk' of the installation's own server"),
        ({"kind": "echo", "provider": None}, "learns_with", "third has no model that could learn"),
        ({"learns_with": "second"}, "learns_with", "second learns with first: choose that one"),
        ({"learns_with": "stranger"}, "learns_with", "one of the project's workers"),
        ({"adapters_per": "user"}, "adapters_per", "first says it for all who learn with it; found 'user'"),
        ({"user_batch_tasks": 3}, "user_batch_tasks", "first says it for all who learn with it; found 3"),
    ],
)
def test_whom_it_cannot_learn_with_is_said(
    project: Project,
    first: Worker,
    second: Worker,
    lab: Provider,
    alice: User,
    fields: dict[str, Any],
    at_fault: str,
    words: str,
) -> None:
    others = {"second": second, "stranger": make_worker(make_project("bakery"), "stranger", "desk")}
    wanted: dict[str, Any] = {"kind": "chat", "provider": lab, "learns_with": first} | fields
    wanted["learns_with"] = others.get(fields.get("learns_with", ""), first)
    with pytest.raises(BadInputError, match=words) as caught:
        create_worker(project=project, name="third", by=alice, **wanted)
    assert set(caught.value.errors) == {at_fault}
    assert not Worker.objects.filter(name="third").exists()


def test_nobody_learns_with_themselves(first: Worker, alice: User) -> None:
    with pytest.raises(BadInputError, match="wanted another worker, found itself"):
        change_worker(worker=first, by=alice, learns_with=first)
    with pytest.raises(IntegrityError), transaction.atomic():
        Worker.objects.filter(pk=first.pk).update(learns_with=first)


def test_whom_others_learn_with_keeps_its_own_line_its_model_and_its_place(
    project: Project, first: Worker, second: Worker, alice: User
) -> None:
    third = make_worker(project, "third", Worker.Kind.CHAT, provider=first.provider, base_model="qwen")
    with pytest.raises(BadInputError, match=r"others learn with it \(second\): end that first"):
        change_worker(worker=first, by=alice, learns_with=third)
    with pytest.raises(BadInputError, match=r"the model and the server of those who learn with it \(second\)"):
        change_worker(worker=first, by=alice, base_model="other")
    with pytest.raises(BadInputError, match=r"those who learn with it \(second\)"):
        change_worker(worker=first, by=alice, provider=make_provider(project, "box"))
    with pytest.raises(ConflictError, match=r"others learn with it \(second\)"):
        delete_worker(worker=first, by=alice)
    delete_worker(worker=second, by=alice)
    delete_worker(worker=first, by=alice)


def test_who_learns_with_another_keeps_that_ones_model(second: Worker, alice: User) -> None:
    with pytest.raises(BadInputError, match="wanted the model of first"):
        change_worker(worker=second, by=alice, base_model="other")
    changed = change_worker(worker=second, by=alice, base_model="other", learns_with=None)
    assert (changed.base_model, changed.learns_with) == ("other", None)


def test_two_lines_cannot_become_one(project: Project, first: Worker, second: Worker, alice: User) -> None:
    change_worker(worker=second, by=alice, learns_with=None)
    batch = Batch.objects.create(project=project, worker=second, number=1, target_tasks=2)
    change_worker(worker=second, by=alice, learns_with=first)
    change_worker(worker=second, by=alice, learns_with=None)
    Batch.objects.filter(pk=batch.pk).update(state="closed", closed_at="2026-01-01T00:00:00Z")
    with pytest.raises(ConflictError, match="second has begun to learn by itself"):
        change_worker(worker=second, by=alice, learns_with=first)
    batch.delete()
    make_adapter(second)
    with pytest.raises(ConflictError, match="second has begun to learn by itself"):
        change_worker(worker=second, by=alice, learns_with=first)
    make_adapter(first)
    third = make_worker(project, "third", Worker.Kind.CHAT, provider=first.provider, base_model="qwen")
    assert change_worker(worker=third, by=alice, learns_with=first).line == first, "a line that has adapters takes more"


def test_who_may_not_change_workers_changes_nothing(first: Worker, second: Worker, bob: User, charlie: User) -> None:
    for by, error in ((bob, NotAllowedError), (charlie, NotFoundError)):
        with pytest.raises(error):
            change_worker(worker=second, by=by, learns_with=None)
    second.refresh_from_db()
    assert second.learns_with == first


@pytest.mark.django_db(transaction=True)
def test_of_two_who_begin_to_learn_with_each_other_at_once_one_wins(project: Project, alice: User) -> None:
    pair = [make_worker(project, name, "desk", base_model="desk") for name in ("first", "second")]
    start = threading.Barrier(2)

    def join(number: int) -> str:
        try:
            start.wait(120)
            change_worker(worker=pair[number], by=alice, learns_with=pair[1 - number])
        except BadInputError as error:
            return "; ".join(error.errors)
        finally:
            connection.close()
        return "won"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(join, (0, 1))) == ["learns_with", "won"]
    assert Worker.objects.filter(learns_with=None).count() == 1
