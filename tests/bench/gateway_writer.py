"""`python -m tests.bench.gateway_writer`: what capture costs, what a turn takes on disk, and whether memory stays flat.

In a throw-away Postgres of its own, on one core: records of the edge's shape (256 + 64 tokens, 8 kB) go through the
spool and the writer as they do in the gateway. CPU is this process's; Postgres' own is not in it.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from tests.bench.gateway_load import PROFILES, render_stream, render_whole

Json = dict[str, Any]
TURNS = 50
ROW_HEADER_BYTES = 36  # tuple header, null bits and line pointer
WARM = 2_000
PACE_S = 0.002


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000, help="for the cost of each kind")
    parser.add_argument("--flat", type=int, default=100_000, help="over how many memory must stay flat")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tentalis.settings.test"
    home = Path(tempfile.mkdtemp(prefix="tentalis-writer-"))
    try:
        rows = measure(home, options.records, options.flat)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    console = Console(width=110)
    table = Table(title="The spool and its writer")
    for name in ("what", "value", "unit", "bar"):
        table.add_column(name, justify="left" if name in ("what", "unit") else "right")
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("what", "value", "unit", "bar")))
    console.print(table)
    console.print(json.dumps({"bench": "gateway_writer", "rows": rows, "ratios": {}}), soft_wrap=True, markup=False)
    return 0


def measure(home: Path, records: int, flat: int) -> list[Json]:
    """All figures, in a Postgres that goes with `home`."""
    from tentalis.platform.home import Home
    from tentalis.platform.up import ensure_embedded_servers

    names = ("TENTALIS_DATABASE_URL", "TENTALIS_REDIS_URL")
    os.environ["TENTALIS_HOME"] = str(home)
    for name, url in zip(names, ensure_embedded_servers(Home(home)), strict=True):
        os.environ[name] = url
    import django

    django.setup()
    from django.core.management import call_command

    from tests.factories import make_project

    call_command("prepare_database", verbosity=0)
    project = make_project("bench").pk
    whole = answer_of(render_whole("base", PROFILES["small"]))
    stream = answer_of(b"".join(render_stream("base", PROFILES["small"])))
    before, after = measure_memory(home / "flat", project, whole, flat)  # first, while nothing else was in memory
    rows = [
        row(f"resident after {WARM:,} records", before, "MB", "-"),
        row(f"most resident over {flat:,} records", after, "MB", 150),
    ]
    for name, answer, is_stream in (("plain", whole, False), ("streamed", stream, True)):
        cost = measure_cost(home / name, project, answer, is_stream=is_stream, count=records)
        bar = 0.25 if name == "plain" else "-"
        rows += [
            row(f"{name}, {len(answer):,} bytes: append", cost["append_ms"], "ms CPU", "-"),
            row(f"{name}: append and writer together", cost["cpu_ms"], "ms CPU", bar),
            row(f"{name}: throughput", cost["rate"], "records/s", "-"),
        ]
    lags = measure_lag(home / "lag", project, whole)
    rows.append(row("behind, at 200 records/s, median", statistics.median(lags), "ms", 100))
    rows.append(row("behind, at 200 records/s, 99 %", statistics.quantiles(lags, n=100)[98], "ms", "-"))
    rows.append(row(f"growth a turn over {TURNS} turns", measure_growth(home / "growth", project), "bytes", 1600))
    return rows


def row(what: str, value: float, unit: str, bar: Any) -> Json:
    return {"what": what, "value": round(value, 4) if value < 10 else round(value, 1), "unit": unit, "bar": bar}


def answer_of(response: bytes) -> bytes:
    """The body of a rendered response, without its chunks' sizes."""
    head, _, body = response.partition(b"\r\n\r\n")
    if b"chunked" not in head:
        return body
    pieces = []
    while body:
        size, _, body = body.partition(b"\r\n")
        pieces.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]
    return b"".join(pieces)


def ask(place: int) -> bytes:
    messages = [{"role": "user", "content": f"{place} " + "some words of a prompt " * 40}]
    return orjson.dumps({"model": "helper", "messages": messages, "temperature": 1.0, "max_tokens": 64})


def measure_cost(root: Path, project: int, answer: bytes, *, is_stream: bool, count: int) -> Json:
    """CPU of the appends alone, and of everything, a record."""
    from tests.apps.gateway.records import make_header

    spool, writer = open_both(root)
    headers = [make_header(project, f"{root.name}-{place % 500}", is_stream=is_stream) for place in range(count)]
    requests = [ask(place) for place in range(count)]
    for header in headers:
        header["id"] = uuid.uuid4().hex
    began_s, began_wall_s = time.process_time(), time.monotonic()
    for header, request in zip(headers, requests, strict=True):
        spool.append(header, request, answer)
    appended_s = time.process_time() - began_s
    spool.close()
    writer.start()
    writer.stop(timeout_s=600)
    whole_s, wall_s = time.process_time() - began_s, time.monotonic() - began_wall_s
    assert writer.stored_count == count
    return {"append_ms": appended_s / count * 1e3, "cpu_ms": whole_s / count * 1e3, "rate": count / wall_s}


def measure_lag(root: Path, project: int, answer: bytes, *, count: int = 1000, rate: float = 200.0) -> list[float]:
    """How long after its append each record is stored, in ms."""
    from apps.inference.models import Exchange
    from tests.apps.gateway.records import make_header

    spool, writer = open_both(root)
    writer.start()
    appended: list[float] = []
    lags: list[float] = []
    gone = threading.Event()

    def watch() -> None:
        first = Exchange.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        while len(lags) < count and not gone.is_set():
            found = Exchange.objects.filter(pk__gt=first + len(lags), session__key="lag").count()
            now = time.perf_counter()
            lags.extend((now - at) * 1e3 for at in appended[len(lags) : len(lags) + found])
            time.sleep(PACE_S)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for place in range(count):
        appended.append(time.perf_counter())
        spool.append(make_header(project, "lag"), ask(place), answer)
        time.sleep(1 / rate)
    watcher.join(30)
    gone.set()
    spool.close()
    writer.stop()
    return lags


def measure_growth(root: Path, project: int) -> float:
    """Bytes of a session's rows over its turns: a person's 30 words, 64 tokens of answer, one tool's definition."""
    from django.db import connection

    from apps.gateway.rows import COLUMNS
    from tests.apps.gateway.records import make_record
    from tests.apps.gateway.upstream import Plan, make_choice

    dice = random.Random(1)
    # four characters a token with its space, as in English
    ends = ("ra", "ste", "in", "t", "")
    vocabulary = [f"{start}{end}" for start in ("be", "c", "da", "fi", "lu", "m") for end in ends]
    spool, writer = open_both(root)
    messages: list[Json] = [{"role": "system", "content": "You help people with their work. " * 8}]
    tools = [{"type": "function", "function": {"name": "look_up", "description": "Looks things up. " * 30}}]
    for _ in range(TURNS):
        messages = [*messages, {"role": "user", "content": say(dice, vocabulary, 30)}]
        reply = say(dice, vocabulary, 63)
        body = {"temperature": 0.7, "max_tokens": 512, "tools": tools}
        spool.append(*make_record(project, messages, "growth", body=body, reply=reply))
        messages = [*messages, {"role": "assistant", "content": make_choice(Plan(reply=reply), 0).text}]
    spool.close()
    writer.start()
    writer.stop()
    with connection.cursor() as cursor:
        # of a whole row Postgres would tell the size before compression
        sizes = " + ".join(f"coalesce(pg_column_size(one.{name}), 0)" for name in COLUMNS)
        cursor.execute(
            f"SELECT sum({ROW_HEADER_BYTES} + {sizes}), count(*) FROM inference_exchange AS one "
            "JOIN inference_session AS session ON session.id = one.session_id WHERE session.key = 'growth'"
        )
        size, count = cursor.fetchone()
    assert count == TURNS
    return float(size) / TURNS


def say(dice: random.Random, vocabulary: Sequence[str], words: int) -> str:
    return " ".join(dice.choice(vocabulary) for _ in range(words))


def measure_memory(root: Path, project: int, answer: bytes, count: int) -> tuple[float, float]:
    """Resident MB after some records, and the most it ever was."""
    from tests.apps.gateway.records import make_header

    spool, writer = open_both(root)
    writer.start()
    before = most = 0.0
    for place in range(count):
        spool.append(make_header(project, f"flat-{place // 20}"), ask(place), answer)
        if place == WARM:
            before = resident_mb()
        if place % 100 == 0:
            most = max(most, resident_mb())
        while spool.size_bytes > 2**25:
            time.sleep(PACE_S)
    spool.close()
    writer.stop(timeout_s=600)
    assert writer.stored_count == count
    return before, max(most, resident_mb())


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def open_both(root: Path) -> tuple[Any, Any]:
    from apps.gateway.process import read_conninfo
    from apps.gateway.rates import KnownRates
    from apps.gateway.spool import FileSpool
    from apps.gateway.writer import Writer

    spool = FileSpool(root)
    return spool, Writer(spool, read_conninfo(), find_rates=KnownRates())


if __name__ == "__main__":
    sys.exit(main())
