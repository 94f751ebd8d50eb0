"""The page of checks: written in a form without code, tried on what was answered, kept by version."""

from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.checks.models import NamedCheck
from apps.console.forms_checks import KINDS
from tests.apps.console.builders import sign_in
from tests.apps.feedback.builders import make_chat_task
from tests.factories import make_attempt

pytestmark = pytest.mark.django_db
SHORT = {"check": "length", "unit": "words", "max": 3}


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


def test_a_check_is_tried_then_kept_then_a_default(alice: User, project: Project) -> None:
    make_chat_task(project, ["one two", "one two three four", "I guarantee it"])
    client, address = sign_in(alice), path("check-list")
    said = {"join": "all", "kind_0": "most_words", "value_0": "3", "kind_1": "forbidden", "value_1": "guarantee, risk"}
    tried = " ".join(client.post(address, said | {"try": "1"}).content.decode().split())
    assert "1 passed, 2 failed, 0 unscored." in tried
    assert "the answer says &#x27;guarantee&#x27;" in tried
    assert not NamedCheck.objects.exists()
    assert client.post(address, said | {"name": "brief", "about": "Short."}).status_code == 302
    check = project.checks.get()
    assert check.spec == {"all": [SHORT, {"check": "forbidden", "words": ["guarantee", "risk"]}]}
    client.post(path("check-default", check.pk), {"default_for": "chat"})
    check.refresh_from_db()
    assert check.default_for == "chat"
    assert "has at most 3 words; and uses none of: guarantee, risk" in client.get(address).content.decode()
    worker = project.workers.get()
    asked = {"worker": worker.pk, "environment": "chat", "prompt": "Say something.", "checks": "brief@1"}
    assert client.post(path("task-new"), asked).status_code == 302
    task = project.tasks.get(prompt="Say something.")
    assert [one["use"] for one in task.checks or ()] == ["brief@1"]
    found = {"check": "brief@1", "share": 0.0, "words": "the answer says 'risk'", "parts": []}
    make_attempt(task, verification={"outcome": 0.0, "checks": [found], "grader": "chat+0f3a9c1d2e4b"})
    told = " ".join(client.get(path("task", task.pk)).content.decode().split())
    assert "<dt>A right answer</dt><dd>passes brief@1</dd>" in told
    assert """>Chat</a> and the task's checks</dd>""" in told
    assert "<strong>brief@1</strong> the answer says &#x27;risk&#x27;" in told


def test_a_check_is_deleted_by_who_may_and_while_nothing_uses_it(alice: User, bob: User, project: Project) -> None:
    short, default = (
        NamedCheck.objects.create(project=project, name=name, spec=SHORT, default_for=world)
        for name, world in (("short", ""), ("brief", "chat"))
    )
    client = sign_in(alice)
    assert path("check-delete", short.pk) in client.get(path("check-list")).content.decode()
    assert "brief@1 checks tasks of chat by default" in client.get(path("check-delete", default.pk)).content.decode()
    refused = client.post(path("check-delete", default.pk), follow=True).content.decode()
    assert "brief@1 checks tasks of chat by default: take that from it first" in refused
    assert sign_in(bob).post(path("check-delete", short.pk)).status_code == 403
    assert "Delete short@1?" in client.get(path("check-delete", short.pk)).content.decode()
    assert "short@1 is deleted." in client.post(path("check-delete", short.pk), follow=True).content.decode()
    assert project.checks.get() == default
    assert client.get(path("check-delete", short.pk)).status_code == 404


WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "contains": ("Sea", {"check": "contains", "value": "Sea"}),
    "exact": ("a {animal}", {"check": "exact", "value": {"fact": "a {animal}"}}),
    "number": ("12 ± 0.5", {"check": "number", "value": "12", "tolerance": 0.5}),
    "most_words": ("3", SHORT),
    "least_words": ("3", {"check": "length", "unit": "words", "min": 3}),
    "most_characters": ("80", {"check": "length", "unit": "characters", "max": 80}),
    "most_lines": ("2", {"check": "length", "unit": "lines", "max": 2}),
    "forbidden": ("risk, sure", {"check": "forbidden", "words": ["risk", "sure"]}),
    "language": ("de, en", {"check": "language", "languages": ["de", "en"]}),
    "regex": ("^[a-z]+$", {"check": "regex", "pattern": "^[a-z]+$"}),
    "json_schema": ('{"type": "object"}', {"check": "json_schema", "schema": {"type": "object"}}),
    "scorer": ("effort >= 0.8", {"check": "scorer", "name": "effort", "min": 0.8}),
    "judge": ("Is it kind? ≥ 0.7", {"check": "judge", "rubric": "Is it kind?", "min": 0.7}),
    "use": ("brief@1", {"use": "brief@1"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_the_form_becomes_the_check_that_its_words_say(alice: User, project: Project, kind: str) -> None:
    text, wanted = WRITTEN[kind]
    NamedCheck.objects.create(project=project, name="brief", spec=SHORT)
    said = {"join": "all", "name": "made", "kind_0": kind, "value_0": text}
    answer = sign_in(alice).post(path("check-list"), said)
    assert answer.status_code == 302, answer.content
    spec = project.checks.get(name="made").spec
    assert {name: spec[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "Choose what the answer has to be."),
        ({"kind_0": "regex", "value_0": "("}, "a pattern that RE2 reads"),
        ({"kind_0": "most_words", "value_0": "few"}, "wanted a whole number"),
        ({"kind_0": "number", "value_0": "12 ± NaN"}, "wanted a finite number of at least 0"),
        ({"kind_0": "number", "value_0": "NaN"}, "wanted a number, one alone"),
        ({"kind_0": "judge", "value_0": "kind ≥ NaN"}, "wanted a finite number"),
        ({"kind_0": "contains", "value_0": "a", "weight_0": "NaN"}, "Enter a number"),
        ({"kind_0": "regex", "value_0": "((a{999}){999}){9}"}, "a pattern that RE2 reads"),
        ({"kind_0": "json_schema", "value_0": "{"}, "wanted JSON"),
        (
            {"kind_0": "json_schema", "value_0": '{"$ref": "https://x.org/s"}'},
            "references into the schema itself",
        ),
        ({"kind_0": "use", "value_0": "gone@1"}, "found none named"),
        ({"join": "weighted", "kind_0": "contains", "value_0": "a", "weight_0": "-1"}, "greater than or equal to"),
    ],
)
def test_a_check_that_cannot_be_read_is_refused_in_words(
    alice: User, project: Project, said: dict[str, str], words: str
) -> None:
    answer = sign_in(alice).post(path("check-list"), {"join": "all", "name": "x"} | said)
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert not NamedCheck.objects.exists()
