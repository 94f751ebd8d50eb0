"""The live socket: what happened, to who may see it, without gaps."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from asgiref.sync import SyncToAsync
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AnonymousUser
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from apps.accounts.browser_sessions import SessionStore, hash_cookie
from apps.accounts.models import ApiToken, BrowserSession, Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token, revoke_token
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.console import live
from apps.console.live import Listener, Recent, current_feed
from apps.console.origins import is_same_origin
from apps.console.routing import websocket_urlpatterns
from apps.console.selectors.live import (
    HEARD_WITH,
    LOOK_BACK,
    Announcement,
    AnnouncementBatch,
    find_announcements_since,
    replay_announcements,
    right_to_hear,
)
from tests.factories import make_task, make_user

pytestmark = pytest.mark.django_db(transaction=True)
SOON_S = 120.0
QUIET_S = 0.5


class Socket:
    """A browser's end of the live socket."""

    def __init__(
        self, user: User | AnonymousUser, query: str, session: SessionStore | None = None, token: ApiToken | None = None
    ) -> None:
        scope: dict[str, Any] = {
            "type": "websocket",
            "path": "/ws/live/",
            "query_string": query.encode(),
            "headers": [],
            "user": user,
        }
        if session is not None:
            scope["session"] = session
        if token is not None:
            scope["token"] = token
        self._pipe: Any = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)  # type: ignore[no-untyped-call]

    async def connect(self) -> bool:
        await self._pipe.send_input({"type": "websocket.connect"})
        return bool((await self.receive())["type"] == "websocket.accept")

    async def receive(self) -> dict[str, Any]:
        return dict(await self._pipe.receive_output(SOON_S))

    async def hear(self) -> Any:
        """What the next frame says: an announcement, or a list of them where batches were asked for."""
        return json.loads((await self.receive())["text"])

    async def hears_nothing(self) -> bool:
        return bool(await self._pipe.receive_nothing(timeout=QUIET_S))

    async def disconnect(self) -> None:
        await self._pipe.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._pipe.wait(SOON_S)


@asynccontextmanager
async def listening(
    user: User | AnonymousUser,
    after: str = "",
    session: SessionStore | None = None,
    *,
    also: str = "",
    token: ApiToken | None = None,
) -> AsyncIterator[Socket]:
    socket = Socket(user, (f"after={after}" if after else "") + also, session, token)
    try:
        yield socket
    finally:
        await socket.disconnect()


@pytest.fixture(autouse=True)
def nothing_left_in_asgirefs_thread(transactional_db: None) -> Iterator[None]:
    """What a closed socket was still reading ends, and its connection with it, before the database is emptied."""
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(timeout=SOON_S)


@pytest.fixture
def task_subject(project: Project) -> Any:
    return make_task(project)


async def say(kind: Kind, subject: Any) -> AuditEntry:
    entry: AuditEntry = await database_sync_to_async(record)(kind, subject=subject, by="pipeline")
    return entry


async def test_a_member_hears_what_is_committed_with_every_field_of_the_contract(
    alice: User, task_subject: Any
) -> None:
    async with listening(alice, after="0") as socket:
        assert await socket.connect()
        first = await say(Kind.TASK_STARTED, task_subject)
        heard = await socket.hear()
        assert heard["id"] == first.pk
        assert heard["kind"] == "task.started"
        assert heard["subject"] == f"task:{task_subject.pk}"
        assert heard["project"] == "shop"
        assert heard["at"].endswith("Z")
        assert set(heard) == {"id", "kind", "subject", "project", "at"}


async def test_a_page_asks_for_batches_and_hears_the_same_in_lists(alice: User, task_subject: Any) -> None:
    said = [(await say(kind, task_subject)).pk for kind in (Kind.TASK_SUBMITTED, Kind.TASK_STARTED)]
    async with listening(alice, after="0", also="&batched=1") as page, listening(alice, after="0") as script:
        for one in (page, script):
            await one.connect()
        replayed = await page.hear()
        assert [item["id"] for item in replayed] == said
        assert [await script.hear() for _ in said] == replayed
        done = await say(Kind.TASK_DONE, task_subject)
        [told] = await page.hear()
        assert told["id"] == done.pk
        assert await script.hear() == told


async def test_an_outsider_and_a_stranger_hear_nothing(charlie: User, task_subject: Any) -> None:
    async with listening(AnonymousUser()) as socket:
        assert not await socket.connect()
    async with listening(charlie, after="0") as socket:
        assert await socket.connect()
        await say(Kind.TASK_STARTED, task_subject)
        assert await socket.hears_nothing()


async def test_a_member_who_is_removed_hears_no_more_and_the_socket_is_closed(
    alice: User, bob: User, task_subject: Any
) -> None:
    await say(Kind.TASK_STARTED, task_subject)
    async with listening(bob, after="0") as socket, listening(alice, after="0") as witness:
        for one in (socket, witness):
            await one.connect()
            assert (await one.hear())["kind"] == "task.started"
        await Member.objects.filter(user=bob).adelete()
        await say(Kind.TASK_DONE, task_subject)
        assert (await witness.hear())["kind"] == "task.done"
        await say(Kind.MEMBER_REMOVED, task_subject)
        closed = await socket.receive()
        assert (closed["type"], closed["code"]) == ("websocket.close", 1013)


def sign_in(user: User) -> SessionStore:
    """A browser's session, as signing in makes one."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session.create()
    return session


@pytest.mark.parametrize("how", ["signed out", "expired"])
async def test_the_socket_of_a_browser_that_is_signed_out_is_closed_and_another_browsers_is_not(
    alice: User, task_subject: Any, how: str
) -> None:
    here, there = [await database_sync_to_async(sign_in)(alice) for _ in range(2)]
    async with listening(alice, "0", here) as socket, listening(alice, "0", there) as witness:
        for one in (socket, witness):
            await one.connect()
            await say(Kind.TASK_STARTED, task_subject)
            await one.hear()
        ended = BrowserSession.objects.filter(pk=hash_cookie(here.session_key or ""))
        await (ended.adelete() if how == "signed out" else ended.aupdate(expire_date="2020-01-01T00:00:00Z"))
        while (said := await socket.receive())["type"] != "websocket.close":
            pass
        assert said["code"] == 1013
        last = await say(Kind.TASK_DONE, task_subject)
        while (await witness.hear())["id"] != last.pk:
            pass


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_the_socket_of_a_token_that_ends_is_closed_and_another_tokens_is_not(
    alice: User, task_subject: Any, how: str
) -> None:
    here, there = [await database_sync_to_async(make_token)(alice) for _ in range(2)]
    async with listening(alice, "0", token=here) as socket, listening(alice, "0", token=there) as witness:
        for one in (socket, witness):
            await one.connect()
            await say(Kind.TASK_STARTED, task_subject)
            await one.hear()
        if how == "revoked":
            await database_sync_to_async(revoke_token)(token=here, by=alice)
        else:
            await ApiToken.objects.filter(pk=here.pk).aupdate(expires_at="2020-01-01T00:00:00Z")
        while (said := await socket.receive())["type"] != "websocket.close":
            pass
        assert said["code"] == 1013
        last = await say(Kind.TASK_DONE, task_subject)
        while (await witness.hear())["id"] != last.pk:
            pass


def make_token(user: User, scopes: Sequence[str] = Right.values) -> ApiToken:
    return create_token(user=user, name="script", scopes=scopes, by=user)[0]


async def test_a_superusers_token_hears_of_what_stands_above_projects_with_the_audits_scope_alone(db: None) -> None:
    root = await database_sync_to_async(make_user)("root", is_superuser=True)
    project = await database_sync_to_async(Project.objects.create)(slug="other", name="Other")
    for scopes, hears in (([Right.AUDIT_READ, Right.PROJECTS_READ], True), ([Right.PROJECTS_READ], False)):
        token = await database_sync_to_async(make_token)(root, scopes)
        async with listening(root, after="0", token=token) as socket:
            await socket.connect()
            await database_sync_to_async(record)(Kind.SIGN_IN_FAILED, by="anonymous")
            last = await database_sync_to_async(record)(Kind.PROJECT_CHANGED, subject=project, by="user:root")
            heard = {}
            while last.pk not in heard:
                said = await socket.hear()
                heard[said["id"]] = said["kind"]
            assert ("user.sign_in_failed" in heard.values()) is hears


async def test_one_token_opens_so_many_sockets_and_no_more(alice: User) -> None:
    token, other = [await database_sync_to_async(make_token)(alice) for _ in range(2)]
    async with AsyncExitStack() as scripts:
        for _ in range(live.MOST_PER_SESSION):
            socket = await scripts.enter_async_context(listening(alice, token=token))
            assert await socket.connect()
        more = await scripts.enter_async_context(listening(alice, token=token))
        assert await more.connect()
        assert (await more.receive())["code"] == 4429
        elsewhere = await scripts.enter_async_context(listening(alice, token=other))
        assert await elsewhere.connect()
        assert await elsewhere.hears_nothing()


async def test_one_browser_opens_so_many_sockets_and_no_more(alice: User) -> None:
    session = await database_sync_to_async(sign_in)(alice)
    other = await database_sync_to_async(sign_in)(alice)
    async with AsyncExitStack() as pages:
        for _ in range(live.MOST_PER_SESSION):
            socket = await pages.enter_async_context(listening(alice, "", session))
            assert await socket.connect()
        more = await pages.enter_async_context(listening(alice, "", session))
        assert await more.connect()
        assert (await more.receive())["code"] == 4429
        elsewhere = await pages.enter_async_context(listening(alice, "", other))
        assert await elsewhere.connect()
        assert await elsewhere.hears_nothing()


async def test_what_takes_a_right_is_heard_with_it_alone(project: Project, alice: User, bob: User) -> None:
    task = await database_sync_to_async(make_task)(project)
    async with listening(bob, after="0") as reviewer, listening(alice, after="0") as manager:
        for one in (reviewer, manager):
            await one.connect()
        token = await database_sync_to_async(record)(Kind.TOKEN_CREATED, by="user:alice", project_id=project.pk)
        done = await say(Kind.TASK_DONE, task)
        assert [(await manager.hear())["id"] for _ in range(2)] == [token.pk, done.pk]
        assert (await reviewer.hear())["id"] == done.pk
    async with listening(bob, after="0") as again:
        await again.connect()
        heard = await again.hear()
        assert (heard["id"], heard["kind"]) == (done.pk, "task.done")


def test_what_is_in_no_table_takes_the_right_to_the_audit() -> None:
    audited = {kind.value for kind in Kind if right_to_hear(kind) == Right.AUDIT_READ}
    assert {"token.created", "user.signed_in", "access.denied", "chain.verified", "person.forgotten"} <= audited
    assert {prefix for prefix in HEARD_WITH if not any(kind.startswith(f"{prefix}.") for kind in Kind)} == set()


@pytest.mark.parametrize(
    ("origin", "host", "scheme", "may"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "ws", True),
        ("http://127.0.0.1:9999", "127.0.0.1:8000", "ws", False),
        ("https://127.0.0.1:8000", "127.0.0.1:8000", "ws", False),
        ("http://localhost:8000", "127.0.0.1:8000", "ws", False),
        ("https://127.0.0.1", "127.0.0.1:443", "wss", True),
        ("http://evil.example:8000", "evil.example:8000", "ws", False),
        ("http://trusted.example", "127.0.0.1:8000", "ws", True),
        ("null", "127.0.0.1:8000", "ws", False),
        ("", "127.0.0.1:8000", "ws", False),
        ("http://[::1", "127.0.0.1:8000", "ws", False),
    ],
)
def test_only_pages_of_the_same_scheme_host_and_port_open_sockets(
    settings: Any, origin: str, host: str, scheme: str, may: bool
) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
    settings.CSRF_TRUSTED_ORIGINS = ["http://trusted.example"]
    headers = [(b"host", host.encode()), *([(b"origin", origin.encode())] if origin else [])]
    assert is_same_origin({"type": "websocket", "scheme": scheme, "headers": headers}) is may


async def test_a_superuser_hears_every_project_and_what_stands_above_them(db: None) -> None:
    root = await database_sync_to_async(make_user)("root", is_superuser=True)
    async with listening(root, after="0") as socket:
        await socket.connect()
        await database_sync_to_async(record)(Kind.SIGN_IN_FAILED, by="anonymous")
        heard = await socket.hear()
        assert (heard["kind"], heard["project"], heard["subject"]) == ("user.sign_in_failed", None, "")


async def test_what_was_missed_is_replayed_in_order_and_only_the_callers(alice: User, task_subject: Any) -> None:
    other = await database_sync_to_async(Project.objects.create)(slug="other", name="Other")
    said = [await say(kind, task_subject) for kind in (Kind.TASK_SUBMITTED, Kind.TASK_STARTED, Kind.TASK_ATTEMPTED)]
    await say(Kind.PROJECT_CHANGED, other)
    async with listening(alice, after="0") as socket:
        await socket.connect()
        assert [(await socket.hear())["id"] for _ in said] == [entry.pk for entry in said]
        assert await socket.hears_nothing()


def test_an_entry_that_commits_after_a_later_one_is_replayed_to_who_heard_the_later(task_subject: Any) -> None:
    given = connection.get_connection_params()
    wanted = {name: given[name] for name in ("host", "port", "dbname", "user", "password") if given.get(name)}
    record(Kind.TASK_SUBMITTED, subject=task_subject, by="pipeline")  # the first entry of a cluster begins its epoch
    with psycopg.connect(**wanted) as slow:
        late_id = slow.execute(
            "INSERT INTO audit_auditentry (kind, subject_type, actor, payload) VALUES (%s, '', 'x', '{}') RETURNING id",
            [Kind.TASK_STARTED.value],
        ).fetchone()[0]  # type: ignore[index]
        with transaction.atomic():
            heard = record(Kind.TASK_DONE, subject=task_subject, by="pipeline")
        assert late_id < heard.pk
        slow.commit()
    replayed = [item.id for page in find_announcements_since(heard.pk) for item in page]
    assert late_id in replayed


async def test_the_feed_finds_postgres_again_and_has_lost_nothing(alice: User, task_subject: Any) -> None:
    async with listening(alice, after="0") as socket:
        await socket.connect()
        first = await say(Kind.TASK_STARTED, task_subject)
        assert (await socket.hear())["id"] == first.pk
        await database_sync_to_async(cut_the_listener)()
        second = await say(Kind.TASK_ATTEMPTED, task_subject)
        heard = set()
        while second.pk not in heard:
            heard.add((await socket.hear())["id"])


async def test_who_may_not_sign_in_any_more_is_shown_the_door(alice: User, bob: User, task_subject: Any) -> None:
    await say(Kind.TASK_STARTED, task_subject)
    async with listening(bob, after="0") as socket, listening(alice, after="0") as witness:
        for one in (socket, witness):
            await one.connect()
            await one.hear()
        await User.objects.filter(pk=bob.pk).aupdate(is_active=False)
        await say(Kind.TASK_DONE, task_subject)
        assert (await witness.hear())["kind"] == "task.done"
        closed = await socket.receive()
        assert (closed["type"], closed["code"]) == ("websocket.close", 1013)


async def test_a_page_that_comes_back_replays_from_memory_what_postgres_would_have_said(
    alice: User, bob: User, task_subject: Any
) -> None:
    other = await database_sync_to_async(Project.objects.create)(slug="other", name="Other")
    async with listening(alice) as witness:
        await witness.connect()
        async with listening(bob, after="0") as socket:
            await socket.connect()
            last = await say(Kind.TASK_STARTED, task_subject)
            while (await socket.hear())["id"] != last.pk:
                pass
        missed = [(await say(kind, task_subject)).pk for kind in (Kind.TASK_ATTEMPTED, Kind.TASK_DONE)]
        await say(Kind.PROJECT_CHANGED, other)
        while (await witness.hear())["id"] != missed[-1]:
            pass
        await Member.objects.acreate(project=other, user=alice, role=Role.VIEWER)
        await say(Kind.PROJECT_CHANGED, other)
        assert (await witness.hear())["project"] == "other"
        assert current_feed().recent.since(last.pk) is not None
        async with listening(bob, after=str(last.pk)) as again:
            await again.connect()
            said = [item.id for page in await database_sync_to_async(replay)(bob, last.pk) for item in page]
            heard = []
            while said[-1] not in heard:
                heard.append((await again.hear())["id"])
            assert heard == said
            assert set(missed) <= set(heard)
            assert await again.hears_nothing()


def replay(user: User, after: int) -> list[list[Announcement]]:
    return list(replay_announcements(user, after))


def announce(number: int, second: float) -> Announcement:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return Announcement(id=number, kind="task.done", subject="task:1", project="shop", project_id=1, at=at)


def test_memory_tells_what_it_knows_whole_and_leaves_the_rest_to_postgres() -> None:
    recent = Recent()
    assert recent.since(1) is None
    recent.begin([], complete_from=announce(0, 0).at, now_s=0)
    recent.add([announce(1, 5)], now_s=5)
    recent.add([announce(2, 11), announce(4, 12)], now_s=12)
    recent.add([announce(3, 11.5), announce(5, 30), announce(5, 30)], now_s=30)
    assert recent.since(1) is None  # what committed up to ten seconds before it may have been missed by the feed
    assert recent.since(99) is None
    found = recent.since(4)
    assert found is not None
    assert [item.id for item in found] == [1, 2, 3, 4, 5]  # the fourth was at 12: everything after 2
    late = recent.since(5)
    assert late is not None
    assert [item.id for item in late] == [5]


def test_memory_forgets_the_oldest_and_knows_that_it_did() -> None:
    recent = Recent(most=3)
    recent.begin([], complete_from=announce(0, 0).at, now_s=0)
    for number in range(1, 6):
        recent.add([announce(number, 20 * number)], now_s=20 * number)
    assert recent.since(2) is None
    found = recent.since(3)  # at 60: what was forgotten came at 40, more than ten seconds before
    assert found is not None
    assert [item.id for item in found] == [3, 4, 5]


def test_a_replay_reads_the_end_of_the_audit_and_not_its_beginning(alice: User, task_subject: Any) -> None:
    for _ in range(3):
        last = record(Kind.TASK_STARTED, subject=task_subject, by="pipeline")
    with CaptureQueriesContext(connection) as captured:
        list(replay_announcements(alice, last.pk))
    reads = [row["sql"] for row in captured.captured_queries if "LIMIT 500" in row["sql"]]
    assert reads
    bound = re.compile(rf'WHERE \("audit_auditentry"\."id" > +{last.pk - LOOK_BACK}\D')
    assert [sql[sql.index("WHERE") :] for sql in reads if not bound.search(sql)] == []


async def test_a_page_that_does_not_read_is_told_to_come_back() -> None:
    listener = Listener(1)
    for number in range(live.BACKLOG + 1):
        listener.offer(AnnouncementBatch([announce(number, number)]))
    assert await listener.next() is None


@pytest.mark.parametrize("after", ["latest", "-1", "1.5", "٣", "9" * 20])
async def test_an_unreadable_place_to_start_is_refused_with_words(alice: User, after: str) -> None:
    async with listening(alice, after=after.replace("٣", "%D9%A3")) as socket:
        await socket.connect()
        closed = await socket.receive()
        assert (closed["type"], closed["code"]) == ("websocket.close", 4400)
        assert "after" in closed["reason"]


@pytest.mark.parametrize("batched", ["", "0", "true", "1&batched=1"])
async def test_an_unreadable_wish_for_batches_is_refused_with_words(alice: User, batched: str) -> None:
    async with listening(alice, after="0", also=f"&batched={batched}") as socket:
        await socket.connect()
        closed = await socket.receive()
        assert (closed["type"], closed["code"]) == ("websocket.close", 4400)
        assert "batched" in closed["reason"]


async def test_nobody_listening_leaves_no_connection_behind(alice: User, task_subject: Any) -> None:
    await say(Kind.TASK_STARTED, task_subject)
    async with listening(alice, after="0") as socket:
        await socket.connect()
        await socket.hear()
        assert await database_sync_to_async(count_listeners)() == 1
    assert await database_sync_to_async(count_listeners)() == 0


def count_listeners() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'tentalis live' AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def cut_the_listener() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'tentalis live' AND datname = current_database()"
        )
