"""Quarantine: an adapter under suspicion does not serve before a person releases it."""

import pytest

from apps.accounts.models import Project, User
from apps.adapters import services
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, IllegalMoveError, NotAllowedError, NotFoundError
from apps.workers.models import Worker
from tests.apps.adapters.test_deployment import deploy, make_adapter

pytestmark = pytest.mark.django_db


def test_a_person_puts_it_under_suspicion_and_another_releases_it(worker: Worker, alice: User) -> None:
    adapter = make_adapter(worker, 1)
    services.suspect(adapter=adapter, by=alice, reason="It flatters.")
    assert (adapter.state, Adapter.objects.get().suspicion) == ("quarantined", "It flatters.")
    assert AuditEntry.objects.get(kind=Kind.ADAPTER_QUARANTINED).payload["words"] == "It flatters."
    with pytest.raises(IllegalMoveError, match="verified or retired, found quarantined"):
        services.promote(adapter=adapter, by=alice)
    services.release(adapter=adapter, by=alice, reason="Read a hundred of its answers.")
    assert Adapter.objects.get().state == "verified"
    released = AuditEntry.objects.get(kind=Kind.ADAPTER_VERIFIED).payload
    assert released["words"] == "released by a person: Read a hundred of its answers."


def test_what_serves_is_rolled_back_before_it_is_suspected(worker: Worker, alice: User) -> None:
    adapter = make_adapter(worker, 1)
    deploy(worker, adapter)
    adapter.refresh_from_db()
    with pytest.raises(IllegalMoveError, match="wanted candidate or verified or retired, found deployed"):
        services.suspect(adapter=adapter, by=alice, reason="Odd.")


@pytest.mark.parametrize("reason", ["", "  "])
def test_neither_is_done_without_a_reason(worker: Worker, alice: User, reason: str) -> None:
    adapter = make_adapter(worker, 1)
    with pytest.raises(BadInputError, match="wanted what is suspicious, found nothing"):
        services.suspect(adapter=adapter, by=alice, reason=reason)
    with pytest.raises(BadInputError, match="wanted why it is harmless, found nothing"):
        services.release(adapter=adapter, by=alice, reason=reason)


def test_what_is_not_in_quarantine_cannot_be_released(worker: Worker, alice: User) -> None:
    with pytest.raises(IllegalMoveError, match="wanted quarantined, found verified"):
        services.release(adapter=make_adapter(worker, 1), by=alice, reason="Fine.")


def test_who_may_not_deploy_may_do_neither(worker: Worker, charlie: User, bob: User, project: Project) -> None:
    adapter = make_adapter(worker, 1)
    for who in (charlie, bob):
        with pytest.raises((NotAllowedError, NotFoundError)):
            services.suspect(adapter=adapter, by=who, reason="Odd.")
