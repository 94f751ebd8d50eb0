"""Deployment: one adapter serves a worker, a swap is one move, a roll back is one call."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.models import Project, User
from apps.adapters import permitted, services
from apps.adapters.models import Adapter, Deployment, Verdict
from apps.adapters.selectors import find_deployed
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.errors import IllegalMoveError
from apps.outbox.kinds import FATES, KINDS, SegmentKind
from apps.workers.models import Worker

ACTS: Mapping[str, Callable[..., Any]] = {
    "promoted": services.promote,
    "suspected": services.suspect,
    "released": services.release,
}


def make_adapter(worker: Worker, version: int, state: str = Adapter.State.VERIFIED) -> Adapter:
    return Adapter.objects.create(
        project=worker.project,
        worker=worker,
        name=f"{worker.name}@v{version}",
        version=version,
        line_version=version,
        uri="file:///nowhere",
        sha256=str(version) * 64,
        manifest={},
        state=state,
        parent=Adapter.objects.filter(worker=worker, version=version - 1).first(),
    )


def deploy(worker: Worker, adapter: Adapter | None, kind: Kind = Kind.DEPLOYMENT_MOVED) -> Deployment:
    if adapter is not None:
        adapter.refresh_from_db()
    with transaction.atomic():
        return services.deploy(worker, adapter, by="gate", kind=kind)


def test_without_a_deployment_the_base_model_serves(worker: Worker) -> None:
    assert find_deployed(worker) is None


def test_a_swap_retires_the_old_adapter_and_counts_the_epoch(worker: Worker) -> None:
    first, second = make_adapter(worker, 1), make_adapter(worker, 2)
    deploy(worker, first)
    deployment = deploy(worker, second)
    assert find_deployed(worker) == second
    assert (deployment.epoch, deployment.previous) == (2, first)
    assert list(Adapter.objects.order_by("version").values_list("state", flat=True)) == ["retired", "deployed"]


def test_deploying_what_serves_already_changes_nothing(worker: Worker) -> None:
    adapter = make_adapter(worker, 1)
    deploy(worker, adapter)
    assert deploy(worker, adapter).epoch == 1
    assert AuditEntry.objects.filter(kind=Kind.DEPLOYMENT_MOVED).count() == 1


def test_a_retired_adapter_can_serve_again(worker: Worker) -> None:
    first, second = make_adapter(worker, 1), make_adapter(worker, 2)
    for adapter in (first, second, first):
        deploy(worker, adapter)
    assert find_deployed(worker) == first


def test_rolling_back_to_the_base_model_leaves_nothing_deployed(worker: Worker) -> None:
    deploy(worker, make_adapter(worker, 1))
    deployment = deploy(worker, None, Kind.DEPLOYMENT_ROLLED_BACK)
    assert (deployment.adapter, find_deployed(worker)) == (None, None)
    assert Adapter.objects.get().state == "retired"


def test_a_refused_adapter_never_serves(worker: Worker) -> None:
    with pytest.raises(IllegalMoveError, match="found refused"):
        deploy(worker, make_adapter(worker, 1, Adapter.State.REFUSED))
    assert find_deployed(worker) is None


def test_what_no_button_offers_the_service_refuses_in_the_same_words(worker: Worker, alice: User) -> None:
    for version, state in enumerate(Adapter.State, 1):
        adapter = make_adapter(worker, version, state)
        for change, act in ACTS.items():
            if words := permitted.why_not(adapter, change):
                with pytest.raises(IllegalMoveError, match=re.escape(words)):
                    act(adapter=adapter, by=alice, **({} if change == "promoted" else {"reason": "x"}))
            else:
                assert state in permitted.CHANGED_FROM[change]


def test_postgres_refuses_a_second_deployed_adapter(project: Project, worker: Worker) -> None:
    make_adapter(worker, 1, Adapter.State.DEPLOYED)
    with pytest.raises(IntegrityError), transaction.atomic():
        make_adapter(worker, 2, Adapter.State.DEPLOYED)


@pytest.mark.parametrize(
    ("link", "state", "is_judged", "found"),
    [
        ("adapters.gate", "candidate", False, "refused"),
        ("adapters.gate", "candidate", True, "candidate"),
        ("adapters.promote", "verified", True, "refused"),
        ("adapters.hot_swap", "candidate", False, "candidate"),
        ("adapters.hot_swap", "candidate", True, "candidate"),
        ("adapters.hot_swap", "verified", True, "verified"),
    ],
)
def test_what_could_not_be_judged_or_served_is_refused_and_what_could_not_be_unloaded_refuses_nothing(
    worker: Worker, link: str, state: str, is_judged: bool, found: str
) -> None:
    on_dead = FATES[SegmentKind.ADOPT].on_dead
    assert on_dead is not None
    assert link in KINDS[SegmentKind.ADOPT].names
    adapter = make_adapter(worker, 1, state)
    if is_judged:
        Verdict.objects.create(adapter=adapter, question="safe", outcome="inconclusive", words="left to a person")
    on_dead(adapter.pk, link=link, reason="it broke", by="outbox")
    adapter.refresh_from_db()
    assert adapter.state == found
