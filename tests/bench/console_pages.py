"""What the console's pages cost: found in the URL configuration, so that a page is measured from the day it lands."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from rich.console import Console
from rich.table import Table

from apps.accounts.browser_sessions import SessionStore
from apps.accounts.models import Member, User
from apps.adapters.models import Adapter
from apps.audit.models import AuditEntry
from apps.calibration.models import Rater
from apps.feedback.claims import claim
from apps.feedback.models import Review
from apps.finding.pages import write_place
from apps.inference.models import Session
from apps.outbox.models import Segment
from apps.supervision.models import Proposal
from apps.tasks.models import Attempt, Step, Task
from apps.training.models import TrainingRun
from tentalis.platform.up import RunningStack
from tests.bench.console_history import OWNER, REVIEWERS, SLUG
from tests.bench.console_peer import PEERS, count_peer

BACKEND = "django.contrib.auth.backends.ModelBackend"
BARS_MS = {
    "review-list": 200.0,
    "task-list": 200.0,
    "task": 200.0,
    "project": 200.0,
    "review-tall": 200.0,
    "next-review": 150.0,
    "submit-next": 250.0,
}
"""p95 of server time."""
TALL, TALL_ANSWERS, TALL_STEPS = "review-tall", 8, 40
WARM_UP, ROUNDS, SOME, HELD = 5, 7, 28, 14
PATIENCE_S = 60.0
"""A page is asked for so long at most."""
QUERIES: Mapping[str, Sequence[str]] = {
    "task-list": ("state=in_review", "state=cancelled", "state=done&after={task_place}", "after={task_place}"),
    "audit": ("kind=run.failed", "actor=nobody", "kind=task.started&before={middle_entry}", "before={middle_entry}"),
    "review-list": ("held=free&assigned=nobody", "min_score=0.95", "worker=phone&min_priority=0.95", "due=late"),
    "run-list": ("state=failed",),
    "adapter-list": ("state=refused",),
    "project": ("worker=phone",),
    "attempt-compare": ("left={first_attempt}&right={second_attempt}",),
}
"""What people narrow a page to; each is measured as a page of its own."""
COOKIE, CSRF = "sessionid", "0123456789abcdefghijklmnopqrstuv"


@dataclass(frozen=True)
class Counted:
    """What a page asks of Postgres: statements, and milliseconds (medians) in them and in all."""

    sqls: Sequence[str]
    sql_ms: float
    total_ms: float


@dataclass(frozen=True)
class PageRow:
    """One page; times in milliseconds.

    Attributes:
        requests: how many were measured.
        cpu_ms: of the web process and of Postgres, a request; what is left when the machine is not shared.
        queries_small, queries: over the small and over the full history; None where it was not counted.
        sql_ms: the statements alone, which nothing can undercut; peer_ms: a stock list view over the same rows.
    """

    name: str
    requests: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: float
    queries_small: int | None
    queries: int | None
    sql_ms: float | None
    own_ms: float | None
    peer_ms: float | None


@dataclass(frozen=True)
class Pages:
    rows: Sequence[PageRow]
    left_out: Sequence[str]
    missed: Sequence[str]
    grown: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Said:
    """Statements, and the milliseconds they took with the driver's part."""

    def __init__(self) -> None:
        self.sqls: list[str] = []
        self.spent_ms = 0.0

    def __call__(self, execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.spent_ms += 1000 * (time.perf_counter() - began)
            self.sqls.append(str(sql))


def find_patterns() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name, parameters) of every path of a project's console."""
    yield from _walk(get_resolver("apps.console.urls").url_patterns, ())


def _walk(patterns: Sequence[Any], above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for pattern in patterns:
        own = (*above, *pattern.pattern.converters)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, own)
        elif isinstance(pattern, URLPattern) and pattern.name and "slug" in own:
            yield pattern.name, own


def find_paths(
    ask: Callable[[str], int], values: Mapping[str, Sequence[object]]
) -> tuple[dict[str, list[str]], list[str]]:
    """Every page of a project that answers a GET, with paths to try; and names of those nobody gave values for.

    Args:
        ask: the status with which a path answers.
        values: parameter -> what to put in; `page.parameter` for one page only.
    """
    pages: dict[str, list[str]] = {}
    left_out = []
    for name, parameters in find_patterns():
        chosen = {each: values.get(f"{name}.{each}") or values.get(each) or () for each in parameters}
        if not all(chosen.values()):
            left_out.append(name)
            continue
        count = max(map(len, chosen.values()))
        paths = [
            reverse(f"console:{name}", kwargs={each: some[number % len(some)] for each, some in chosen.items()})
            for number in range(count)
        ]
        if ask(paths[0]) == 200:
            pages[name] = paths
        ends = {each: str(some[0]) for each, some in values.items() if some}
        for query in QUERIES.get(name, ()):  # a page's name is the same over every history
            if ask(path := f"{paths[0]}?{query.format_map(ends)}") == 200:
                pages[f"{name}?{query}"] = [path]
    return pages, left_out


def find_values() -> dict[str, Sequence[object]]:
    """Rows of the history from its beginning, middle and end."""
    rich = Task.objects.filter(attempts__exchange__isnull=False).distinct()
    judged = _spread(rich.filter(state__in=["done", "learning"]))
    mine = Review.objects.filter(claimed_by__username=OWNER, state=Review.State.OPEN)
    attempts = list(Attempt.objects.filter(task=judged[0]).order_by("pk").values_list("pk", flat=True)[:2])
    return {
        "slug": [SLUG],
        "task_id": judged,
        "review_id": list(mine.order_by("pk").values_list("pk", flat=True)[:SOME]),
        "first_attempt": attempts[:1],
        "second_attempt": attempts[1:2],
        "task_place": [write_place(str(Task.objects.latest("pk").pk // 2))],
        "middle_entry": [AuditEntry.objects.latest("pk").pk // 2],
        "feedback_id": judged,
        "rater_id": _spread(Rater.objects.filter(kind="person")),
        "proposal_id": _spread(Proposal.objects.filter(state="pending")),
        "member_id": _spread(Member.objects.filter(project__slug=SLUG)),
        "run_id": _spread(TrainingRun.objects.all()),
        "adapter_id": _spread(Adapter.objects.all()),
        "session_id": _spread(Session.objects.all()),
        "segment_id": _spread(Segment.objects.filter(state="dead")),
        "name": ["desk"],
    }


def make_tall_review(person: User) -> Review:
    """One of a task with as many answers and steps as people are asked to judge at once, none like another."""
    task = Task.objects.filter(project__slug=SLUG, state=Task.State.IN_REVIEW).latest("pk")
    task.pk, task.state = None, Task.State.IN_REVIEW
    task.save(force_insert=True)
    attempts = [
        Attempt(task=task, index=number, worker=task.worker, answer=f"{number}.20", score=number / TALL_ANSWERS)
        for number in range(TALL_ANSWERS)
    ]
    steps = [
        Step(attempt=attempt, index=place, kind="step", text=f"Step {place} of {attempt.index}: " + 8 * "a word more, ")
        for attempt in Attempt.objects.bulk_create(attempts)
        for place in range(TALL_STEPS)
    ]
    Step.objects.bulk_create(steps)
    review = Review.objects.create(project=task.project, task=task, audience="human")
    return claim(review=review, by=person)


def _spread(rows: Any) -> list[int]:
    pks = rows.order_by("pk").values_list("pk", flat=True)
    first, last = list(pks[: SOME // 2]), list(pks.reverse()[: SOME // 2])
    return list(dict.fromkeys([*first, *last]))


def count_pages(only: tuple[str, ...]) -> dict[str, Counted]:
    """Every page whose name begins with one of `only`, in this process."""
    client = sign_in_here(User.objects.get(username=OWNER))
    for _ in range(HELD):
        client.post(reverse("console:review-next", args=(SLUG,)))
    pages, _ = find_paths(lambda path: client.get(path).status_code, find_values())
    return {name: count_page(client, paths) for name, paths in pages.items() if name.startswith(only)}


def count_page(client: Client, paths: Sequence[str]) -> Counted:
    """Ask for a page some times; the first time, which fills caches, does not count."""
    client.get(paths[0])
    sql_ms, total_ms = [], []
    longest: list[str] = []
    for path in (paths[number * len(paths) // ROUNDS] for number in range(ROUNDS)):
        began = time.perf_counter()
        client.get(path)
        total_ms.append(1000 * (time.perf_counter() - began))
        said = Said()
        with connection.execute_wrapper(said):
            client.get(path)
        sql_ms.append(said.spent_ms)
        longest = max(longest, said.sqls, key=len)
    return Counted(longest, median(sql_ms), median(total_ms))


def sign_in_here(user: User) -> Client:
    client = Client(SERVER_NAME="localhost")
    client.force_login(user, backend=BACKEND)
    return client


def make_session(user: User) -> str:
    """A session as signing in makes one; its key is the cookie."""
    session = SessionStore()
    session[SESSION_KEY], session[BACKEND_SESSION_KEY] = str(user.pk), BACKEND
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def measure_pages(
    stack: RunningStack, *, requests: int, small: Mapping[str, Counted] | None, only: tuple[str, ...]
) -> Pages:
    """The real web process's pages whose names begin with one of `only`, `requests` times each."""
    origin = stack.state().addresses["console_url"]
    person = User.objects.get(username=OWNER)
    stop_watch = StopWatch(psutil.Process(stack.pid_of("web")), psutil.Process(stack.pid_of("postgres")))
    full = count_pages(only)
    rows = []
    with _open(origin, person) as web:
        pages, left_out = find_paths(lambda path: web.get(path).status_code, find_values())
        for name, paths in pages.items():
            if not name.startswith(only):
                continue
            taken = stop_watch.time(requests, cycle([partial(_get, web, path) for path in paths]))
            rows.append(_make_row(name, taken, small, full.get(name)))
        if TALL.startswith(only):
            path = reverse("console:review", args=(SLUG, make_tall_review(person).pk))
            taken = stop_watch.time(requests, cycle([partial(_get, web, path)]))
            rows.append(_make_row(TALL, taken, None, None))
    with ExitStack() as kept:
        people = User.objects.filter(username__startswith="reviewer").order_by("username")[:REVIEWERS]
        webs = [kept.enter_context(_open(origin, user)) for user in people]
        taken = stop_watch.time(requests, cycle([partial(_take_next, web) for web in webs]))
        rows.append(_make_row("next-review", taken, None, None))
        held = {id(web): _take_next(web) for web in webs}
        taken = stop_watch.time(requests, cycle([partial(_submit, web, held) for web in webs]))
        rows.append(_make_row("submit-next", taken, None, None))
    by_name = {row.name: row for row in rows}
    missed = [
        f"{name}: p95 {by_name[name].p95_ms:.0f} ms, wanted {bar_ms:.0f} ms at most"
        for name, bar_ms in BARS_MS.items()
        if name in by_name and by_name[name].p95_ms > bar_ms
    ]
    missed += [f"{name} was not found" for name in BARS_MS if name not in by_name and name.startswith(only)]
    missed += [
        f"{row.name}: {row.queries_small} queries over the small history, {row.queries} over the full one"
        for row in rows
        if row.queries_small is not None and row.queries_small != row.queries
    ]
    grown = {
        row.name: [sql[:200] for sql in full[row.name].sqls]
        for row in rows
        if small and row.queries_small is not None and row.queries_small != row.queries
    }
    return Pages(rows, left_out, missed, grown)


@dataclass(frozen=True)
class Taken:
    """Milliseconds of each request, in order of size, and the mean of the servers' CPU time."""

    times_ms: Sequence[float]
    cpu_ms: float


class StopWatch:
    """Times requests, and what they cost the processes that answer them."""

    def __init__(self, *processes: psutil.Process) -> None:
        self._processes = processes

    def time(self, requests: int, asks: Iterator[Callable[[], object]]) -> Taken:
        """So many after some that warm up, or as many as patience allows."""
        for _ in range(WARM_UP):
            next(asks)()
        times_ms: list[float] = []
        cpu_before, ends = self._cpu_ms(), time.monotonic() + PATIENCE_S
        while len(times_ms) < requests and time.monotonic() < ends:
            ask = next(asks)
            began = time.perf_counter()
            ask()
            times_ms.append(1000 * (time.perf_counter() - began))
        return Taken(sorted(times_ms), (self._cpu_ms() - cpu_before) / len(times_ms))

    def _cpu_ms(self) -> float:
        spent = 0.0
        for process in self._processes:
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    times = one.cpu_times()
                    spent += times.user + times.system
        return 1000 * spent


def _make_row(name: str, taken: Taken, small: Mapping[str, Counted] | None, full: Counted | None) -> PageRow:
    ordered = taken.times_ms
    before = small.get(name) if small else None
    return PageRow(
        name=name,
        requests=len(ordered),
        cpu_ms=round(taken.cpu_ms, 1),
        p50_ms=round(quantile(ordered, 0.5), 2),
        p95_ms=round(quantile(ordered, 0.95), 2),
        p99_ms=round(quantile(ordered, 0.99), 2),
        queries_small=len(before.sqls) if before else None,
        queries=len(full.sqls) if full else None,
        sql_ms=round(full.sql_ms, 2) if full else None,
        own_ms=round(full.total_ms, 2) if full else None,
        peer_ms=count_peer(name) if name in PEERS else None,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def _open(origin: str, user: User) -> httpx.Client:
    return httpx.Client(
        base_url=origin,
        cookies={COOKIE: make_session(user), "csrftoken": CSRF},
        headers={"X-CSRFToken": CSRF, "Origin": origin, "Referer": origin},
        timeout=120,
    )


def _get(web: httpx.Client, path: str) -> None:
    answer = web.get(path)
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: wanted 200, found {answer.status_code}")


def _take_next(web: httpx.Client) -> str:
    """Claim the next review and open its page, as the button does. Returns its path."""
    return _follow(web, web.post(reverse("console:review-next", args=(SLUG,))))


def _submit(web: httpx.Client, held: dict[int, str]) -> None:
    """Judge the review one has open; its answer leads to the next."""
    words = {"score": "0.7", "text": "Old customers pay no surcharge on Fridays."}
    held[id(web)] = _follow(web, web.post(held[id(web)], data=words))


def _follow(web: httpx.Client, answer: httpx.Response) -> str:
    place = str(answer.headers.get("Location", ""))
    if answer.status_code not in (302, 303) or not urlsplit(place).path.rstrip("/").rpartition("/")[2].isdigit():
        raise RuntimeError(f"next review: wanted to be sent to one, found {answer.status_code} {place}")
    _get(web, place)
    return place


def print_pages(console: Console, pages: Pages) -> None:
    table = Table(title="Pages: server time in ms")
    names = ("page", "n", "p50", "p95", "p99", "bar", "CPU", "queries small", "full", "in process", "SQL", "stock view")
    for name in names:
        table.add_column(name, justify="left" if name == "page" else "right")
    for row in pages.rows:
        numbers = (row.queries_small, row.queries, row.own_ms, row.sql_ms, row.peer_ms)
        bar_ms = BARS_MS.get(row.name)
        table.add_row(
            row.name,
            str(row.requests),
            *(f"{value:.0f}" for value in (row.p50_ms, row.p95_ms, row.p99_ms)),
            f"{bar_ms:.0f}" if bar_ms else "",
            f"{row.cpu_ms:.0f}",
            *("" if value is None else f"{value:.0f}" for value in numbers),
        )
    console.print(table)
    console.print(f"no GET page, or nobody gave its parameters: {', '.join(pages.left_out) or 'none'}", highlight=False)
    for name, sqls in pages.grown.items():
        console.print(f"queries of {name}:", *sqls, sep="\n  ", highlight=False, markup=False)
