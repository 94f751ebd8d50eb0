"""`python -m tests.bench.reviewers`: many reviewers at one queue, some of them careless, some of their servers killed.

Each takes a review, types (a draft is saved), and judges it; some give it back, some close the laptop, some come too
late. Meanwhile the processes they speak to are killed with -9, one after the other. Counted from what each reviewer saw
and from the rows afterwards: reviews lost or judged twice, two people holding one review, drafts lost. The control
finds first and updates then.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PEOPLE = (16, 50)
REVIEWS, CONTROL_REVIEWS = 10_000, 1_000
PROCESSES = 4
LEASE_S = 3.0
KILL_EVERY_S = 4.0
RELEASED, ABANDONED, LATE = 0.05, 0.02, 0.01
"""Shares of the reviews taken that are given back, left lying, and judged after the lease."""
PATIENCE_S = 900.0
Event = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """One row of the table.

    Args:
        collisions: times that somebody was given a review another had at that moment.
        refused: judgements that were not taken, for somebody else had the review by then.
        drafts: saved and acknowledged, whose judgement was not given; lost: of those, gone or older than acknowledged.
        claim_ms: half of the claims took no longer; claim_p99_ms: 99 of 100.
    """

    name: str
    people: int
    reviews: int
    wall_s: float
    judged: int
    lost: int
    judged_twice: int
    collisions: int
    refused: int
    kills: int
    drafts: int
    drafts_lost: int
    claim_ms: float
    claim_p99_ms: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=list(PEOPLE))
    parser.add_argument("--reviews", type=int, default=REVIEWS)
    parser.add_argument("--control-reviews", type=int, default=CONTROL_REVIEWS)
    options = parser.parse_args()
    console = Console(width=150)
    set_up()
    rows = [measure("one statement", people, options.reviews, is_control=False) for people in options.people]
    controls = [
        measure("find, then update", people, options.control_reviews, is_control=True) for people in options.people
    ]
    print_table(console, [*rows, *controls])
    is_good = all(row.lost == row.judged_twice == row.collisions == row.drafts_lost == 0 for row in rows)
    collides = all(row.collisions > 0 for row in controls)
    result = {
        "bench": "reviewers",
        "rows": [asdict(row) for row in (*rows, *controls)],
        "ratios": {
            f"collisions_per_thousand_{row.name.replace(', ', '_').replace(' ', '_')}_{row.people}": round(
                1000 * row.collisions / row.reviews, 2
            )
            for row in (*rows, *controls)
        },
        "is_good": is_good,
        "control_collides": collides,
    }
    console.print(json.dumps(result), soft_wrap=True, markup=False, highlight=False)
    return 0 if is_good and collides else 1


def set_up() -> None:
    """Servers of our own, gone with this process, and the tables in them."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
    import django

    import tests.embedded_servers  # noqa: F401

    django.setup()
    from django.core.management import call_command

    call_command("prepare_database", verbosity=0)


def measure(name: str, people: int, reviews: int, *, is_control: bool) -> Measured:
    """Let a crew work a queue off and count what became of it."""
    project_id = fill_queue(people, reviews)
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory:
        began = time.monotonic()
        kills = work_off(project_id, people, Path(directory), is_control=is_control)
        wall_s = time.monotonic() - began
        return count(name, project_id, people, reviews, list(read_events(Path(directory))), wall_s, kills)


def fill_queue(people: int, reviews: int) -> int:
    """A project with that many reviewers and open reviews; its id."""
    from apps.accounts.models import Member, Role
    from apps.feedback.models import Review
    from apps.tasks.models import Attempt, Task
    from tests.factories import make_project, make_task, make_user

    project = make_project(f"crew-{time.monotonic_ns()}")
    crew = [make_user(name_of(number)) for number in range(people)]
    Member.objects.bulk_create(Member(project=project, user=user, role=Role.REVIEWER) for user in crew)
    first = make_task(project, state=Task.State.IN_REVIEW)
    values = {"worker": first.worker, "submitted_by": first.submitted_by, "environment": "chat", "prompt": "Hello?"}
    tasks = Task.objects.bulk_create(
        [Task(project=project, group_size=1, state=Task.State.IN_REVIEW, **values) for _ in range(reviews)],
        batch_size=1000,
    )
    attempts = [Attempt(task=task, index=0, worker=first.worker, text="Hi.", answer="Hi.") for task in tasks]
    Attempt.objects.bulk_create(attempts, batch_size=1000)
    Review.objects.bulk_create(
        [Review(project=project, task=task, audience=Review.Audience.HUMAN) for task in tasks], batch_size=1000
    )
    return project.pk


def name_of(number: int) -> str:
    return f"reviewer{number}"


def work_off(project_id: int, people: int, directory: Path, *, is_control: bool) -> int:
    """Run the crew's processes until the queue is empty, killing one after the other. How many were killed."""
    from django.db import connections

    from apps.feedback.models import Review

    context = multiprocessing.get_context("fork")
    shares = [range(number, people, PROCESSES) for number in range(PROCESSES)]

    def begin(place: int, life: int) -> Any:
        log = directory / f"{place}-{life}.jsonl"
        connections.close_all()  # a child that inherits one would end it
        process = context.Process(target=run_crew, args=(project_id, shares[place], log, life, is_control))
        process.start()
        return process

    crew = [begin(place, 0) for place in range(PROCESSES)]
    kills, deadline, next_kill = 0, time.monotonic() + PATIENCE_S, time.monotonic() + KILL_EVERY_S
    try:
        while Review.objects.filter(project=project_id, state="open").exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"wanted an empty queue within {PATIENCE_S:.0f} s, found reviews in it")
            time.sleep(0.2)
            if time.monotonic() >= next_kill:
                place = kills % PROCESSES
                os.kill(crew[place].pid, signal.SIGKILL)
                crew[place].join()
                kills += 1
                crew[place] = begin(place, kills)
                next_kill = time.monotonic() + KILL_EVERY_S
        for process in crew:
            process.join(LEASE_S * 10)
    finally:
        for process in crew:
            if process.is_alive():
                process.kill()
                process.join()
    return kills


def run_crew(project_id: int, numbers: Sequence[int], log: Path, life: int, is_control: bool) -> None:
    """In a child: some reviewers, one thread each, until nothing is open."""
    sys.setswitchinterval(0.0002)  # else each answer of the database waits 5 ms for every other thread
    with log.open("ab", buffering=0) as file:
        lock = threading.Lock()

        def note(person: int, kind: str, **values: Any) -> None:
            line = json.dumps({"person": person, "kind": kind, "at": time.time(), **values})
            with lock:
                file.write(line.encode() + b"\n")

        threads = [
            threading.Thread(target=review_on, args=(project_id, number, life, note, is_control)) for number in numbers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def review_on(project_id: int, person: int, life: int, note: Callable[..., None], is_control: bool) -> None:
    """One reviewer's day."""
    from django.db import connection

    from apps.accounts.models import Project, User
    from apps.feedback.claims import claim_review
    from apps.feedback.models import Review

    rng = random.Random(f"{person}-{life}")
    lease = timedelta(seconds=LEASE_S)
    project, user = Project.objects.get(pk=project_id), User.objects.get(username=name_of(person))
    try:
        while True:
            began, clock = time.time(), time.perf_counter()
            if is_control:
                review = find_then_update(project, user, lease)
            else:
                review = claim_review(project, user, lease=lease)
            took_ms = 1000 * (time.perf_counter() - clock)
            if review is None:
                if not Review.objects.filter(project=project, state="open").exists():
                    return
                time.sleep(LEASE_S / 10)
                continue
            note(person, "claim", review=review.pk, until=began + LEASE_S, ms=took_ms)
            judge(review, user, person, rng, note)
    finally:
        connection.close()


def judge(review: Any, user: Any, person: int, rng: random.Random, note: Callable[..., None]) -> None:
    """What becomes of one review that was taken."""
    from apps.base.errors import ConflictError
    from apps.feedback.claims import release_review
    from apps.feedback.drafts import find_draft, save_draft
    from apps.pipeline import flow

    draft, data = find_draft(review, user), {"text": f"typed by {person}", "n": rng.random()}
    saved = save_draft(review=review, by=user, data=data, version=draft.version if draft else 0)
    note(person, "draft", review=review.pk, version=saved.version)
    fate = rng.random()
    if fate < ABANDONED:
        return
    if fate < ABANDONED + RELEASED:
        note(person, "end", review=review.pk)
        try:
            release_review(review, user)
        except ConflictError:
            note(person, "refused", review=review.pk)
        return
    if fate < ABANDONED + RELEASED + LATE:
        time.sleep(LEASE_S * 1.1)
    note(person, "end", review=review.pk)
    try:
        flow.give_feedback(review=review, by=user, undo_s=60, score=round(rng.random(), 2), text="Judged.")
    except ConflictError:
        note(person, "refused", review=review.pk)
    else:
        note(person, "sent", review=review.pk)


def find_then_update(project: Any, user: Any, lease: timedelta) -> Any:
    """What must not be done."""
    from django.db.models import Q
    from django.db.models.functions import Now

    from apps.feedback.models import Review

    is_free = Q(claimed_by__isnull=True) | Q(lease_until__lt=Now())
    rows = Review.objects.filter(is_free, project=project, state="open").select_related("project", "task")
    found = rows.order_by("rank_at", "pk").first()
    if found is not None:
        Review.objects.filter(pk=found.pk).update(claimed_by=user, lease_until=Now() + lease)
    return found


def read_events(directory: Path) -> Iterator[Event]:
    for path in sorted(directory.iterdir()):
        for line in path.read_bytes().split(b"\n"):
            if line.endswith(b"}"):  # the last line of a killed process may be half
                yield json.loads(line)


def count(
    name: str, project_id: int, people: int, reviews: int, events: Sequence[Event], wall_s: float, kills: int
) -> Measured:
    from django.db.models import Count

    from apps.feedback.models import Feedback, Review

    given = Feedback.objects.filter(project=project_id)
    per_review = given.values("review").annotate(n=Count("pk"))
    times = sorted(event["ms"] for event in events if event["kind"] == "claim")
    drafts, drafts_lost = count_drafts(project_id, events)
    return Measured(
        name=name,
        people=people,
        reviews=reviews,
        wall_s=round(wall_s, 1),
        judged=given.values("review").distinct().count(),
        lost=Review.objects.filter(project=project_id).exclude(state="closed").count(),
        judged_twice=per_review.filter(n__gt=1).count(),
        collisions=count_collisions(events),
        refused=sum(event["kind"] == "refused" for event in events),
        kills=kills,
        drafts=drafts,
        drafts_lost=drafts_lost,
        claim_ms=round(times[len(times) // 2], 2),
        claim_p99_ms=round(times[int(len(times) * 0.99)], 2),
    )


def count_collisions(events: Sequence[Event]) -> int:
    """Claims of a review that another person had at that moment: taken, not given back or sent, the lease not over."""
    held: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    ends = defaultdict(list)
    for event in events:
        if event["kind"] == "end":
            ends[event["person"], event["review"]].append(event["at"])
    for event in events:
        if event["kind"] == "claim":
            later = [at for at in ends[event["person"], event["review"]] if at >= event["at"]]
            until = min([event["until"], *later])
            held[event["review"]].append((event["at"], until, event["person"]))
    collisions = 0
    for spans in held.values():
        spans.sort()
        for place, (start, _, person) in enumerate(spans):
            collisions += any(until > start and other != person for _, until, other in spans[:place])
    return collisions


def count_drafts(project_id: int, events: Sequence[Event]) -> tuple[int, int]:
    """(drafts acknowledged whose author's judgement was not given, those of them that are gone or older)."""
    from apps.feedback.models import Feedback, ReviewDraft

    newest: dict[tuple[int, int], int] = {}
    for event in events:
        if event["kind"] == "draft":
            place = event["person"], event["review"]
            newest[place] = max(newest.get(place, 0), event["version"])
    said = set(Feedback.objects.filter(project=project_id).values_list("author", "review"))
    rows = ReviewDraft.objects.filter(review__project=project_id).values_list("user__username", "review", "version")
    kept = {(name, review): version for name, review, version in rows}
    waiting = {
        (name_of(person), review): version
        for (person, review), version in newest.items()
        if (f"user:{name_of(person)}", review) not in said
    }
    return len(waiting), sum(kept.get(place, 0) < version for place, version in waiting.items())


def print_table(console: Console, rows: Sequence[Measured]) -> None:
    table = Table(title="Reviewers at one queue")
    for name in asdict(rows[0]):
        table.add_column(name.replace("_", " "), justify="left" if name == "name" else "right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in asdict(row).values()))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
