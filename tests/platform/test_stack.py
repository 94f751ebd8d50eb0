"""Which processes the settings ask for, with which order and which secrets. Nothing is started."""

from pathlib import Path

import pytest

from tentalis.env import EnvironmentVariableError
from tentalis.platform.config import Config, load_or_make_config
from tentalis.platform.errors import UnknownServiceError
from tentalis.platform.home import Home
from tentalis.platform.stack import LARGE_PAGES, Stack, plan_stack

DATABASE_URL = "postgres://me:db-password@127.0.0.1:1/tickets"
REDIS_URL = "redis://:redis-password@127.0.0.1:1/0"


@pytest.fixture
def config(home: Home) -> Config:
    home.prepare()
    return load_or_make_config(home)[0]


@pytest.fixture
def outside(environ: dict[str, str]) -> dict[str, str]:
    """An environment with servers of somebody else, so that planning makes nothing on disk."""
    return environ | {"TENTALIS_DATABASE_URL": DATABASE_URL, "TENTALIS_REDIS_URL": REDIS_URL}


def names(stack: Stack) -> list[str]:
    return [service.name for service in stack.services]


def test_every_process_is_planned_after_what_it_needs(home: Home, config: Config, outside: dict[str, str]) -> None:
    stack = plan_stack(home, config, outside)
    first, last = ["engine", "gpu", "sandboxes", "migrate", "bootstrap"], ["relay", "queue-workers", "queue-control"]
    assert names(stack) == [*first, "web", "gateway", *last]
    after = {service.name: service.after for service in stack.services}
    assert after["web"] == after["gateway"] == after["relay"] == after["queue-workers"] == ("migrate",)
    assert after["engine"] == ()


def test_the_training_box_and_the_engine_get_no_secret_of_the_web(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    outside["TENTALIS_INFERENCE_API_KEY"] = "the-api-key"
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    secrets = {DATABASE_URL, "the-api-key", *vars(config.secrets).values()}
    assert secrets & set(services["web"].environment.values())
    for name in ("engine", "gpu"):
        assert not secrets & set(services[name].environment.values())
        assert "DJANGO_SETTINGS_MODULE" not in services[name].environment
    assert services["gpu"].environment["TENTALIS_REDIS_URL"] == REDIS_URL
    assert REDIS_URL not in services["engine"].environment.values()


def test_the_sandbox_host_is_told_nothing_and_is_left_out_where_another_is_named(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    assert set(services["sandboxes"].environment) <= {"PATH", "LANG", "LC_ALL", "TZ"}
    assert services["sandboxes"].after == ()
    assert services["sandboxes"].argv[-3:] == ["--stays", "--backend", "embedded"]
    outside |= {"TENTALIS_SANDBOX_BACKEND": "podman", "TENTALIS_SANDBOX_ENGINE": "/run/own/podman.sock"}
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    assert services["sandboxes"].argv[-4:] == ["--backend", "podman", "--engine", "/run/own/podman.sock"]
    outside |= {"TENTALIS_SANDBOX_BACKEND": "subprocess", "TENTALIS_SANDBOX_TRUSTED_CODE": "true"}
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    assert services["sandboxes"].argv[-1] == "--trusted-code"
    outside["TENTALIS_SANDBOXES"] = "/var/lib/other-host"
    assert "sandboxes" not in names(plan_stack(home, config, outside))


def test_trainings_at_tinker_have_a_process_that_alone_of_the_boxes_holds_the_key(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    outside["TENTALIS_TINKER_API_KEY"] = "tml-the-key"
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    assert services["tinker"].environment["TENTALIS_TINKER_API_KEY"] == "tml-the-key"
    assert services["tinker"].environment["TENTALIS_REDIS_URL"] == REDIS_URL
    assert "tml-the-key" not in {*services["gpu"].environment.values(), *services["engine"].environment.values()}
    assert {"tinker", "threads"} <= {word for argument in services["tinker"].argv for word in argument.split("=")}


def test_the_training_box_alone_gets_the_teachers_key(home: Home, config: Config, outside: dict[str, str]) -> None:
    outside |= {"TENTALIS_TEACHER_API_KEY": "of-the-teacher", "TENTALIS_TEACHER_URL": "http://10.0.0.8:8000"}
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    assert services["gpu"].environment["TENTALIS_TEACHER_API_KEY"] == "of-the-teacher"
    assert "of-the-teacher" not in services["engine"].environment.values()


def test_only_the_bootstrap_gets_the_admin_password(home: Home, config: Config, outside: dict[str, str]) -> None:
    holders = [
        service.name
        for service in plan_stack(home, config, outside).services
        if config.secrets.admin_password in service.environment.values()
    ]
    assert holders == ["bootstrap"]


def test_a_process_computes_with_one_thread(home: Home, config: Config, outside: dict[str, str]) -> None:
    for service in plan_stack(home, config, outside).services:
        assert service.environment.get("OMP_NUM_THREADS") == "1" or service.name == "sandboxes"


def test_what_computes_has_large_pages_unless_another_tuning_is_given(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    own = {"GLIBC_TUNABLES": "glibc.malloc.perturb=1"}
    for given, wanted in (({}, LARGE_PAGES), (own, own)):
        services = {service.name: service for service in plan_stack(home, config, outside | given).services}
        for name in ("engine", "gpu"):
            assert wanted.items() <= services[name].environment.items()
        assert "GLIBC_TUNABLES" in given or "GLIBC_TUNABLES" not in services["web"].environment


def test_no_process_compiles_what_another_has_compiled(home: Home, config: Config, outside: dict[str, str]) -> None:
    for service in plan_stack(home, config, outside | {"PYTHONDONTWRITEBYTECODE": "1"}).services:
        assert service.environment.get("PYTHONDONTWRITEBYTECODE", "") == ""


def test_queue_processes_are_as_many_as_the_setting_says(home: Home, config: Config, outside: dict[str, str]) -> None:
    outside["TENTALIS_QUEUE_PROCESSES"] = "workers=threads:6;workers=solo;scorers,hints,gates,control=threads:4"
    stack = plan_stack(home, config, outside)
    queues = {service.name: service.argv for service in stack.services if service.name.startswith("queue")}
    assert list(queues) == ["queue-workers", "queue-workers-2", "queue-scorers"]
    argv = queues["queue-scorers"]
    assert argv[argv.index("-Q") + 1] == "scorers,hints,gates,control"
    assert argv[argv.index("-c") + 1] == "4"
    assert argv[argv.index("-P") + 1] == "threads"


def test_an_engine_of_somebody_else_is_used_and_ours_is_not_started(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    stack = plan_stack(home, config, outside | {"TENTALIS_ENGINE_URL": "http://gpu-box:8000"})
    assert "engine" not in names(stack)
    assert stack.addresses["engine_url"] == "http://gpu-box:8000"


def test_one_service_is_planned_with_what_it_needs(home: Home, config: Config, outside: dict[str, str]) -> None:
    assert names(plan_stack(home, config, outside, only=["web"])) == ["migrate", "web"]


def test_an_unknown_service_is_refused_by_name(home: Home, config: Config, outside: dict[str, str]) -> None:
    with pytest.raises(UnknownServiceError, match="unknown services wep; there are engine, gpu"):
        plan_stack(home, config, outside, only=["wep"])


def test_an_unreadable_queue_setting_is_refused_by_name(home: Home, config: Config, outside: dict[str, str]) -> None:
    with pytest.raises(EnvironmentVariableError, match="TENTALIS_QUEUE_PROCESSES must be groups like"):
        plan_stack(home, config, outside | {"TENTALIS_QUEUE_PROCESSES": "workers=prefork:2"})


def test_planning_beside_servers_of_somebody_else_makes_no_data(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    plan_stack(home, config, outside)
    assert {path.name for path in Path(home.root).iterdir()} == {"config.toml", "run", "logs", "artifacts"}


def test_the_engine_has_a_key_that_the_web_side_knows_and_the_box_does_not(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    key = services["engine"].environment["TENTALIS_ENGINE_KEY"]
    assert len(key) == 64
    assert {
        services[name].environment["TENTALIS_ENGINE_KEY"] for name in ("web", "gateway", "relay", "queue-control")
    } == {key}
    assert key not in services["gpu"].environment.values()
    assert key not in services["engine"].argv
    argv = services["engine"].argv
    told = dict(zip(argv[-10::2], argv[-9::2], strict=True))
    assert told == {
        "--adapters-in": str(home.artifacts),
        "--models-in": str(home.root / "models"),
        "--memory-mib": "0",
        "--device": "auto",
        "--precision": "auto",
    }


def test_somebody_elses_engine_is_not_told_a_key_of_ours(home: Home, config: Config, outside: dict[str, str]) -> None:
    outside["TENTALIS_ENGINE_URL"] = "http://gpu-box:8000"
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    assert not services["web"].environment.get("TENTALIS_ENGINE_KEY")


def test_the_owners_and_the_administrators_addresses_reach_only_what_prepares_the_database(
    home: Home, config: Config, outside: dict[str, str]
) -> None:
    outside["TENTALIS_MIGRATION_DATABASE_URL"] = "postgres://owner:owners-password@127.0.0.1:1/tickets"
    outside["TENTALIS_ADMIN_DATABASE_URL"] = "postgres://admin:admins-password@127.0.0.1:1/tickets"
    services = {service.name: service for service in plan_stack(home, config, outside).services}
    for name, service in services.items():
        told = " ".join(service.environment.values())
        assert ("owners-password" in told, "admins-password" in told) == (name == "migrate",) * 2, name
