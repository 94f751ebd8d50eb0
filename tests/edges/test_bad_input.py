"""Each documented field of each body, with every kind of wrong value: the error names the field, nothing is written."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.api.models import IdempotencyKey
from apps.audit.models import AuditEntry
from apps.base.counting import forget_callers
from apps.outbox.models import Segment
from apps.tasks.models import Task
from tests.edges.caller import Caller
from tests.edges.lived_in import EVERY_ROLE, make_bodies
from tests.edges.routes import TABLE
from tests.factories import make_worker

WRONG_TYPES: dict[str, tuple[Any, ...]] = {
    "string": (3, 1.5, True, [], {}, ["x"]),
    "integer": ("3", 1.5, True, [], {}),
    "number": ("0.5", True, [], {}, "NaN"),
    "boolean": ("true", 1, 0, [], {}),
    "array": ("x", 3, {}, True),
    "object": ("x", 3, [], True),
}


@cache
def load_bodies() -> dict[str, dict[str, dict[str, Any]]]:
    """`VERB path` -> field -> its schema, of every operation with a body."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    found = {}
    for path, item in schema["paths"].items():
        for verb in item.keys() & {"post", "patch"}:
            content = item[verb].get("requestBody", {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            properties = schema["components"]["schemas"].get(name, {}).get("properties", {})
            if properties:
                route = f"{verb.upper()} {path.removeprefix('/api/v1/').lstrip('/')}"
                found[route] = {field: _resolve(value, schema) for field, value in properties.items()}
    return found


def _resolve(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    for part in (value, *value.get("allOf", ())):
        if "$ref" in part:
            return {**schema["components"]["schemas"][part["$ref"].rpartition("/")[2]], **value}
    return value


def wrong_values(field: dict[str, Any]) -> Iterator[Any]:
    """Values of other types, beyond the range, too long, not among the choices."""
    declared = field.get("type", [])
    kinds = [declared] if isinstance(declared, str) else list(declared)
    if not kinds or field.get("description", "").startswith("What a right answer"):
        return
    yield from WRONG_TYPES[kinds[0]]
    if "null" not in kinds:
        yield None
    if "minimum" in field:
        yield field["minimum"] - 1
    if "maximum" in field:
        yield field["maximum"] + 1
    if "maxLength" in field:
        yield "x" * (field["maxLength"] + 1)
    if "enum" in field:
        yield "no such word"
    if kinds[0] == "string" and "minLength" in field:
        yield ""


def call_as_owner() -> Caller:
    user = User.objects.get(username=EVERY_ROLE["owner"])
    return Caller(create_token(user=user, name="t", scopes=Right.values, by=user)[1])


@pytest.fixture
def owner(ids: dict[str, Any]) -> Caller:
    return call_as_owner()


@pytest.fixture
def admin(ids: dict[str, Any]) -> Caller:
    """Who owns the project, and may do what admins may."""
    User.objects.filter(username=EVERY_ROLE["owner"]).update(is_superuser=True, is_staff=True)
    return call_as_owner()


TEMPLATES = {
    "projects": "{slug}", "members": "{member}", "providers": "{provider}", "provider-grants": "{grant}",
    "prices": "{price}", "users": "{user}", "ensembles": "{ensemble}",
    "workers": "{worker}", "tasks": "{task}", "reviews": "{review}", "feedback": "{feedback}",
    "proposals": "{proposal}", "tokens": "{token}", "adapters": "{adapter}", "skills": "{skill}", "checks": "{check}",
    "gold": "{gold}", "manager-runs": "{manager_run}", "reward-models": "{reward_model}", "runs": "{run}",
    "webhooks": "{webhook}", "sessions": "{session}", "exchanges": "{exchange}", "rewards": "{secret}",
    "tasksets": "{taskset}", "evaluations": "{evaluation}", "regradings": "{regrading}",
    "judge-probes": "{judge_probe}", "courses": "{course}", "uploads": "{upload}",
}  # fmt: skip


NOTHING_IS_ENOUGH = frozenset({"POST runs/{id}/retry", "POST evaluations/{id}/resume", "POST evaluations/{id}/replay"})
"""Operations whose fields all may be left out, and which do something then."""


def fill(path: str, ids: dict[str, Any]) -> tuple[str, str]:
    """(route in the words of permissions.toml, path to send)."""
    placeholder = TEMPLATES.get(path.split("/")[0], "")
    route = re.sub(r"\{(slug|id|secret|sha256)\}", placeholder, path)
    return route, route.format(**ids)


def count_rows() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (AuditEntry, Segment, Task, IdempotencyKey))


def test_every_wrong_value_of_every_field_is_refused_by_name(ids: dict[str, Any], admin: Caller) -> None:
    """In one project: what is refused changes nothing, so each case meets what the first one met."""
    accepted, checked, before = [], dict.fromkeys(load_bodies(), 0), count_rows()
    for operation, fields in load_bodies().items():
        verb, path = operation.split(" ")
        route, full = fill(path, ids)
        body = make_bodies(ids).get(f"{verb} {route}", {})
        for name, value in ((name, value) for name, schema in fields.items() for value in wrong_values(schema)):
            forget_callers()
            key = f"{operation} {checked[operation]}"
            answer = admin.send(verb, full, {**body, name: value}, headers={"Idempotency-Key": key})
            checked[operation] += 1
            complaints = answer.body.get("errors", {})
            if answer.status != 400 or not any(field.split(".")[0] == name for field in complaints):
                accepted.append((operation, name, value if not isinstance(value, str) else value[:20], answer))
        assert count_rows() == before, (operation, accepted)
    assert accepted == []
    assert {operation: count for operation, count in checked.items() if count < 5} == {}


def test_a_field_nobody_knows_is_refused_by_name_and_an_empty_body_changes_nothing(
    ids: dict[str, Any], admin: Caller
) -> None:
    wrong, before = [], count_rows()
    for operation in load_bodies():
        forget_callers()
        verb, path = operation.split(" ")
        route, full = fill(path, ids)
        unknown = admin.send(verb, full, {**make_bodies(ids).get(f"{verb} {route}", {}), "promt": 1})
        if unknown.status != 400 or "promt" not in unknown.body["errors"]:
            wrong.append((operation, unknown))
        empty = admin.send(verb, full, {"id": 1} if operation in NOTHING_IS_ENOUGH else {})
        if empty.status not in {400, 409} and not (verb == "PATCH" and empty.status == 200):
            wrong.append((operation, empty))
        assert count_rows() == before, operation
    assert wrong == []


def load_parameters() -> dict[str, list[dict[str, Any]]]:
    """path -> the query's documented parameters, of every GET that has some."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    found = {}
    for path, item in schema["paths"].items():
        told = item.get("get", {}).get("parameters", [])
        if asked := [one for one in told if one["in"] == "query"]:
            found[path.removeprefix("/api/v1/").lstrip("/")] = asked
    return found


def test_every_documented_parameter_is_known_where_it_stands(ids: dict[str, Any], admin: Caller) -> None:
    routes = {re.sub(r"\{\w+\}", "{}", route): route.removeprefix("GET ") for route in TABLE["routes"]}
    unknown = []
    for path, parameters in load_parameters().items():
        full = routes[re.sub(r"\{\w+\}", "{}", f"GET {path}")].format(**ids)
        for one in parameters:
            forget_callers()
            value = next(iter(one["schema"].get("enum", [])), "0")
            answer = admin.get(f"{full}?{one['name']}={value}")
            assert answer.status < 500, (path, one["name"], answer)
            if answer.status == 400 and "No such parameter" in str(answer.body.get("errors", {}).get(one["name"])):
                unknown.append((path, one["name"]))
    assert unknown == []


TASK = {"project": "shop", "prompt": "Say hello.", "environment": "chat", "worker": "echo"}


@pytest.mark.parametrize(
    ("changes", "status", "field", "words"),
    [
        ({"environment": "moon"}, 400, "environment", "chat, bfcl"),
        ({"prompt": "x" * 100_001}, 400, "prompt", "100000"),
        ({"prompt": "  \n "}, 400, "prompt", ""),
        ({"project": "nobody's"}, 404, "project", "nobody's"),
        ({"project": "secret"}, 404, "project", "secret"),
        ({"worker": "nobody"}, 404, "worker", "nobody"),
        ({"worker": "idle"}, 400, "worker", "active"),
        ({"parent": 999_999}, 404, "parent", "999999"),
        ({"taskset": 999_999}, 404, "taskset", "999999"),
        ({"group_size": 65}, 400, "group_size", "64"),
        ({"group_size": 0}, 400, "group_size", "1"),
        ({"metadata": {"x": "y" * 20_001}}, 400, "metadata", "20000"),
        ({"environment": "desk", "prompt": "Say hello."}, 400, "prompt", "ticket"),
        ({"seed": -1}, 400, "seed", "0"),
    ],
)
def test_a_task_that_cannot_be_is_refused_by_the_name_of_the_fault(
    ids: dict[str, Any], owner: Caller, changes: Any, status: int, field: str, words: str
) -> None:
    make_worker(Project.objects.get(slug="shop"), "idle", is_active=False)
    Project.objects.create(slug="secret", name="Secret")
    before = Task.objects.count()
    answer = owner.post("tasks", {**TASK, **changes})
    assert answer.status == status, answer
    assert words in " ".join(answer.body["errors"][field])
    assert Task.objects.count() == before


def test_the_largest_prompt_is_accepted(ids: dict[str, Any], owner: Caller) -> None:
    assert owner.post("tasks", {**TASK, "prompt": "ü" * 100_000}).status == 201


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"review_policy": {"who": "everybody"}}, "review_policy", "none, ai, human, both"),
        ({"review_policy": {"rate": 2}}, "review_policy", "0 to 1"),
        ({"review_policy": {"whoo": "ai"}}, "review_policy", "whoo"),
        ({"weight_profiles": {"moon": {}}}, "weight_profiles", "moon"),
        ({"weight_profiles": {"chat": {"prm": 0.4}}}, "weight_profiles", "sum to 1"),
        ({"weight_profiles": {"chat": {"luck": 1}}}, "weight_profiles", "luck"),
        ({"recipe": {"learning_rate": 7}}, "recipe", "learning_rate"),
        ({"recipe": {"speed": 1}}, "recipe", "speed"),
        ({"gate_policy": {"margin": 4}}, "gate_policy", "margin"),
        ({"gate_policy": {"margins": 0.1}}, "gate_policy", "margins"),
        ({"gate_policy": {"panel_size": "many"}}, "gate_policy", "panel_size"),
        ({"slug": "Not A Slug"}, "slug", "lower-case"),
    ],
)
def test_a_project_setting_that_cannot_be_is_refused(
    ids: dict[str, Any], owner: Caller, settings: Any, field: str, words: str
) -> None:
    User.objects.update(may_make_projects=True)
    answer = owner.post("projects", {"slug": "fresh", "name": "Fresh", **settings})
    assert answer.status == 400, answer
    assert words in " ".join(answer.body["errors"][field])
    assert not Project.objects.filter(slug="fresh").exists()


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({}, "errors"),
        ({"score": None, "text": "", "steps": []}, "errors"),
        ({"preferred_attempt": 7}, "preferred_attempt"),
        ({"steps": [{"index": 99, "score": 1}]}, "steps.0"),
        ({"steps": [{"attempt": 5, "index": 0, "score": 1}]}, "steps.0"),
        ({"steps": [{"index": 0, "score": 1.5}]}, "steps.0.score"),
        ({"steps": [{"index": 0, "note": "x"}]}, "steps.0.note"),
        ({"steps": [{"index": 0}]}, "steps.0"),
        ({"steps": [3]}, "steps.0"),
    ],
)
def test_a_feedback_that_cannot_be_leaves_the_review_open(
    ids: dict[str, Any], owner: Caller, words: Any, field: str
) -> None:
    answer = owner.post(f"reviews/{ids['review']}/feedback", words)
    assert answer.status == 400, answer
    assert field == "errors" or field in answer.body["errors"], answer
    assert owner.get(f"reviews/{ids['review']}").body["state"] == "open"
