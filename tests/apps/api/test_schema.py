"""The schema says what is served, without a warning; its page reads under the strictest policy."""

import json
from io import StringIO
from pathlib import Path

import jsonschema_rs
import pytest
from django.core.management import call_command
from django.test import Client
from drf_spectacular import validation

from apps.api.views.docs import write_schema

SPECIFICATION = Path(validation.__file__).with_name("openapi_3_1_schema.json")


def find_faults(schema: object) -> list[str]:
    """What `spectacular --validate` would say, in a fifth of its time."""
    specification = json.loads(SPECIFICATION.read_text(encoding="utf-8"))
    return [fault.message for fault in jsonschema_rs.validator_for(specification).iter_errors(schema)]


def test_the_schema_is_valid_and_makes_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    out = StringIO()
    call_command("spectacular", "--fail-on-warn", "--format", "openapi-json", stdout=out)
    assert "Warning" not in capsys.readouterr().err
    schema = json.loads(out.getvalue())
    assert schema["openapi"].startswith("3.1")
    assert find_faults(schema) == []
    del schema["info"]["title"]
    assert find_faults(schema) == ['"title" is a required property']


@pytest.mark.django_db
def test_the_schema_is_served_as_yaml_and_json() -> None:
    assert Client().get("/api/schema/").headers["Content-Type"].startswith("application/vnd.oai.openapi")
    schema = Client().get("/api/schema/", headers={"Accept": "application/vnd.oai.openapi+json"}).json()
    assert schema["openapi"].startswith("3.1")
    for accepted, media_type in (
        ("application/json", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/json, text/plain, */*", "application/json"),
        ("text/html, */*;q=0.8", "application/vnd.oai.openapi"),
    ):
        answer = Client().get("/api/schema/", headers={"Accept": accepted})
        assert (answer.status_code, answer.headers["Content-Type"].partition(";")[0]) == (200, media_type)
        if media_type.endswith("json"):
            assert answer.json() == schema
    operations = [item for path in schema["paths"].values() for verb, item in path.items() if verb != "parameters"]
    for operation in operations:
        assert operation["operationId"]
        assert "400" in operation["responses"]
        for status in ("429", "503"):
            assert operation["responses"][status]["headers"]["Retry-After"]["schema"]["type"] == "integer"
        ok = [status for status in operation["responses"] if status.startswith("2")]
        assert ok, operation["operationId"]


@pytest.mark.django_db
@pytest.mark.parametrize("accept", ["application/vnd.oai.openapi", "application/vnd.oai.openapi+json"])
def test_the_schema_is_made_once_and_not_sent_again_to_who_has_it(accept: str) -> None:
    first = Client().get("/api/schema/", headers={"Accept": accept})
    made = write_schema.cache_info().misses
    second = Client().get("/api/schema/", headers={"Accept": accept})
    again = Client().get("/api/schema/", headers={"Accept": accept, "If-None-Match": first["ETag"]})
    assert (second.content, second["ETag"]) == (first.content, first["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    assert write_schema.cache_info().misses == made


@pytest.mark.django_db
def test_everything_that_changes_something_takes_an_idempotency_key() -> None:
    schema = Client().get("/api/schema/", headers={"Accept": "application/vnd.oai.openapi+json"}).json()
    for path, item in schema["paths"].items():
        for verb in item.keys() & {"post", "patch", "delete"}:
            names = {parameter["name"] for parameter in item[verb].get("parameters", [])}
            # signing in changes nothing that counts; a trainer that samples sends no headers: its question is the key
            assert "Idempotency-Key" in names or path.endswith(("/login", "/rewards/{secret}")), (verb, path)


@pytest.mark.django_db
def test_the_docs_page_needs_no_script_and_no_foreign_style() -> None:
    response = Client().get("/api/docs/")
    page = response.content.decode()
    assert response.status_code == 200
    assert "Content-Security-Policy" in response.headers
    assert "<script" not in page
    assert "style=" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    for words in ("/api/v1/tasks", "group_size", "Idempotency-Key", "tasks:write"):
        assert words in page
