"""The writer against a real Postgres: everything once, in order, and readable again."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import orjson
import psycopg
import pytest
from django.db import connection, transaction
from psycopg.conninfo import make_conninfo

from apps.accounts.models import Project
from apps.gateway.rates import KnownRates
from apps.gateway.record import Header, Record
from apps.gateway.rows import COLUMNS
from apps.gateway.spool import FileSpool, Position, measure_spools
from apps.gateway.writer import Writer
from apps.inference.models import Exchange, Price, Provider, Session, SpoolPosition
from apps.inference.selectors import read_conversations, read_messages
from tentalis.core.packing import unpack_int32
from tests.apps.gateway.records import make_record
from tests.apps.gateway.upstream import prompt_tokens_of
from tests.factories import make_project

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = {"role": "user", "content": "Say hello to them."}


def conninfo() -> str:
    wanted = connection.get_connection_params()
    return make_conninfo("", **{name: wanted[name] for name in ("host", "port", "dbname", "user", "password")})


def write(root: Path, records: Iterable[Record], **options: Any) -> Writer:
    """Spool them and carry them over, as one process from its start to its end."""
    spool = FileSpool(root, **options)
    writer = Writer(spool, conninfo())
    for record in records:
        spool.append(*record)
    spool.close()
    writer.start()
    writer.stop()
    return writer


def talk(project: Project, turns: int, session: str = "s", **plan: Any) -> list[Record]:
    """A conversation of so many turns, each repeating all before."""
    messages: list[Mapping[str, Any]] = [{"role": "system", "content": "Be kind."}]
    records = []
    for turn in range(turns):
        messages = [*messages, {"role": "user", "content": f"What comes after turn {turn}?"}]
        records.append(make_record(project.pk, messages, session, reply=f"Turn {turn + 1} does.", **plan))
        messages = [*messages, {"role": "assistant", "content": f"Turn {turn + 1} does."}]
    return records


def test_copy_names_every_column_of_an_exchange(project: Project) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, udt_name FROM information_schema.columns WHERE table_name = 'inference_exchange'"
        )
        found = dict(cursor.fetchall())
    # alternatives to a token are asked for and kept by workers alone; here they stay the database's default: none
    assert found == dict(COLUMNS) | {"top_token_ids": "bytea", "top_logprobs": "bytea", "deleted_at": "timestamptz"}


def test_what_was_spooled_is_stored_whole(project: Project, tmp_path: Path) -> None:
    provider = Provider.objects.create(project=project, name="there", base_url="http://127.0.0.1:1/v1")
    record = make_record(
        project.pk, [HELLO], body={"temperature": 0.5, "tools": [{"type": "function", "function": {"name": "f"}}]},
        reply="Hello there", reasoning="They wait.", provider=provider.pk, adapter="desk@v3-abc", policy_version=3,
        task=7, step=2, end_user="carol", turn="side", api="messages", worker="desk",
    )  # fmt: skip
    write(tmp_path, [record])
    exchange = Exchange.objects.get()
    assert exchange.public_id.hex == record.header["id"]
    assert (exchange.project, exchange.provider, exchange.worker_name) == (project, provider, "desk")
    assert (exchange.text, exchange.reasoning, exchange.finish_reason) == ("Hello there", "They wait.", "stop")
    assert exchange.request == {
        "temperature": 0.5, "tools": [{"type": "function", "function": {"name": "f"}}], "model": "desk"
    }  # fmt: skip
    assert (exchange.adapter_name, exchange.policy_version, exchange.model) == ("desk@v3-abc", 3, "base")
    assert (exchange.task_id, exchange.step_index, exchange.turn, exchange.api) == (7, 2, "side", "messages")
    assert (exchange.latency_ms, exchange.first_token_ms, exchange.status) == (12.5, 3.25, 200)
    assert exchange.created_at.timestamp() == record.header["at"]
    assert read_messages(exchange) == [HELLO]
    tokens = read_conversations([exchange])[exchange.pk].prompt_token_ids
    assert unpack_int32(tokens) == prompt_tokens_of([HELLO])
    assert exchange.has_exact_tokens
    assert all(exchange.unpack_sampled())
    session = Session.objects.get()
    assert (session.key, session.agent, session.end_user, session.worker_name) == ("s", "alice", "carol", "desk")
    assert session.created_at == exchange.created_at
    assert session.last_seen_at - session.created_at == timedelta(milliseconds=12.5)


def test_a_clean_end_leaves_no_spool_and_no_position(project: Project, tmp_path: Path) -> None:
    write(tmp_path, talk(project, 3))
    assert list(tmp_path.iterdir()) == []
    assert not SpoolPosition.objects.exists()


def test_a_turn_stores_what_is_new_and_reads_whole(project: Project, tmp_path: Path) -> None:
    records = talk(project, 5)
    write(tmp_path, records)
    exchanges = list(Exchange.objects.order_by("pk"))
    assert [len(exchange.messages) for exchange in exchanges] == [2, 1, 1, 1, 1]
    assert [exchange.parent_id for exchange in exchanges[1:]] == [exchange.pk for exchange in exchanges[:-1]]
    whole = read_conversations(exchanges)
    for exchange, record in zip(exchanges, records, strict=True):
        messages = orjson.loads(record.request)["messages"]
        assert whole[exchange.pk].messages == messages
        assert unpack_int32(whole[exchange.pk].prompt_token_ids) == prompt_tokens_of(messages)


def test_reading_many_is_one_query_and_reading_full_rows_is_none(
    project: Project, tmp_path: Path, django_assert_num_queries: Any
) -> None:
    write(tmp_path, [*talk(project, 40), *talk(project, 1, "other")])
    exchanges = list(Exchange.objects.order_by("pk"))
    with django_assert_num_queries(1):
        read_conversations(exchanges)
    with django_assert_num_queries(0):
        read_conversations([one for one in exchanges if one.parent_id is None])


def test_chains_stay_short(project: Project, tmp_path: Path) -> None:
    write(tmp_path, talk(project, 70))
    depths: dict[int | None, int] = {None: -1}
    for exchange in Exchange.objects.order_by("pk"):
        depths[exchange.pk] = depths[exchange.parent_id] + 1
    assert max(depths.values()) == 32
    assert list(depths.values()).count(0) == 3


def test_the_next_process_goes_on_where_the_last_was_killed(project: Project, tmp_path: Path) -> None:
    records = talk(project, 6)
    first = FileSpool(tmp_path)
    for record in records[:4]:
        first.append(*record)
    writer = Writer(first, conninfo())
    writer._store.read_position(first.directory.name)
    batch = writer._own.reader.read(Position(), most_bytes=10**6, most_records=2)
    writer._own.position = Position()
    writer._write([(writer._own, spooled) for spooled in batch])  # two of four are stored when the process dies
    first.directory.release()
    assert Exchange.objects.count() == 2
    write(tmp_path, records[4:])
    wanted = {uuid.UUID(record.header["id"]) for record in records}
    assert Exchange.objects.count() == 6
    assert set(Exchange.objects.values_list("public_id", flat=True)) == wanted
    assert list(tmp_path.iterdir()) == []


def test_what_several_processes_answered_in_one_session_is_stored_in_its_order(
    project: Project, tmp_path: Path
) -> None:
    own = FileSpool(tmp_path, name="gateway-a")
    spools = [FileSpool(tmp_path, name=f"gateway-a-{number}-0") for number in (1, 2, 3)]
    another = FileSpool(tmp_path, name="gateway-b-1-0")
    records = talk(project, 12)
    for place, record in enumerate(records):
        header = {**record.header, "at": 1_800_000_000.0 + place}
        spools[(place * 5 + 1) % 3].append(cast(Header, header), record.request, record.answer)
    another.append(*talk(project, 1, "other")[0])
    writer = Writer(own, conninfo(), follows="gateway-a-")
    writer._carry_all()
    pks = list(Exchange.objects.order_by("pk").values_list("pk", flat=True))
    assert list(Exchange.objects.order_by("pk").values_list("parent_id", flat=True)) == [None, *pks[:-1]]
    assert [one.hex for one in Exchange.objects.order_by("pk").values_list("public_id", flat=True)] == [
        record.header["id"] for record in records
    ]
    spools[0].append(*talk(project, 1, "late")[0])
    for spool in (own, *spools, another):
        spool.close()
    for spool in spools:  # their processes end
        spool.directory.release()
    writer.start()
    writer.stop()
    assert Exchange.objects.count() == 13
    assert [path.name for path in tmp_path.iterdir()] == ["gateway-b-1-0"]


def test_two_writers_of_one_spool_store_each_record_once(project: Project, tmp_path: Path) -> None:
    spool = FileSpool(tmp_path)
    for record in talk(project, 300):
        spool.append(*record)
    one, other = Writer(spool, conninfo()), Writer(spool, conninfo())
    while one._carry_all() | other._carry_all():  # each finds that the other has moved on
        pass
    assert Exchange.objects.count() == 300
    assert one.stored_count + other.stored_count == 300
    other._store.close()
    spool.close()
    one.start()
    one.stop()


def test_records_of_a_deleted_project_and_unreadable_ones_hold_nothing_up(project: Project, tmp_path: Path) -> None:
    gone = make_project("gone")
    good = talk(project, 2)
    lost = talk(gone, 1)[0]
    gone.delete()
    strange = make_record(project.pk, [HELLO])
    strange.header["id"] = "no uuid"
    other = make_record(project.pk, [HELLO], "other", policy_version=10**12)
    writer = write(tmp_path, [good[0], lost, strange, other, good[1]])
    assert Exchange.objects.count() == 2
    assert writer.rejected_count == 2
    assert (tmp_path / "rejected").stat().st_size > 0
    assert read_messages(Exchange.objects.latest("pk")) == orjson.loads(good[1].request)["messages"]


def test_a_deleted_parent_is_noticed_and_the_next_turn_is_stored_whole(project: Project, tmp_path: Path) -> None:
    records = talk(project, 3)
    spool = FileSpool(tmp_path)
    writer = Writer(spool, conninfo())
    for record in records[:2]:
        spool.append(*record)
    writer._carry_all()
    with transaction.atomic():
        Exchange.objects.all().delete()
    spool.append(*records[2])
    writer._carry_all()
    exchange = Exchange.objects.get()
    assert exchange.parent is None
    assert read_messages(exchange) == orjson.loads(records[2].request)["messages"]
    spool.close()
    writer.start()
    writer.stop()


def test_a_provider_that_is_gone_leaves_its_exchanges(project: Project, tmp_path: Path) -> None:
    write(tmp_path, [make_record(project.pk, [HELLO], provider=123)])
    assert Exchange.objects.get().provider is None


def test_a_session_closes_when_it_is_said_and_opens_when_it_speaks_again(project: Project, tmp_path: Path) -> None:
    records = talk(project, 2)
    records[0].header["is_done"] = True
    write(tmp_path / "a", records[:1])
    before = Session.objects.get()
    assert before.closed_at == before.last_seen_at
    records[1].header["at"] = 0.0  # a clock that went back still moves the session on
    write(tmp_path / "b", records[1:])
    after = Session.objects.get()
    assert after.closed_at is None
    assert after.last_seen_at > before.last_seen_at


def test_while_postgres_is_away_the_spool_fills_and_says_so(project: Project, tmp_path: Path) -> None:
    spool = FileSpool(tmp_path, segment_bytes=4_000, limit_bytes=20_000)
    away = Writer(spool, "host=127.0.0.1 port=1 connect_timeout=1")
    away.start()
    for record in talk(project, 30):
        spool.append(*record)
    assert spool.is_full
    away.stop(timeout_s=0.1)
    spool.close()
    assert measure_spools(tmp_path) >= 20_000
    write(tmp_path, [])
    assert Exchange.objects.count() == 30
    assert measure_spools(tmp_path) == 0


def test_stored_segments_are_deleted_while_the_process_runs(project: Project, tmp_path: Path) -> None:
    spool = FileSpool(tmp_path, segment_bytes=4_000, limit_bytes=20_000)
    writer = Writer(spool, conninfo())
    for record in talk(project, 30):
        spool.append(*record)
    assert spool.is_full
    while writer._carry_all():
        pass
    assert not spool.is_full
    assert len(spool.directory.find_segments()) == 1
    spool.close()
    writer.start()
    writer.stop()


def test_text_that_postgres_cannot_hold_is_stored_with_a_sign_in_its_place(project: Project, tmp_path: Path) -> None:
    record = make_record(project.pk, [{"role": "user", "content": "a\x00b"}], "s\x00", end_user="\ud800")
    write(tmp_path, [record])
    exchange = Exchange.objects.get()
    assert read_messages(exchange) == [{"role": "user", "content": "a\ufffdb"}]
    assert exchange.session is not None
    assert (exchange.session.key, exchange.session.end_user) == ("s\ufffd", "?")


def test_a_session_remembered_by_nobody_is_found_in_postgres(project: Project, tmp_path: Path) -> None:
    records = talk(project, 4)
    for place, record in enumerate(records):
        write(tmp_path / str(place), [record])
    assert [len(exchange.messages) for exchange in Exchange.objects.order_by("pk")] == [2, 1, 1, 1]


def test_the_writer_waits_for_postgres_and_then_goes_on(project: Project, tmp_path: Path) -> None:
    spool = FileSpool(tmp_path)
    writer = Writer(spool, conninfo())
    records = talk(project, 3)
    spool.append(*records[0])
    writer._carry_all()
    with psycopg.connect(conninfo(), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tentalis-spool'"
        )
    for record in records[1:]:
        spool.append(*record)
    spool.close()
    writer.start()
    writer.stop()
    assert Exchange.objects.count() == 3


def test_an_exchange_costs_what_its_model_cost_then(project: Project, tmp_path: Path) -> None:
    provider = Provider.objects.create(project=project, name="there", base_url="http://127.0.0.1:1/v1")
    now = datetime.fromtimestamp(1_800_000_000, UTC)
    for days, price in ((20, 1), (10, 2), (0, 4)):
        Price.objects.create(
            provider=provider, model="base", input=price, output=10 * price, valid_from=now - timedelta(days=days)
        )
    asked: dict[str, Any] = {"provider": provider.pk, "kind": provider.kind, "asked": "base"}
    records = [make_record(project.pk, [HELLO], f"s{days}", at=(now - timedelta(days=days)).timestamp(), **asked)
               for days in (30, 15, 5)]  # fmt: skip
    spool = FileSpool(tmp_path)
    for record in records:
        spool.append(*record)
    spool.close()
    writer = Writer(spool, conninfo(), find_rates=KnownRates())
    writer.start()
    writer.stop()
    exchanges = Exchange.objects.order_by("pk")
    tokens = exchanges[0].prompt_tokens + 10 * exchanges[0].completion_tokens
    assert [one.cost_usd for one in exchanges] == [None, Decimal(tokens) / 10**6, Decimal(2 * tokens) / 10**6]
