"""What belongs to another project is as good as missing, also to who belongs to both: nothing crosses projects.

By REST and by the console's forms; the command line and the agents' tools ask REST.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.adapters.models import Adapter
from apps.base.counting import forget_callers
from apps.checks.models import NamedCheck
from apps.evals.models import Benchmark, Item, Taskset
from apps.evals.panels import LEAST_OWN
from apps.evals.services import hash_item
from apps.feedback.models import Feedback
from apps.inference.models import Exchange, Provider, Session
from apps.worlds.registry import get_world
from tests.apps.console.builders import sign_in
from tests.edges.caller import Answer, Caller
from tests.edges.writes import noting_writes
from tests.factories import make_judged_task, make_measured, make_project, make_worker

pytestmark = pytest.mark.django_db


class Theirs:
    """One row of everything that a request may name, in a project of its own.

    Attributes:
        names: resource -> how requests name it.
    """

    def __init__(self, slug: str, number: int) -> None:
        self.project = project = make_project(slug)
        Member.objects.filter(project=project, user__username="alice").update(role=Role.OWNER)
        Project.objects.filter(pk=project.pk).update(has_held_out=True)
        self.worker = make_worker(project, f"worker-of-{slug}")
        desk = make_worker(project, f"desk-of-{slug}", kind="desk")
        self.task = make_judged_task(project, prompt=f"How long does a parcel of {slug} take?", worker=self.worker)
        feedback = Feedback.objects.create(
            project=project, task=self.task, source="human", author="user:bob", score=1.0, text="Good."
        )
        taskset = Taskset.objects.create(project=project, name=f"set-of-{slug}", environment="chat")
        for n in range(3):
            said = f"Say {n}"
            taskset.items.create(split="held_out", prompt=said, content_hash=hash_item(said, ()), bands=[], reference=n)
        session = Session.objects.create(project=project, key=f"talk-{slug}", agent="agent:claw")
        Exchange.objects.create(
            project=project, session=session, model="m", text="hi", messages=[{"role": "user", "content": "Say hello."}]
        )
        adapter = Adapter.objects.create(
            project=project, worker=desk, name=f"{slug}.desk@v1-0", version=1, line_version=1, uri="file:///nowhere",
            sha256=f"{number:064x}", manifest={}, state=Adapter.State.REFUSED,
        )  # fmt: skip
        provider = Provider.objects.create(
            project=project, name=f"box-of-{slug}", kind="vllm", base_url="https://box.example.com"
        )
        check = NamedCheck.objects.create(
            project=project, name=f"brief-{slug}", spec={"check": "length", "unit": "words", "max": 9}
        )
        tickets, drawn = Taskset.objects.create(project=project, name=f"of-{slug}", environment="desk"), Random(number)
        Item.objects.bulk_create(
            Item(
                taskset=tickets,
                split=split,
                prompt=get_world("desk").draw_prompt(drawn) or "",
                content_hash=f"{n:064x}",
                bands=[n],
            )
            for n, split in enumerate(["train"] * 2 + ["held_out"] * LEAST_OWN)
        )
        self.names: dict[str, Any] = {
            "slug": slug, "worker": self.worker.name, "desk": desk.name, "task": self.task.pk, "feedback": feedback.pk,
            "taskset": taskset.pk, "session": session.pk, "adapter": adapter.name, "provider": provider.name,
            "evaluation": make_measured(desk, None, [1.0, 0.0], purpose="report", asked_by="user:alice").pk,
            "check": str(check),
            "benchmark": Benchmark.objects.create(
                project=project, name="b", entry="desk", entry_version="0", taskset=tickets, licence="MIT", source=""
            ).pk,
        }  # fmt: skip


def list_requests(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    """(verb, path, body, field at fault): each names one thing that is theirs in a request that is ours."""
    slug, worker = ours["slug"], ours["worker"]
    task = {"project": slug, "worker": worker, "prompt": "Say hello.", "environment": "chat"}
    asked = {"project": slug, "worker": ours["desk"], "environment": "desk", "size": 3}
    for name, change in (
        ("worker", {"worker": theirs["worker"]}),
        ("parent", {"parent": theirs["task"]}),
        ("checks", {"checks": {"use": theirs["check"]}}),
        ("taskset", {"taskset": theirs["taskset"], "prompt": "Say 1"}),
    ):
        yield "POST", "tasks", task | change, name
    rows = {"project": slug, "environment": "chat", "form": "lines", "text": "Hi."}
    yield "POST", "tasks/import", rows | {"worker": theirs["worker"]}, "worker"
    talk = {"project": slug, "environment": "chat", "worker": worker, "sessions": [theirs["session"]]}
    yield "POST", "tasks/from-sessions", talk, "sessions"
    yield "POST", "evaluations", asked | {"worker": theirs["desk"]}, "worker"
    yield "POST", "evaluations", asked | {"adapter": theirs["adapter"]}, "adapter"
    yield "POST", "evaluations", {"project": slug, "worker": ours["desk"], "taskset": theirs["taskset"]}, "taskset"
    yield (
        "POST",
        "evaluations",
        {"project": slug, "worker": ours["desk"], "benchmark": theirs["benchmark"]},
        "benchmark",
    )
    yield "POST", "courses", {"project": slug, "worker": ours["desk"], "benchmark": theirs["benchmark"]}, "benchmark"
    yield "GET", f"comparisons?a={ours['evaluation']}&b={theirs['evaluation']}", None, "b"
    question = {"scenario": "s", "candidate": ours["evaluation"], "reference": theirs["evaluation"]}
    yield "POST", "experiments", {"project": slug, "experiment": "e", "scenarios": [question]}, "scenarios"
    items = f"tasksets/{ours['taskset']}/items"
    yield "POST", items, {"split": "train", "tasks": [theirs["task"]]}, "tasks"
    yield "POST", items, {"split": "train", "sessions": [theirs["session"]]}, "sessions"
    used = {"split": "train", "form": "lines", "text": "Name a lake.", "checks": {"use": theirs["check"]}}
    yield "POST", items, used, "text"
    written = {"project": slug, "name": "other", "spec": {"use": theirs["check"]}}
    yield "POST", "checks", written, "spec"
    yield "POST", "checks/try", {"project": slug, "spec": {"use": theirs["check"]}, "answers": ["a"]}, "spec"
    yield "POST", "gold", {"task": ours["task"], "feedback": theirs["feedback"]}, "feedback"
    made = {"project": slug, "name": "another", "kind": "chat", "base_model": "m"}
    yield "POST", "workers", made | {"provider": theirs["provider"]}, "provider"
    yield "POST", "workers", made | {"learns_with": theirs["worker"]}, "learns_with"
    yield "POST", "runs", {"project": slug, "worker": theirs["worker"]}, "worker"


@pytest.fixture
def both(db: None) -> tuple[Theirs, Theirs]:
    return Theirs("shop", 1), Theirs("other", 2)


def test_what_is_named_of_another_project_is_refused_by_its_field_and_nothing_is_written(
    both: tuple[Theirs, Theirs],
) -> None:
    ours, theirs = both
    alice = User.objects.get(username="alice")
    caller = Caller(create_token(user=alice, name="t", scopes=Right.values, project=None, by=alice)[1])
    wrong: list[tuple[str, str, Answer]] = []
    for verb, path, body, field in list_requests(ours.names, theirs.names):
        forget_callers()
        with transaction.atomic(), noting_writes() as wrote:
            answer = caller.send(verb, path, body)
            transaction.set_rollback(True)
        named = answer.status in {400, 404, 409} and any(name.split(".")[0] == field for name in answer.body["errors"])
        if not named or wrote:
            wrong.append((f"{verb} {path}", field, answer))
    assert wrong == []


def test_the_same_requests_of_ones_own_are_taken(both: tuple[Theirs, Theirs]) -> None:
    """Else the refusals above could be about something else."""
    ours, _ = both
    alice = User.objects.get(username="alice")
    caller = Caller(create_token(user=alice, name="t", scopes=Right.values, project=None, by=alice)[1])
    refused = []
    for verb, path, body, field in list_requests(ours.names, ours.names):
        forget_callers()
        with transaction.atomic():
            answer = caller.send(verb, path, body)
            transaction.set_rollback(True)
        if answer.status >= 400 and field in answer.body.get("errors", {}):
            refused.append((f"{verb} {path}", field, answer))
    assert [one[:2] for one in refused] == [("POST experiments", "scenarios"), ("POST workers", "learns_with")], (
        "an evaluation is compared with another, and a worker learns with one of its kind"
    )


def test_pages_offer_and_take_only_what_is_the_projects(both: tuple[Theirs, Theirs]) -> None:
    ours, theirs = (one.names for one in both)
    client: Client = sign_in(User.objects.get(username="alice"))

    def page(name: str, *given: object) -> str:
        return reverse(f"console:{name}", args=(ours["slug"], *given))

    asked = {"worker": ours["desk"], "taskset": ours["taskset"], "split": "held_out", "tries": 1}
    forms: list[tuple[str, dict[str, Any]]] = [
        (page("evaluation-new"), asked | {"worker": theirs["desk"]}),
        (page("evaluation-new"), asked | {"adapter": theirs["adapter"]}),
        (page("evaluation-new"), asked | {"taskset": theirs["taskset"]}),
        (
            page("experiment-new"),
            {"experiment": "e", "reference": ours["evaluation"], "candidates": [theirs["evaluation"]]},
        ),
        (page("taskset-add", ours["taskset"]), {"split": "train", "text": "Hi.", "checks": theirs["check"]}),
        (page("check-list"), {"join": "all", "name": "x", "kind_0": "use", "value_0": theirs["check"]}),
    ]
    for address, said in forms:
        with noting_writes() as wrote:
            answer = client.post(address, said)
        assert (answer.status_code, wrote) == (400, []), (address, said)
    for name in ("taskset", "task", "evaluation"):
        assert client.get(page(name, theirs[name])).status_code == 404, name
    assert client.get(page("evaluation", ours["evaluation"]) + f"?beside={theirs['evaluation']}").status_code == 404
