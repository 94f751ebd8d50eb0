"""Finished work that is imported: whole or not at all, none lost and none twice, and what learning makes of it."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, NotAllowedError
from apps.erasure.records import find_person, forget_person
from apps.feedback.hints import extract_hints
from apps.feedback.importing import read_import
from apps.feedback.models import Feedback, RowImport
from apps.inference.models import Exchange, Session
from apps.outbox.models import Segment
from apps.outbox.services import bury, put_away, replay
from apps.pipeline import flow, judging
from apps.pipeline.importing import import_all, import_next
from apps.rollouts.examples import iterate_demonstrations, iterate_pairs
from apps.rollouts.models import Demonstration, PreferencePair
from apps.rollouts.rejudging import rejudge_rollouts
from apps.rollouts.services import build_rollouts, close_open_batch
from apps.tasks.models import FROM_SESSION, Task
from apps.worlds.registry import WORLDS
from tests.factories import make_project, make_user, make_worker

PAIR = {"prompt": "Say hello.", "chosen": "Hello!", "rejected": "No."}
SHOWN = {"messages": [{"role": "user", "content": "Say hello."}, {"role": "assistant", "content": "Hello!"}]}
LABELLED = {"prompt": "Say hello.", "completion": "Hello!", "label": True}
STEPS = {"prompt": "1 + 1?", "completions": ["Add.", "It is 3."], "labels": [True, False]}


def write(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def bring(project: Project, by: User, *rows: Any, **said: Any) -> Any:
    values: dict[str, Any] = {"form": "jsonl", "environment": "chat", "name": "rows.jsonl", "text": write(*rows)}
    return flow.import_file(project=project, by=by, **values | said)


def learn(made: RowImport) -> None:
    import_all(made.pk)
    for task in Task.objects.filter(state="learning").order_by("pk"):
        extract_hints([task.pk])
        build_rollouts([task.pk], by="test")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (PAIR | {"rejected": "Hello!"}, "another answer than chosen"),
        (PAIR | {"chosen": " "}, "chosen: wanted some text"),
        (PAIR | {"prompt": [{"role": "user", "content": "Hi"}]}, "prompt: wanted some text, found [{"),
        (
            {"messages": [{"role": "system", "content": "Be kind."}, *SHOWN["messages"]]},
            "found system, user, assistant",
        ),
        ({"messages": [{"role": "user", "content": "a", "name": "b"}, SHOWN["messages"][1]]}, "found name too"),
        (LABELLED | {"label": "yes"}, "label: wanted true or false, found 'yes'"),
        (LABELLED | {"reward": 0.2}, "above 0.5 as its label says, found 0.2"),
        (STEPS | {"labels": [True]}, "for each of the 2 completions"),
        (SHOWN | {"end_user": 7}, "end_user: wanted at most 200 characters of text, found 7"),
        ({"prompt_token_ids": [1], "token_ids": [2]}, "the very weights that sampled them"),
        ({"review": 1, "preferred_attempt": 0}, "reviews are not imported"),
    ],
)
def test_a_row_that_is_not_what_is_wanted_is_named_and_nothing_is_taken(
    project: Project, alice: User, row: dict[str, Any], words: str
) -> None:
    make_worker(project)
    with pytest.raises(BadInputError, match=re.escape(words)):
        bring(project, alice, row, row)
    assert not RowImport.objects.exists()


def test_only_who_leads_the_project_imports_judgements_and_only_where_they_fit(
    project: Project, alice: User, bob: User
) -> None:
    make_worker(project)
    with pytest.raises(NotAllowedError):
        bring(project, bob, PAIR)
    for said, words in (
        ({"form": "csv", "rows": "sft"}, "sft as JSON lines"),
        ({"group_size": 4}, "are done already"),
        ({"rows": "kto"}, "completion, label is not there"),
        ({"environment": "moon"}, f"wanted one of {', '.join(WORLDS.names)}, found 'moon'"),
    ):
        with pytest.raises(BadInputError, match=words):
            bring(project, alice, PAIR, **said)


def test_imported_pairs_and_answers_are_learnt_in_words_and_the_rest_says_why_not(
    project: Project, alice: User
) -> None:
    worker = make_worker(project, system_prompt="Be kind.")
    for rows in ((PAIR, PAIR | {"rejected": ""}), (SHOWN,), (LABELLED, LABELLED | {"label": False}), (STEPS,)):
        learn(bring(project, alice, *rows))
    assert set(Task.objects.values_list("state", flat=True)) == {"done"}
    pairs = list(iterate_pairs(close_open_batch(worker, by="user:alice", kind="pairs")))
    asked = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Say hello."}]
    told = [
        (one.source, one.messages, one.chosen[0].text, one.rejected[0].text, one.chosen[0].logprobs) for one in pairs
    ]
    assert told == [("imported", asked, "Hello!", "No.", None)], (
        "as its worker is asked; a blank answer teaches nothing"
    )
    shown = list(iterate_demonstrations(close_open_batch(worker, by="user:alice", kind="demonstrations")))
    assert [(one.source, one.messages, one.answer, one.token_ids) for one in shown] == [
        ("imported", asked, "Hello!", ())
    ] * 2, "of the answers to imitate, and of those labelled good"
    given = Feedback.objects.order_by("pk")
    assert [one.score for one in given] == [None, None, None, 1.0, 0.0, None], "nothing is made up"
    assert list(given.last().steps.order_by("step__index").values_list("score", flat=True)) == [1.0, 0.0]  # type: ignore[union-attr]


def test_what_was_imported_and_taken_back_teaches_nothing(project: Project, alice: User) -> None:
    make_worker(project)
    learn(bring(project, alice, PAIR))
    given = Feedback.objects.get()
    assert PreferencePair.objects.get().feedback == given
    judging.retract(given, by=alice, reason="wrong file")
    rejudge_rollouts(given.task, by="test")
    assert not PreferencePair.objects.exists()
    assert not Demonstration.objects.exists()


def die_before_commit(work: Callable[[], object]) -> None:
    """What the database sees of a process that is killed in the middle of it."""
    with pytest.raises(OperationalError), transaction.atomic():
        work()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    connection.close()


def test_a_killed_process_goes_on_where_the_last_chunk_ended(transactional_db: None) -> None:
    project, alice = make_project(), make_user("alice")
    make_worker(project)
    rows = [PAIR | {"prompt": f"Say {number}."} for number in range(7)]
    made = bring(project, alice, *rows)
    assert not import_next(made.pk, read_import(made.pk), limit=3)
    die_before_commit(lambda: import_next(made.pk, read_import(made.pk), limit=3))
    made.refresh_from_db()
    assert (made.done, Task.objects.count(), Segment.objects.filter(kind="learn").count()) == (3, 3, 3)
    import_all(made.pk)
    import_all(made.pk)  # a message that comes twice
    made.refresh_from_db()
    assert (made.state, made.done, made.text) == ("done", 7, "")
    assert [one.prompt for one in Task.objects.order_by("pk")] == [row["prompt"] for row in rows]
    assert Feedback.objects.count() == Segment.objects.filter(kind="learn").count() == 7
    told = AuditEntry.objects.filter(kind="feedback.given").order_by("pk")
    assert [entry.payload["row"] for entry in told] == list(range(1, 8))


@pytest.mark.parametrize("is_ascii", [True, False])
def test_an_import_that_still_runs_brings_nobody_back_who_was_forgotten(
    project: Project, alice: User, is_ascii: bool
) -> None:
    make_worker(project)
    project.members.filter(user=alice).update(role="owner")
    said = [PAIR | {"prompt": f"Write to {name}"} for name in ("Ben.", 'René "Né" Lamé.', 'René "Né" Lamé, twice.')]
    text = "".join(json.dumps(row, ensure_ascii=is_ascii) + "\n" for row in said)
    made = bring(project, alice, text=text, name="rené-lamé.jsonl")
    other = bring(project, alice, PAIR)
    read_before = read_import(made.pk)
    assert not import_next(made.pk, read_before, limit=2)
    found = find_person(project=project, by=alice, text='rené "né" lamé')
    assert (found.counts["imports"], found.counts["tasks"]) == (1, 1)
    done = forget_person(project=project, by=alice, text='rené "né" lamé')
    assert done.counts == found.counts
    assert import_next(made.pk, read_before, limit=2), "whatever it had read before"
    import_all(made.pk)
    made.refresh_from_db()
    assert (made.state, made.done, made.text) == ("done", 2, "")
    import_all(other.pk)
    assert list(Task.objects.order_by("pk").values_list("prompt", flat=True)) == ["Write to Ben.", "Say hello."]
    forget_person(project=project, by=alice, text="rené-lamé")
    assert not RowImport.objects.filter(file__icontains="lamé").exists()


def test_an_import_that_cannot_go_on_ends_as_failed_and_goes_on_where_it_is_tried_again(
    project: Project, alice: User
) -> None:
    make_worker(project)
    made = bring(project, alice, PAIR, PAIR | {"prompt": "Say goodbye."})
    assert not import_next(made.pk, read_import(made.pk), limit=1)
    segment = Segment.objects.get(kind="import")
    bury(segment, reason="DataError: out of range")
    made.refresh_from_db()
    assert (made.state, made.failure, made.done) == ("failed", "pipeline.import_rows: DataError: out of range", 1)
    replay(segment, by="alice")
    made.refresh_from_db()
    assert (made.state, made.failure) == ("running", "")
    bury(segment, reason="DataError: again")
    put_away(segment, by="alice")
    made.refresh_from_db()
    assert (made.state, made.failure) == ("failed", "pipeline.import_rows: DataError: again")
    assert [entry.payload["rows"] for entry in AuditEntry.objects.filter(kind="import.failed")] == [1, 1]


def test_a_failed_import_that_held_what_was_forgotten_brings_it_back_no_more(project: Project, alice: User) -> None:
    make_worker(project)
    project.members.filter(user=alice).update(role="owner")
    made = bring(project, alice, PAIR | {"prompt": "Write to Grace."})
    segment = Segment.objects.get(kind="import")
    bury(segment, reason="DataError: out of range")
    assert forget_person(project=project, by=alice, text="grace").counts["imports"] == 1
    replay(segment, by="alice")
    import_all(made.pk)
    made.refresh_from_db()
    assert (made.state, made.text, made.failure) == ("done", "", "")
    assert not Task.objects.exists()


@pytest.mark.parametrize("row", [PAIR, SHOWN, LABELLED, STEPS], ids=["preferences", "sft", "kto", "stepwise"])
def test_whom_an_imported_row_is_about_is_found_by_name_and_forgotten(
    project: Project, alice: User, row: dict[str, Any]
) -> None:
    make_worker(project)
    project.members.filter(user=alice).update(role="owner")
    learn(bring(project, alice, row | {"end_user": "grace"}, row | {"end_user": "ben"}, row))
    text = "prompt,end_user\nCall her.,grace\nCall him.,gracehopper\n"
    bring(project, alice, form="csv", text=text, name="calls.csv")
    left = list(Task.objects.order_by("pk").values_list("metadata__end_user", flat=True))
    assert left == ["grace", "ben", None, "grace", "gracehopper"]
    found = find_person(project=project, by=alice, end_user="grace")
    assert (found.counts["tasks"], found.counts["feedback"]) == (2, 1)
    assert forget_person(project=project, by=alice, end_user="grace").counts == found.counts
    left = list(Task.objects.order_by("pk").values_list("metadata__end_user", flat=True))
    assert left == ["ben", None, "gracehopper"]
    assert Feedback.objects.count() == 2


def test_an_import_that_still_runs_brings_no_end_user_back_who_was_forgotten(project: Project, alice: User) -> None:
    make_worker(project)
    project.members.filter(user=alice).update(role="owner")
    made = bring(project, alice, PAIR | {"end_user": "Jo"}, PAIR | {"prompt": "Write to Jo.", "end_user": "Jo"})
    other = bring(project, alice, PAIR | {"prompt": "Write to Jo."})
    assert not import_next(made.pk, read_import(made.pk), limit=1)
    assert forget_person(project=project, by=alice, end_user="Jo").counts["imports"] == 1
    import_all(made.pk)
    import_all(other.pk)
    assert [one.prompt for one in Task.objects.all()] == ["Write to Jo."], "that is whom the row is written to"


def test_sessions_become_tasks_once_though_the_process_that_takes_them_is_killed(transactional_db: None) -> None:
    project, alice = make_project(), make_user("alice")
    worker = make_worker(project)
    sessions = [Session.objects.create(project=project, key=f"s{number}", agent="agent:claw") for number in range(4)]
    for session in sessions:
        messages = [{"role": "user", "content": f"What is {session.key}?"}]
        Exchange.objects.create(project=project, session=session, model="m", messages=messages, text="7.", status=200)
    chosen = [session.pk for session in sessions]

    def take() -> list[Task]:
        return flow.submit_asked(
            project=project, sessions=chosen, environment="chat", by=alice, worker=worker, group_size=2
        )

    die_before_commit(take)
    assert not Task.objects.exists()
    assert not Segment.objects.exists()
    assert len(take()) == 4
    with pytest.raises(BadInputError, match="it is a task already"):
        take()
    assert sorted(Task.objects.values_list(f"metadata__{FROM_SESSION}", flat=True)) == chosen
    assert Segment.objects.filter(kind="work").count() == 4


def test_of_two_who_take_the_same_session_one_makes_a_task(transactional_db: None) -> None:
    project, alice = make_project(), make_user("alice")
    make_worker(project)
    session = Session.objects.create(project=project, key="s", agent="agent:claw")
    asked = [{"role": "user", "content": "What is it?"}]
    Exchange.objects.create(project=project, session=session, model="m", messages=asked, text="7.", status=200)
    together = Barrier(2)

    def take(_: int) -> str:
        together.wait()
        try:
            flow.submit_asked(project=project, sessions=[session.pk], environment="chat", by=alice)
        except BadInputError as error:
            return str(error)
        finally:
            connection.close()
        return ""

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(take, range(2)))
    assert outcomes[0] == ""
    assert "it is a task already" in outcomes[1]
    assert Task.objects.count() == 1
