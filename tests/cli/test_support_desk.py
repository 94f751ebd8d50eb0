"""A shop's support desk as a project: tickets held out by letter, and rules that a right reply keeps."""

import json
from datetime import date
from pathlib import Path

import pytest

from apps.accounts.models import Project, User
from apps.checks.language import read_check, read_checks
from apps.checks.models import NamedCheck
from apps.evals.models import Item
from apps.feedback.models import RowImport
from apps.inference.models import Provider
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.cli.support_desk import ENDING, RULES, Ticket, make_tickets, say_day, write_support_desk
from tests.cli.conftest import Run

HACKED = "{0}, {0}, {0} {1} is delivered twice. {0} will look into it again."


def grade(ticket: Ticket, reply: str) -> dict[str, float | None]:
    return {name: read_check(spec, facts=ticket.facts).run(reply).share for name, _, spec in RULES}


def test_tickets_are_the_same_for_the_same_seed_and_none_comes_twice() -> None:
    tickets = list(make_tickets())
    assert tickets == list(make_tickets())
    assert tickets != list(make_tickets(seed=2))
    assert (
        len({ticket.prompt for ticket in tickets}) == len({ticket.order for ticket in tickets}) == len(tickets) == 480
    )
    assert sum(ticket.is_held_out for ticket in tickets) == 80


def test_every_fact_stands_in_the_ticket_but_what_has_to_be_found_out() -> None:
    for ticket in make_tickets():
        assert all(fact in ticket.prompt for fact in (ticket.customer, ticket.order, ticket.item))
        assert ENDING not in ticket.prompt
        assert ticket.by not in ticket.prompt.splitlines()[0]
    assert say_day(date(2026, 12, 31)) == "31 December"


def test_a_right_reply_keeps_every_rule_and_others_lack_what_they_lack() -> None:
    for ticket in make_tickets(a_sentence=1):
        right = ticket.write_right_reply()
        assert set(grade(ticket, right).values()) == {1.0}
        unkind = right.replace(f" {ticket.refund} euros", f" 1{ticket.refund} euros").replace(
            ENDING, "We guarantee it."
        )
        lacking = {name for name, share in grade(ticket, unkind).items() if not share}
        assert lacking == {"right-refund", "no-promises", "house-ending"}
        hacked = grade(ticket, HACKED.format(ticket.customer, ticket.item))
        assert {name for name, share in hacked.items() if share} == {"no-promises"}


def test_one_command_makes_the_project(signed_in: Run, tmp_path: Path) -> None:
    User.objects.update(is_superuser=True)
    url = "http://127.0.0.1:9/v1"
    Provider.objects.create(name="box", kind="vllm", base_url=url, default_model="base", granted_to="everyone")
    server = ("--server", "box")
    outcome = signed_in("project", "new", "support", "--from", "support-desk", "--tasks", "3", *server)
    assert outcome.code == 0, outcome.err
    assert "made taskset tickets: 480 items, 80 of them held out" in outcome.out
    items = list(Item.objects.filter(taskset__project__slug="support"))
    assert {(item.checks or [{}])[0]["use"] for item in items} == {"house@1"}
    ticket = next(one for one in make_tickets() if one.prompt == items[0].prompt)
    (check,) = read_checks(items[0].checks)
    assert check.run(ticket.write_right_reply()).share == 1.0
    assert check.run(HACKED.format(ticket.customer, ticket.item)).share == pytest.approx(1 / 6)
    worker = Worker.objects.get(project__slug="support")
    assert "imported 320 replies that are there, to be imitated" in outcome.out
    assert RowImport.objects.get(project=worker.project).total == 320
    tasks = Task.objects.filter(worker=worker)
    assert [(task.checks or [{}])[0]["with"] for task in tasks] == [task.metadata for task in tasks]
    assert len(tasks) == 3
    assert NamedCheck.objects.get(project=worker.project, name="house").default_for == "chat"
    again = signed_in("project", "new", "other", "--from", str(tmp_path / "none.json"), *server)
    assert again.code == 2
    assert "wanted support-desk or a file of JSON" in again.err
    (tmp_path / "half.json").write_text('{"rows": []}')
    half = signed_in("project", "new", "other", "--from", str(tmp_path / "half.json"), *server)
    assert "wanted an object of checks, environment" in half.err
    (tmp_path / "bare.json").write_text(json.dumps(write_support_desk() | {"shown": {}}))
    bare = signed_in("project", "new", "other", "--from", str(tmp_path / "bare.json"), *server)
    assert (bare.code, "shown: wanted an object of recipe, replies, found []" in " ".join(bare.err.split())) == (
        2,
        True,
    )


def test_a_worker_that_could_not_ask_its_server_leaves_no_project_behind(signed_in: Run) -> None:
    User.objects.update(is_superuser=True)
    url = "http://127.0.0.1:9/v1"
    Provider.objects.create(name="theirs", kind="vllm", base_url=url, project=Project.objects.get(), default_model="x")
    box = Provider.objects.create(name="box", kind="vllm", base_url=url)

    def start(*words: str) -> str:
        return " ".join(signed_in("project", "new", "support", "--from", "support-desk", *words).err.split())

    assert "name --model, one that is kept on this machine, or --server" in start()
    assert "may ask shared model servers, and 'theirs' is none" in start("--server", "theirs")
    assert "tentalis model grant box support" in start("--server", "box")
    Provider.objects.filter(pk=box.pk).update(granted_to="everyone")
    assert "name --model: box has no default model" in start("--server", "box")
    assert [project.slug for project in Project.objects.all()] == ["shop"]


def test_a_project_that_is_there_is_filled_when_its_server_is_granted(signed_in: Run) -> None:
    User.objects.update(is_superuser=True)
    Provider.objects.create(name="box", kind="vllm", base_url="http://127.0.0.1:9/v1")
    assert signed_in("project", "create", "support").code == 0
    assert signed_in("model", "grant", "box", "support").code == 0
    outcome = signed_in("project", "new", "support", "--from", "support-desk", "--server", "box", "--model", "base")
    assert outcome.code == 0, outcome.err


def test_a_starter_says_who_judges(signed_in: Run, tmp_path: Path) -> None:
    """As the demo has it: checks alone."""
    User.objects.update(is_superuser=True)
    url = "http://127.0.0.1:9/v1"
    Provider.objects.create(name="box", kind="vllm", base_url=url, default_model="base", granted_to="everyone")
    told = write_support_desk()
    told |= {"rows": told["rows"][:6], "shown": {"recipe": {}, "replies": []}}
    told["project"]["review_policy"] = {"who": "none"}
    (tmp_path / "told.json").write_text(json.dumps(told))
    outcome = signed_in("project", "new", "judged", "--from", str(tmp_path / "told.json"), "--server", "box")
    assert outcome.code == 0, outcome.err
    assert Project.objects.get(slug="judged").review_policy == {"who": "none"}
