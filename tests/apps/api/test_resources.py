"""Each resource does what the contract says, for someone who may."""

import base64
import io
import json
import threading
import time
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.checks.models import NamedCheck
from apps.console.models import SavedView
from apps.evals.holding import is_held_out
from apps.evals.models import Evaluation
from apps.feedback.models import Review, RowImport
from apps.outbox.models import Segment
from apps.tasks.models import Attempt, EpisodeTurn, Task
from apps.tasks.waiting import find_played_on, turn_boards
from apps.workers.models import Worker
from tests.edges.caller import Caller
from tests.factories import make_task, make_user


def test_who_may_make_projects_is_a_right(as_charlie: Caller, charlie: User) -> None:
    assert as_charlie.post("projects", {"slug": "lab", "name": "Lab"}).status == 403
    call_command("let_make_projects", "charlie")
    assert as_charlie.post("projects", {"slug": "lab", "name": "Lab"}).status == 201
    call_command("let_make_projects", "charlie", no=True)
    assert as_charlie.post("projects", {"slug": "den", "name": "Den"}).status == 403
    assert AuditEntry.objects.filter(kind="user.changed").count() == 2


def test_a_person_makes_a_project_and_owns_it(as_charlie: Caller, charlie: User) -> None:
    User.objects.update(may_make_projects=True)
    answer = as_charlie.post("projects", {"slug": "lab", "name": "Lab", "group_size": 4})
    assert answer.status == 201, answer
    assert answer.body["group_size"] == 4
    assert Member.objects.get(project__slug="lab").user == charlie
    assert as_charlie.get("projects/lab").body["name"] == "Lab"
    changed = as_charlie.patch("projects/lab", {"name": "Laboratory", "review_policy": {"who": "ai", "rate": 0.5}})
    assert changed.status == 200, changed
    assert changed.body["review_policy"] == {"who": "ai", "rate": 0.5}


def test_an_empty_project_can_be_deleted_and_one_with_work_cannot(as_charlie: Caller, charlie: User) -> None:
    User.objects.update(may_make_projects=True)
    as_charlie.post("projects", {"slug": "lab", "name": "Lab"})
    as_charlie.post("workers", {"project": "lab", "name": "echo", "kind": "echo"})
    refused = as_charlie.delete("projects/lab")
    assert refused.status == 409
    assert "workers" in refused.body["detail"]
    worker = Worker.objects.get()
    assert as_charlie.delete(f"workers/{worker.pk}").status == 204
    SavedView.objects.create(project=Project.objects.get(slug="lab"), page="task-list", name="Mine", owner=charlie)
    assert as_charlie.delete("projects/lab").status == 204
    assert not Project.objects.filter(slug="lab").exists()


def test_an_owner_gives_changes_and_takes_roles(as_alice: Caller, alice: User, project: Project) -> None:
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    dora = make_user("dora")
    refused = as_alice.post("members", {"project": project.slug, "username": "dora", "role": "viewer"})
    assert (refused.status, list(refused.body["errors"])) == (400, ["role"])
    path = f"members/{Member.objects.create(project=project, user=dora, role=Role.VIEWER).pk}"
    assert as_alice.patch(path, {"role": "auditor"}).body["role"] == "auditor"
    assert as_alice.delete(path).status == 204
    agent = as_alice.post("members", {"project": project.slug, "username": "claw", "role": "agent"})
    assert (agent.body["username"], agent.body["is_agent"]) == ("claw@shop", True)
    token = as_alice.post(
        "tokens", {"name": "claw's", "username": "claw@shop", "project": project.slug, "scopes": ["tasks:read"]}
    )
    assert token.status == 201, token
    listed = Caller(token.body["token"]).get("tasks")
    assert listed.status == 200, listed


def test_the_last_owner_stays(as_alice: Caller, alice: User, project: Project) -> None:
    member = Member.objects.get(user=alice)
    member.role = Role.OWNER
    member.save()
    for answer in (as_alice.patch(f"members/{member.pk}", {"role": "viewer"}), as_alice.delete(f"members/{member.pk}")):
        assert answer.status == 409, answer
        assert "last owner" in answer.body["detail"]


def test_a_worker_is_made_changed_and_listed(as_alice: Caller, project: Project) -> None:
    made = as_alice.post("workers", {"project": project.slug, "name": "desk", "kind": "desk"})
    assert made.status == 201, made
    assert (made.body["base_model"], made.body["adapter"]) == ("desk", None)
    path = f"workers/{made.body['id']}"
    assert as_alice.patch(path, {"sampling": {"temperature": 0.5}}).body["sampling"] == {"temperature": 0.5}
    assert [row["name"] for row in as_alice.get("workers?kind=desk").body["results"]] == ["desk"]
    assert as_alice.get("workers?kind=chat").body["results"] == []


def test_a_model_server_keeps_its_key_to_itself_and_loses_it_with_its_address(
    as_alice: Caller, project: Project
) -> None:
    body = {
        "project": "shop",
        "name": "box",
        "kind": "vllm",
        "base_url": "http://box.example:9",
        "api_key": "sk-secret",
    }
    made = as_alice.post("providers", body, key="k")
    assert made.status == 201, made
    assert made.body["has_api_key"] is True
    assert b"sk-secret" not in made.content
    path = f"providers/{made.body['id']}"
    worker = {"project": "shop", "name": "chatty", "kind": "chat", "provider": "box", "base_model": "m"}
    said = as_alice.post("workers", worker).body
    assert (said["provider"], said["base_facts"]) == ("box", {})
    assert said["base_missing"].startswith("chatty has no base weights")
    refused = as_alice.patch(f"workers/{said['id']}", {"base_directory": "/no/such/model"})
    assert (refused.status, list(refused.body["errors"])) == (400, ["base_directory"])
    assert as_alice.delete(path).status == 409
    assert as_alice.patch(path, {"base_url": "http://box.example:10"}).body["has_api_key"] is False


def test_a_task_is_submitted_shown_listed_and_cancelled(as_alice: Caller, project: Project, worker: Worker) -> None:
    made = as_alice.post("tasks", {"project": project.slug, "prompt": "Say hello.", "environment": "chat"})
    assert made.status == 201, made
    assert made.body["state"] == "queued"
    assert made.headers["Location"] == f"/api/v1/tasks/{made.body['id']}"
    path = f"tasks/{made.body['id']}"
    assert as_alice.get(path).body == made.body
    assert as_alice.get("tasks?state=queued").body["results"] == [made.body]
    assert as_alice.post(f"{path}/cancel").body["state"] == "cancelled"
    again = as_alice.post(f"{path}/cancel")
    assert (again.status, again.body["code"]) == (409, "illegal_move")


def test_a_file_of_tasks_is_taken_whole_or_not_at_all(as_alice: Caller, project: Project, worker: Worker) -> None:
    body = {"project": project.slug, "environment": "chat", "form": "csv"}
    good = "prompt,reference,topic\nWhat is 3 + 4?,7,sums\nSay hello.,,\n"
    made = as_alice.post("tasks/import", body | {"text": good, "group_size": 3})
    assert (made.status, made.body["count"]) == (201, 2), made
    first, second = Task.objects.order_by("pk")
    assert made.body["tasks"] == [first.pk, second.pk]
    assert (first.reference, first.metadata) == ({"match": "number", "value": "7"}, {"topic": "sums"})
    assert (second.reference, second.group_size, second.state) == (None, 3, "queued")
    assert Segment.objects.filter(kind="work", subject_id__in=[first.pk, second.pk]).count() == 2
    assert [entry.subject_id for entry in AuditEntry.objects.filter(kind="task.submitted")] == [first.pk, second.pk]

    seeded = as_alice.post("tasks/import", body | {"text": "prompt,seed\nSay hello.,9999999999999999999\n"})
    assert (seeded.status, seeded.body["errors"]["text"][0][:12]) == (400, "line 2: seed"), seeded
    bad = "prompt,reference,match\nWhat is 1 + 1?,two,number\nSay hello.,,\nNo.,a,fuzzy\n"
    refused = as_alice.post("tasks/import", body | {"text": bad})
    assert refused.status == 400, refused
    lines = refused.body["errors"]["text"]
    assert [line.partition(":")[0] for line in lines] == ["line 2", "line 4"]
    assert "reference.value: wanted a number, one alone" in lines[0]
    unread = as_alice.post("tasks/import", body | {"form": "jsonl", "text": '{"question": 1}'})
    assert (unread.status, unread.body["errors"]["text"][0][:7]) == (400, "line 1:")
    assert as_alice.post("tasks/import", body | {"environment": "moon", "text": good}).status == 400
    assert Task.objects.count() == 2

    short = {"check": "length", "max": 9}
    NamedCheck.objects.create(project=project, name="short", version=1, spec=short)
    own = {"check": "exact", "value": "a"}
    rows = [{"prompt": "One?", "checks": own}, {"prompt": "Two?"}, {"prompt": "Three?", "checks": []}]
    sent = body | {"form": "jsonl", "text": "\n".join(map(json.dumps, rows)), "checks": {"use": "short"}}
    checked = as_alice.post("tasks/import", sent)
    found = Task.objects.filter(pk__in=checked.body["tasks"]).order_by("pk").values_list("checks", flat=True)
    assert list(found) == [[own], [{"use": "short@1", "is": short}], None]
    unknown = as_alice.post("tasks/import", sent | {"checks": {"use": "long"}})
    assert unknown.body["errors"] == {"checks": ["checks.use: wanted a check of this project, found none named 'long'"]}


def test_a_packed_file_of_tasks_is_read_and_what_is_none_is_refused_by_name(
    as_alice: Caller, project: Project, worker: Worker
) -> None:
    body = {"project": project.slug, "environment": "chat", "form": "packed"}
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("tasks.jsonl", '{"prompt": "One"}\n{"prompt": "Two", "reference": 2}\n')
    made = as_alice.post("tasks/import", body | {"text": base64.b64encode(sink.getvalue()).decode()})
    assert (made.status, made.body["count"]) == (201, 2), made
    assert [(one.prompt, one.reference) for one in Task.objects.order_by("pk")] == [("One", None), ("Two", 2)]
    for text, words in (("%%%", "wanted base64"), ("aGVsbG8=", "wanted a Parquet file or a zip")):
        refused = as_alice.post("tasks/import", body | {"text": text})
        assert refused.status == 400
        assert words in refused.body["errors"]["text"][0]


def test_finished_work_comes_in_by_the_door_of_tasks(
    as_alice: Caller, as_bob: Caller, project: Project, worker: Worker
) -> None:
    row = '{"prompt": "Say hello.", "chosen": "Hello!", "rejected": "No."}\n'
    body = {"project": project.slug, "environment": "chat", "form": "jsonl", "text": row, "name": "pairs.jsonl"}
    made = as_alice.post("tasks/import", body)
    found = RowImport.objects.get()
    assert (made.status, made.body) == (201, {"count": 1, "tasks": [], "import_id": found.pk}), made
    assert (found.kind, found.file, found.by.username, found.worker) == ("preferences", "pairs.jsonl", "alice", worker)
    assert Segment.objects.filter(kind="import", subject_id=found.pk).count() == 1
    assert as_bob.post("tasks/import", body).status == 403
    refused = as_alice.post("tasks/import", body | {"rows": "sft"})
    assert (refused.status, refused.body["errors"]["text"][0][:7]) == (400, "line 1:"), refused
    refused = as_alice.post("tasks/import", body | {"checks": []})
    assert refused.body["errors"] == {"checks": ["wanted none: preferences are done already, found []"]}


def test_a_task_of_a_taskset_takes_what_is_right_from_its_item(
    as_alice: Caller, alice: User, call_as: Callable[..., Caller], project: Project, worker: Worker
) -> None:
    made = as_alice.post("tasksets", {"project": "shop", "name": "colours", "environment": "chat"}).body["id"]
    rows = [{"prompt": "Say red.", "reference": "red", "seed": 7}, {"prompt": "Say blue.", "reference": "blue"}]
    text = "\n".join(map(json.dumps, rows))
    assert as_alice.post(f"tasksets/{made}/items", {"split": "held_out", "form": "jsonl", "text": text}).status == 201
    body = {"project": "shop", "prompt": "Say red.", "environment": "chat", "taskset": made}
    task = as_alice.post("tasks", body)
    assert task.status == 201, task
    told = {name: task.body[name] for name in ("reference", "seed", "metadata")}
    item = as_alice.get(f"tasksets/{made}/items").body["results"][1]
    assert told == {"reference": item["reference"], "seed": 7, "metadata": {"taskset": "colours@1"}}
    assert is_held_out(Task.objects.get(pk=task.body["id"]))
    own = as_alice.post("tasks", body | {"reference": "crimson", "seed": 1}).body
    assert (own["reference"], own["seed"]) == ("crimson", 1)
    for wrong, field, words in (
        ({"prompt": "Say green."}, "taskset", "found none in colours@1"),
        ({"environment": "desk"}, "environment", "wanted chat, which colours@1 is of"),
    ):
        refused = as_alice.post("tasks", body | wrong)
        assert (refused.status, words in refused.body["errors"][field][0]) == (400, True), refused
    assert call_as(alice, ["tasks:write"]).post("tasks", body).status == 403, "who cannot read tasksets"


def test_an_outside_agent_hands_in_its_own_work(as_alice: Caller, project: Project, worker: Worker) -> None:
    task = as_alice.post("tasks", {"project": project.slug, "prompt": "Say hello.", "environment": "chat"}).body
    made = as_alice.post("attempts", {"task": task["id"], "steps": [{"text": "I think."}], "answer": "hello"})
    assert made.status == 201, made
    assert as_alice.get(f"attempts/{made.body['id']}/steps").body["results"][0]["text"] == "I think."
    assert as_alice.get(f"tasks/{task['id']}/attempts").body["results"][0]["answer"] == "hello"
    assert Task.objects.get(pk=task["id"]).state == "scoring"


def test_an_episode_is_told_turn_by_turn_while_it_is_played(
    as_alice: Caller, as_charlie: Caller, project: Project, worker: Worker
) -> None:
    task = make_task(project, worker)
    Attempt.objects.create(task=task, index=0, worker=worker, answer="hi")
    played = Attempt.every.create(task=task, index=1, worker=worker, state="running")
    begun = Attempt.every.create(task=task, index=2, worker=worker, state="running")
    calls = [{"name": "look", "arguments": {}}]
    for index, seen in enumerate(([{"text": "A door."}], None)):
        EpisodeTurn.objects.create(
            attempt=played, index=index, calls=calls, observations=seen, snapshot=b"s", started_at=timezone.now()
        )
    assert [one["id"] for one in as_alice.get(f"episodes?task={task.pk}").body["results"]] == [begun.pk, played.pk]
    assert as_alice.get("episodes?state=answered").body["results"] == []
    found = as_alice.get(f"episodes/{played.pk}")
    assert (found.status, found.body["state"], found.body["task"]) == (200, "running", task.pk)
    turns = as_alice.get(f"episodes/{played.pk}/turns")
    assert [(one["index"], one["observations"]) for one in turns.body["results"]] == [
        (0, [{"text": "A door."}]),
        (1, None),
    ]
    assert "snapshot" not in turns.body["results"][0]
    assert [one["index"] for one in as_alice.get(f"episodes/{played.pk}/turns?after=0").body["results"]] == [1]
    assert as_alice.get(f"episodes/{begun.pk}/turns").body == {"results": [], "next_cursor": None}
    wrong = as_alice.get(f"episodes/{played.pk}/turns?after=-1")
    assert (wrong.status, wrong.body["errors"]) == (400, {"after": ["wanted the index of a turn, found '-1'"]})
    assert as_alice.get(f"episodes/{task.attempts.get().pk}").status == 404, "it took no turns"
    assert as_charlie.get(f"episodes/{played.pk}/turns").status == 404
    wrong = as_alice.get(f"episodes/{played.pk}/turns?wait=31")
    assert (wrong.status, list(wrong.body["errors"])) == (400, ["wait"])


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_a_turn_hears_when_it_has_ended(call_as: Any, alice: User, project: Project) -> None:
    task = make_task(project)
    attempt = Attempt.every.create(task=task, index=0, worker=task.worker, state="running")
    now = timezone.now()
    for index, ended_at in enumerate((now, None)):
        EpisodeTurn.objects.create(attempt=attempt, index=index, started_at=now, ended_at=ended_at)
    caller, heard = call_as(alice), []
    path = f"episodes/{attempt.pk}/turns?wait=30"
    assert [one["index"] for one in caller.get(path).body["results"]] == [0, 1], "these were there"

    def ask() -> None:
        try:
            heard.append(Caller(caller.token).get(f"{path}&after=0"))
        finally:
            connections.close_all()

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 120
    while turn_boards.count < 1 and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    assert turn_boards.count == 1
    EpisodeTurn.objects.filter(index=1).update(ended_at=now, observations=[{"text": "A door."}])
    thread.join(120)
    [told] = heard[0].body["results"]
    assert (told["index"], told["observations"]) == (1, [{"text": "A door."}])


def test_a_turn_is_waited_for_while_the_episode_goes_on(project: Project) -> None:
    task = make_task(project)
    going, over = (
        Attempt.every.create(task=task, index=index, worker=task.worker, state=state)
        for index, state in enumerate(("running", "failed"))
    )
    now = timezone.now()
    EpisodeTurn.objects.create(attempt=going, index=0, started_at=now, ended_at=now)
    EpisodeTurn.objects.create(attempt=going, index=1, started_at=now)
    seen = [(going.pk, -1), (going.pk, 0), (over.pk, -1), (10**9, -1)]
    assert find_played_on(seen) == [(going.pk, -1), (over.pk, -1), (10**9, -1)]


def test_a_data_set_is_registered_told_with_its_benchmark_and_removed(
    as_alice: Caller, as_charlie: Caller, project: Project, worker: Worker
) -> None:
    rows = [{"prompt": f"Say {word}.", "reference": word, "grader": "exact"} for word in ("red", "blue")]
    text = "\n".join(map(json.dumps, rows))
    body = {"project": "shop", "name": "own/colours", "text": text, "origin": "colours.jsonl"}
    assert as_charlie.post("datasets", body).status == 403
    made = as_alice.post("datasets", body)
    assert made.status == 201, made
    told = {name: made.body[name] for name in ("name", "version", "benchmark", "source")}
    assert told == {"name": "own-colours", "version": 1, "benchmark": "own/colours@1", "source": "colours.jsonl"}
    assert made.body["grader"].startswith("exact@")
    path = f"datasets/{made.body['id']}"
    plain = as_alice.post("tasksets", {"project": "shop", "name": "plain", "environment": "chat"}).body
    listed = as_alice.get("datasets?project=shop").body["results"]
    assert listed == [plain | {"benchmark": "", "grader": "", "source": ""}, as_alice.get(path).body]
    assert len(as_alice.get(f"tasksets/{made.body['id']}/items").body["results"]) == 2
    Evaluation.objects.create(
        project=project, worker=worker, taskset_id=made.body["id"], item_set="own", purpose="report", asked_hash="",
        planned=0,
    )  # fmt: skip
    refused = as_alice.delete(path)
    assert (refused.status, "1 evaluations" in refused.body["detail"]) == (409, True), refused
    Evaluation.objects.all().delete()
    assert (as_alice.delete(path).status, as_alice.get(path).status) == (204, 404)


def test_an_item_is_deleted_while_its_set_changes_and_nothing_was_measured_on_it(
    as_alice: Caller, as_charlie: Caller, project: Project, worker: Worker
) -> None:
    made = as_alice.post("tasksets", {"project": "shop", "name": "seas", "environment": "chat"}).body["id"]
    path = f"tasksets/{made}/items"
    as_alice.post(path, {"split": "train", "form": "lines", "text": "Name a sea.\nSing a song of rain."})
    first, second = (one["id"] for one in as_alice.get(path).body["results"])
    assert as_charlie.delete(f"{path}/{first}").status == 403
    assert as_alice.delete(f"{path}/{first}").status == 204
    assert as_alice.delete(f"{path}/{first}").status == 404
    assert [one["id"] for one in as_alice.get(path).body["results"]] == [second]
    run = Evaluation.objects.create(
        project=project, worker=worker, taskset_id=made, item_set="seas", purpose="report", asked_hash="", planned=0
    )
    assert "1 evaluations" in as_alice.delete(f"{path}/{second}").body["detail"]
    run.delete()
    assert as_alice.post(f"tasksets/{made}/freeze").status == 200
    frozen = as_alice.delete(f"{path}/{second}")
    assert (frozen.status, "seas@1 is frozen" in frozen.body["detail"]) == (409, True), frozen


def test_one_item_of_a_taskset_is_read_as_the_list_shows_it(as_alice: Caller, as_bob: Caller, project: Project) -> None:
    sets = [
        as_alice.post("tasksets", {"project": "shop", "name": name, "environment": "chat"}).body["id"]
        for name in ("seas", "lakes")
    ]
    as_alice.post(f"tasksets/{sets[0]}/items", {"split": "held_out", "form": "lines", "text": "Name a sea."})
    [listed] = as_bob.get(f"tasksets/{sets[0]}/items").body["results"]
    path = f"tasksets/{sets[0]}/items/{listed['id']}"
    read = as_bob.get(path)
    assert (read.status, read.body) == (200, listed)
    assert as_bob.get(path, **{"If-None-Match": read.headers["ETag"]}).status == 304
    elsewhere = as_bob.get(f"tasksets/{sets[1]}/items/{listed['id']}")
    assert (elsewhere.status, f"no item '{listed['id']}'" in elsewhere.body["detail"]) == (404, True)


def test_a_review_is_claimed_released_claimed_and_closed(as_bob: Caller, review: Any) -> None:
    claimed = as_bob.post("reviews/claim", {"project": "shop"})
    assert claimed.status == 200, claimed
    assert claimed.body["claimed_by"] == "bob"
    assert as_bob.post("reviews/claim", {"project": "shop"}).status == 204
    path = f"reviews/{review.pk}"
    assert as_bob.post(f"{path}/release").body["claimed_by"] is None
    assert as_bob.post(f"{path}/claim").body["claimed_by"] == "bob"
    given = as_bob.post(
        f"{path}/feedback",
        {"score": 0.25, "text": "Too short.", "steps": [{"index": 0, "score": 0, "comment": "no"}]},
    )
    assert given.status == 201, given
    assert given.body["steps"] == [{"attempt": 0, "index": 0, "score": 0.0, "comment": "no", "spans": []}]
    assert as_bob.get(f"feedback/{given.body['id']}").body == given.body | {"uses": []}
    assert as_bob.get(path).body["state"] == "closed"
    assert as_bob.get(f"tasks/{review.task_id}").body["state"] == "learning"


def test_a_zero_says_something(as_bob: Caller, review: Any) -> None:
    assert as_bob.post(f"reviews/{review.pk}/feedback", {"none_good": False}).status == 400
    assert as_bob.post(f"reviews/{review.pk}/feedback", {"score": 0}).status == 201


def test_a_draft_is_kept_and_an_older_one_is_shown_the_newer(as_bob: Caller, review: Any) -> None:
    path = f"reviews/{review.pk}/draft"
    assert as_bob.get(path).status == 204
    assert as_bob.send("PUT", path, {"version": 0, "data": {"text": "a"}}).body["version"] == 1
    stale = as_bob.send("PUT", path, {"version": 0, "data": {"text": "b"}})
    assert (stale.status, stale.body["code"], stale.body["newer"]) == (
        409,
        "stale_draft",
        {"version": 1, "data": {"text": "a"}},
    )
    assert as_bob.get(path).body["data"] == {"text": "a"}


def test_a_judgement_is_undone_given_again_appealed_and_retracted(
    as_bob: Caller, as_alice: Caller, review: Any
) -> None:
    path = f"reviews/{review.pk}"
    given = as_bob.post(f"{path}/feedback", {"score": 1, "undo_s": 60}).body
    assert given["undo_until"] is not None
    undone = as_bob.post(f"feedback/{given['id']}/undo")
    assert (undone.status, undone.body["state"], undone.body["claimed_by"]) == (200, "open", "bob")
    assert as_bob.get(f"{path}/draft").body["data"] == {"words": {"score": 1.0}}
    assert as_bob.post(f"feedback/{given['id']}/undo").body["code"] == "cannot_undo"
    again = as_bob.post(f"{path}/feedback", {"score": 1}).body
    appeal = as_alice.post(f"feedback/{again['id']}/appeal", {"reason": "It is wrong."})
    assert (appeal.status, appeal.body["purpose"], appeal.body["about"]) == (201, "appeal", again["id"])
    assert as_bob.post(f"reviews/{appeal.body['id']}/claim").body["code"] == "not_your_review"
    back = as_bob.post(f"feedback/{again['id']}/retract", {"reason": "She is right."})
    assert back.status == 200, back
    assert back.body["feedback"]["retracted_by"] == "user:bob"
    assert back.body["effect"]


def test_the_list_and_the_claim_are_narrowed_like_the_queue(as_bob: Caller, review: Any) -> None:
    for query, count in {
        "purpose=work": 1,
        "purpose=second": 0,
        "assigned=nobody": 1,
        "held=me": 0,
        "due=late": 0,
    }.items():
        assert len(as_bob.get(f"reviews?{query}").body["results"]) == count, query
    assert as_bob.get("reviews?purpose=gold").status == 400
    assert as_bob.get("reviews?min_priority=0.5").body["results"] == []
    assert as_bob.post("reviews/claim", {"project": "shop", "worker": "nobody"}).status == 204
    assert as_bob.post("reviews/claim", {"project": "shop", "worker": "echo"}).body["id"] == review.pk


def test_a_review_is_passed_on_and_assigned(as_bob: Caller, as_alice: Caller, review: Any) -> None:
    path = f"reviews/{review.pk}"
    assert as_bob.post(f"{path}/skip", {"reason": "x", "then": "expert"}).body["needs_expert"] is True
    assert as_alice.post(f"{path}/assign", {"to": "nobody"}).status == 404
    assert as_alice.post(f"{path}/assign", {"to": "alice"}).body["assigned_to"] == "alice"
    assert as_bob.post(f"{path}/assign", {"to": "bob"}).status == 403


def test_who_is_asked_blindly_reads_nobody_elses_word(as_bob: Caller, as_alice: Caller, review: Any) -> None:
    given = as_alice.post("feedback", {"task": review.task_id, "score": 0}).body["id"]
    assert as_bob.get(f"feedback/{given}").status == 200
    Review.objects.update(purpose="second")
    assert as_bob.get(f"feedback/{given}").status == 404
    assert as_bob.get(f"feedback?task={review.task_id}").body["results"] == []
    assert as_alice.get(f"feedback/{given}").status == 200


def test_a_review_is_skipped_with_a_reason(as_bob: Caller, review: Any) -> None:
    answer = as_bob.post(f"reviews/{review.pk}/skip", {"reason": "I wrote the ticket myself."})
    assert answer.body["state"] == "skipped", answer


def test_an_app_sends_what_its_user_said(as_alice: Caller, review: Any) -> None:
    given = as_alice.post("feedback", {"task": review.task_id, "text": "The user was angry."})
    assert given.status == 201, given
    assert given.body["review"] is None


def test_why_nothing_trains_is_told(as_bob: Caller, project: Project) -> None:
    make_task(project, state="failed")
    answer = as_bob.get("projects/shop/why")
    assert answer.status == 200, answer
    assert {"kind": "tasks", "count": 1}.items() <= answer.body["findings"][0].items()


@pytest.mark.parametrize(
    "path", ["metrics/queues", "dead-letters", "whoami", "batches", "runs", "adapters", "rollouts"]
)
def test_a_member_can_look(as_bob: Caller, project: Project, path: str) -> None:
    answer = as_bob.get(path)
    assert answer.status == 200, answer


def test_training_now_without_rollouts_is_refused_with_the_reason(as_alice: Caller, worker: Worker) -> None:
    answer = as_alice.post("runs", {"project": "shop"})
    assert answer.status == 409
    assert "holds no rollout" in answer.body["detail"]


def test_a_control_item_is_added_seen_and_removed(as_alice: Caller, as_bob: Caller, review: Review) -> None:
    task = review.task
    said = as_alice.post("feedback", {"task": task.pk, "score": 0.5}).body
    other = make_task(task.project, state=Task.State.DONE)
    for body, field in (
        ({"task": other.pk, "feedback": said["id"]}, "feedback"),
        ({"task": other.pk}, "expected"),
        ({"task": other.pk, "expected": {"attempts": {"9": 1}}}, "expected"),
        ({"task": other.pk, "expected": {"attempts": {"first": 1}}}, "expected.attempts"),
        ({"task": task.pk, "feedback": said["id"], "expected": {"score": 1}}, "expected"),
    ):
        refused = as_alice.post("gold", body)
        assert (refused.status, list(refused.body["errors"])) == (400, [field]), refused
    made = as_alice.post("gold", {"task": task.pk, "feedback": said["id"]})
    assert made.status == 201, made
    assert (made.body["truth"], made.body["expected"]["score"], made.body["judged"]) == ("reference", 0.5, 0)
    assert as_alice.post("gold", {"task": task.pk, "feedback": said["id"]}).status == 409
    assert as_bob.get("gold").status == 403, "reviewers are not told"
    assert [row["id"] for row in as_alice.get(f"gold?task={task.pk}").body["results"]] == [made.body["id"]]
    assert as_alice.delete(f"gold/{made.body['id']}").status == 204
    assert as_alice.get("gold").body["results"] == []
    assert as_alice.get(f"gold/{made.body['id']}").status == 404


def test_a_token_gives_no_wider_limits_than_its_own(as_alice: Caller, alice: User, project: Project) -> None:
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    limits = {"usd_per_day": 1, "requests_per_minute": 5}
    made = as_alice.post("tokens", {"name": "limited", "limits": limits}).body
    limited, own = Caller(made["token"]), f"tokens/{made['id']}"
    for wider in ({}, {"usd_per_day": 1}, {"usd_per_day": 2, "requests_per_minute": 5}):
        refused = limited.patch(own, {"limits": wider})
        assert (refused.status, "wider limits" in refused.body["detail"]) == (403, True), refused
    child = limited.post("tokens", {"name": "child", "limits": {"usd_per_day": 0.5}}).body
    assert child["limits"] == {"usd_per_day": 0.5, "requests_per_minute": 5}
    assert limited.patch(f"tokens/{child['id']}", {"limits": {"tokens_per_day": 9}}).status == 403
    narrower = {"usd_per_day": 0.2, "requests_per_minute": 5}
    assert limited.patch(f"tokens/{child['id']}", {"limits": narrower}).body["limits"] == narrower
    assert as_alice.patch(own, {"limits": {}}).body["limits"] == {}


def test_the_items_of_a_set_tell_what_is_right_to_who_leads_alone(
    as_alice: Caller, as_bob: Caller, project: Project
) -> None:
    made = as_alice.post("tasksets", {"project": "shop", "name": "exam", "environment": "chat"}).body
    row = {"prompt": "What is 3 + 4?", "reference": "7", "checks": {"check": "contains", "value": "7"}}
    added = as_alice.post(
        f"tasksets/{made['id']}/items", {"split": "held_out", "form": "jsonl", "text": json.dumps(row)}
    )
    assert added.status == 201, added
    path = f"tasksets/{added.body['taskset']}/items?split=held_out"
    (told,), (untold,) = (caller.get(path).body["results"] for caller in (as_alice, as_bob))
    assert told["reference"] is not None
    assert told["checks"] is not None
    assert untold == told | {"reference": None, "checks": None}
