"""People who were forgotten while their words still lay in a spool, or beside it: they are not stored afterwards."""

import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.test import override_settings

from apps.accounts.models import Project, User
from apps.base.sealing import add_key
from apps.conversations.forgotten import SEALED_FOR, drop_sealed
from apps.conversations.models import Forgetting
from apps.erasure.records import forget_person
from apps.gateway.record import Record, pack_records
from apps.gateway.spool import FileSpool, find_rejected, keep_aside
from apps.gateway.writer import Writer
from apps.inference.models import Exchange, Session
from tests.apps.gateway.records import make_record
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.test_writer import conninfo
from tests.factories import make_project, make_user

pytestmark = pytest.mark.django_db(transaction=True)
NAMED = 'call "Grace" Hopper'


def say(project: Project, words: str, session: str, *, at: float | None = None, **values: Any) -> Record:
    """A minute ago, if not said otherwise."""
    at = time.time() - 60 if at is None else at
    return make_record(project.pk, [{"role": "user", "content": words}], session, at=at, **values)


def carry(spool: FileSpool) -> Writer:
    spool.close()
    writer = Writer(spool, conninfo())
    writer.start()
    writer.stop()
    return writer


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def boss(project: Project) -> User:
    return make_user("root", is_superuser=True)


@pytest.mark.parametrize("who", [{"end_user": "Grace Hopper"}, {"text": NAMED}], ids=str)
def test_what_lies_in_the_spool_of_somebody_forgotten_is_not_stored(
    tmp_path: Path, project: Project, boss: User, who: dict[str, str]
) -> None:
    other = make_project("other")
    spool = FileSpool(tmp_path)
    Session.objects.create(project=project, key=f"known {NAMED}", end_user="Grace Hopper")
    words = f"Please {NAMED.upper()} back."
    hers: dict[str, Any] = {"end_user": "Grace Hopper"}
    for record in (
        say(project, words, "a", **hers),
        say(project, "nobody is named here", f"known {NAMED}"),
        say(project, "hello", "b", end_user="Ada"),
        say(other, words, "c", **hers),
        say(project, words, "d", at=time.time() + 60, **hers),
    ):
        spool.append(*record)
    forget_person(project=project, by=boss, **who)
    assert carry(spool).rejected_count == 0
    found = Exchange.objects.order_by("id").values_list("session__key", flat=True)
    assert list(found) == ["b", "c", "d"]


def test_who_is_forgotten_while_a_batch_waits_is_left_out_of_it(tmp_path: Path, project: Project, boss: User) -> None:
    spool = FileSpool(tmp_path)
    spool.append(*say(project, "hello", "a", end_user="Grace Hopper"))
    spool.append(*say(project, "hello", "b", end_user="Ada"))
    spool.close()
    writer = Writer(spool, conninfo())
    with transaction.atomic():
        forget_person(project=project, by=boss, end_user="Grace Hopper")
        writer.start()
        wait_for(is_anybody_waiting)
    writer.stop()
    assert list(Exchange.objects.values_list("session__key", flat=True)) == ["b"]


def is_anybody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


def test_what_could_not_be_stored_is_dropped_too(tmp_path: Path, project: Project, boss: User) -> None:
    for words, session, end_user in (("my secret garden", "a", "Grace Hopper"), ("hello", "b", "Ada")):
        record = say(project, words, session, end_user=end_user)
        keep_aside(tmp_path, b"".join(pack_records([record])))
    keep_aside(tmp_path, b"nothing that anybody can read")
    forget_person(project=project, by=boss, end_user="Grace Hopper")
    carry(FileSpool(tmp_path))
    left = (tmp_path / "rejected").read_bytes()
    assert b"garden" not in left
    assert b"nothing that anybody" not in left
    assert b"hello" in left
    forget_person(project=project, by=boss, end_user="ada")
    carry(FileSpool(tmp_path))
    assert find_rejected(tmp_path) == 0


def test_a_text_is_kept_sealed_for_a_while_and_what_is_older_is_not_stored(
    tmp_path: Path, project: Project, boss: User
) -> None:
    forgetting = forget_person(project=project, by=boss, text="Grace Hopper")
    assert forgetting.sealed_subject
    assert b"grace" not in bytes(forgetting.sealed_subject).lower()
    assert drop_sealed() == 0
    Forgetting.objects.update(created_at=forgetting.created_at - 2 * SEALED_FOR)
    assert drop_sealed() == 1
    spool = FileSpool(tmp_path)
    month_ago = forgetting.created_at.timestamp() - 30 * 86_400
    spool.append(*say(project, "who knows what", "old", at=month_ago))
    spool.append(*say(project, "hello", "new"))
    carry(spool)
    assert list(Exchange.objects.values_list("session__key", flat=True)) == ["new"]


def test_a_text_is_still_known_once_the_keys_that_seal_were_renewed(
    tmp_path: Path, project: Project, boss: User
) -> None:
    ring = tmp_path / "ring"
    spool = FileSpool(tmp_path / "spool")
    with override_settings(TENTALIS=settings.TENTALIS | {"KEY_RING": ring}):
        add_key(ring)
        spool.append(*say(project, "call Grace Hopper", "hers"))
        spool.append(*say(project, "hello", "innocent"))
        forget_person(project=project, by=boss, text="Grace Hopper")
        call_command("rotate_keys", "--new-key", "--drop-old")
        assert len(ring.read_text().split()) == 1
        carry(spool)
    assert list(Exchange.objects.values_list("session__key", flat=True)) == ["innocent"]
