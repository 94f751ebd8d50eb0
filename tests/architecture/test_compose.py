"""docker/compose.yaml, read as text: what production is told, service by service. No container is started."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tentalis.env import PREFIX, VARIABLES, read_environment

DOCKER = Path(__file__).parents[2] / "docker"
TEXT = (DOCKER / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
GIVEN = {
    name: default or "a1" * 32
    for name, _, default in (line.partition("=") for line in (DOCKER / "example.env").read_text().splitlines())
    if name and not name.startswith("#")
}
ONCE = {"redis-users", "migrate", "bootstrap"}
UNPROBED = {"relay", "queue-workers", "queue-control", "gpu"}


def fill(text: str) -> str:
    """As compose fills in `${NAME}`, `${NAME:-default}` and `${NAME:?words}`."""
    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", lambda found: GIVEN.get(found[1]) or found[2] or "", text)


def environment_of(name: str) -> dict[str, str]:
    return {key: fill(str(value)) for key, value in SERVICES[name].get("environment", {}).items()}


def test_every_value_the_file_asks_for_stands_in_the_example() -> None:
    assert set(re.findall(r"\$\{(\w+)", TEXT)) == set(GIVEN)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_bounded_and_no_root_and_pinned(name: str) -> None:
    service = SERVICES[name]
    assert service["mem_limit"]
    assert service["user"] not in {"root", "0", "0:0"}
    assert service["cap_drop"] == ["ALL"]
    assert "build" in service or re.fullmatch(r"[\w/]+:\d+(\.\d+)+[\w.-]*", service["image"])
    assert name in ONCE | UNPROBED or service["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_setting_is_one_and_no_secret_stands_on_a_command_line(name: str) -> None:
    environment = environment_of(name)
    ours = {key: value for key, value in environment.items() if key.startswith(PREFIX)}
    assert read_environment(ours)
    secrets = {value for key, value in ours.items() if VARIABLES[key].secret} | {"a1" * 32}
    for words in (SERVICES[name].get("command", []), SERVICES[name].get("healthcheck", {}).get("test", [])):
        assert not [word for word in words if "$" in word or any(secret in word for secret in secrets)]


def test_only_the_proxy_is_reached_from_outside() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    assert [name for name, service in SERVICES.items() if "outside" in service["networks"]] == ["proxy"]


def test_each_process_has_its_own_role_and_user() -> None:
    users = {"web": "web", "gateway": "gateway", "relay": "queues", "queue-workers": "queues", "gpu": "box"}
    for name, user in users.items():
        assert f"//{user}:" in environment_of(name)["TENTALIS_REDIS_URL"]
    apps = [name for name in SERVICES if "TENTALIS_DATABASE_URL" in environment_of(name)]
    assert all("//tentalis_app:" in environment_of(name)["TENTALIS_DATABASE_URL"] for name in apps)
    assert [name for name in SERVICES if "TENTALIS_ADMIN_DATABASE_URL" in environment_of(name)] == ["migrate"]
    assert {"TENTALIS_DATABASE_URL", "TENTALIS_SECRET_KEY"}.isdisjoint(
        {*environment_of("gpu"), *environment_of("engine")}
    )


def test_the_queues_of_the_settings_are_all_read() -> None:
    read = {
        queue
        for name in ("queue-workers", "queue-control")
        for queue in SERVICES[name]["command"][SERVICES[name]["command"].index("-Q") + 1].split(",")
    }
    assert read == {queue for queues, _, _ in VARIABLES["TENTALIS_QUEUE_PROCESSES"].default for queue in queues}
