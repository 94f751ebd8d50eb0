"""docker/, read by docker's rules: what production is told, service by service."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from django.urls import Resolver404, resolve

from apps.gateway.server import OPEN, list_routes, list_short_paths
from tentalis.core.edge_limits import EdgeLimits
from tentalis.env import PREFIX, VARIABLES, read_environment
from tentalis.platform.chromium import DRIVER, NAMES
from tests.platform.composed import NotUnderstoodError, fill, read_compose, read_dockerfile, read_values

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
SECRET = "a1" * 32
EXAMPLE = read_values((DOCKER / "example.env").read_text())
GIVEN = {name: value or SECRET for name, value in EXAMPLE.items()}
COMPOSED = read_compose(DOCKER / "compose.yaml", GIVEN)
SERVICES = COMPOSED.services
UNPROBED = {"relay", "queue-workers", "queue-control", "gpu"}
BY_DIGEST = r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}"
CELERY = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


def test_every_value_the_file_asks_for_stands_in_the_example() -> None:
    assert set(GIVEN) == COMPOSED.asked


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$A ${A} $$A", "1 1 $A"),
        ("${A:-x} ${E:-x} ${E-x} ${N-x} ${N:-x/y:z} ${N}", "1 x  x x/y:z "),
        ("${A:+x}${E:+x}${E+x}${N+x}", "xx"),
        ("${E?words}", ""),
    ],
)
def test_references_are_filled_in_as_docker_does(text: str, found: str) -> None:
    assert fill(text, {"A": "1", "E": ""}) == found


@pytest.mark.parametrize("text", ["${N:?set it}", "${E:?set it}", "${N?set it}", "a $ b", "${A:-${E}}", "${A"])
def test_what_is_missing_or_not_understood_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstoodError):
        fill(text, {"A": "1", "E": ""})


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_bounded_and_no_root_and_writes_where_it_is_said(name: str) -> None:
    service = SERVICES[name]
    assert service.memory_bytes
    assert service.user not in {"", "root", "0", "0:0"}
    assert service.capabilities in {(), ("NET_BIND_SERVICE",)}
    assert "no-new-privileges:true" in service.security
    assert service.is_read_only
    assert service.is_once or name in UNPROBED or service.healthcheck["test"]


def test_every_image_is_named_by_its_digest() -> None:
    bases = [read_dockerfile(path).base for path in DOCKER.glob("*.Dockerfile")]
    for image in [*bases, *(service.image for service in SERVICES.values() if not service.dockerfile)]:
        assert re.fullmatch(BY_DIGEST, image), image


@pytest.mark.parametrize("name", SERVICES)
def test_every_setting_is_one_and_no_secret_stands_on_a_command_line(name: str) -> None:
    ours = {key: value for key, value in SERVICES[name].environment.items() if key.startswith(PREFIX)}
    assert read_environment(ours)
    secrets = {value for key, value in ours.items() if VARIABLES[key].secret} | {SECRET}
    for words in (SERVICES[name].command, SERVICES[name].healthcheck.get("test", [])):
        assert not [word for word in words if any(secret in word for secret in secrets)]


def test_only_the_proxy_is_reached_from_outside() -> None:
    assert [name for name, service in SERVICES.items() if service.ports] == ["proxy"]
    assert [name for name, service in SERVICES.items() if "outside" in service.networks] == ["proxy"]


def test_proxies_are_believed_from_the_inner_network_and_from_nowhere_else() -> None:
    believed = {service.environment.get("TENTALIS_TRUSTED_PROXIES") for service in SERVICES.values()}
    assert believed - {None} == {COMPOSED.subnets["inside"]}


def test_each_process_has_its_own_role_and_user() -> None:
    users = {"web": "web", "gateway": "gateway", "relay": "queues", "queue-workers": "queues", "gpu": "box"}
    for name, user in users.items():
        assert f"//{user}:" in SERVICES[name].environment["TENTALIS_REDIS_URL"]
    apps = [service.environment for service in SERVICES.values() if "TENTALIS_DATABASE_URL" in service.environment]
    assert all("//tentalis_app:" in environment["TENTALIS_DATABASE_URL"] for environment in apps)
    assert [name for name, one in SERVICES.items() if "TENTALIS_ADMIN_DATABASE_URL" in one.environment] == ["migrate"]
    assert {"TENTALIS_DATABASE_URL", "TENTALIS_SECRET_KEY"}.isdisjoint(
        {*SERVICES["gpu"].environment, *SERVICES["engine"].environment}
    )


def test_what_runs_untrusted_code_knows_nothing_and_reaches_no_other_service() -> None:
    """Whose own filters stand in the way of the walls that it builds has nothing to lose but itself."""
    opened = {name for name, service in SERVICES.items() if "seccomp=unconfined" in service.security}
    assert opened == {"sandboxes"}
    host = SERVICES["sandboxes"]
    assert dict(host.environment) == {}
    assert set(host.networks).isdisjoint(SERVICES["web"].networks)
    assert [mount.source for mount in host.mounts] == ["sandboxes"]
    asked = [name for name, service in SERVICES.items() if "TENTALIS_SANDBOXES" in service.environment]
    assert "queue-workers" in asked
    for name in asked:
        seen = {mount.target: mount.source for mount in SERVICES[name].mounts}
        assert seen[SERVICES[name].environment["TENTALIS_SANDBOXES"]] == "sandboxes"
    directory = host.command[host.command.index("--directory") + 1]
    assert host.mounts[0].target == directory == SERVICES["web"].environment["TENTALIS_SANDBOXES"]


def test_kept_models_lie_where_web_engine_and_box_look_for_them_and_fit_the_engine() -> None:
    """A worker's base is told by its path: it is the same for all."""
    web, engine = SERVICES["web"], SERVICES["engine"]
    place = read_dockerfile(DOCKER / "web.Dockerfile").environment["TENTALIS_HOME"] + "/models"
    for name in ("web", "queue-workers", "engine", "gpu", "models"):
        assert {mount.target: mount.source for mount in SERVICES[name].mounts}[place] == "models"
    assert engine.command[engine.command.index("--models-in") + 1] == place
    memory = engine.command[engine.command.index("--memory-mib") + 1]
    assert memory == web.environment["TENTALIS_ENGINE_MEMORY_MIB"]
    assert int(memory) << 20 < engine.memory_bytes


def test_the_queues_of_the_settings_are_all_read_and_no_process_speaks_to_all_others() -> None:
    """Their users in Redis may not: gossip, mingle and heartbeats are messages to everybody."""
    box = read_dockerfile(DOCKER / "gpu.Dockerfile").command
    assert set(CELERY) <= set(box)
    read: set[str] = set()
    for name in ("queue-workers", "queue-control"):
        command = SERVICES[name].command
        assert set(CELERY) <= set(command)
        read |= set(command[command.index("-Q") + 1].split(","))
    assert read == {queue for queues, _, _ in VARIABLES["TENTALIS_QUEUE_PROCESSES"].default for queue in queues}


def test_the_proxy_takes_what_the_table_of_limits_takes() -> None:
    text, limits = (DOCKER / "Caddyfile").read_text(), EdgeLimits()

    def find(name: str) -> list[float]:
        units = {"KiB": 2**10, "MiB": 2**20, "s": 1, "m": 60}
        return [int(count) * units[unit] for count, unit in re.findall(rf"\b{name} (\d+)(\w+)", text)]

    assert find("max_header_size") == [limits.header_bytes]
    assert find("read_header") == [limits.header_s]
    assert find("read_body") == [limits.header_s + limits.body_s]
    assert find("idle") == [limits.idle_s]
    assert find("max_size") == [limits.gateway_body_bytes, limits.web_body_bytes]


def test_the_proxy_hands_the_gateway_what_is_the_gateways_and_nothing_of_the_webs() -> None:
    found = re.search(r"@gateway path_regexp (\S+)", (DOCKER / "Caddyfile").read_text())
    assert found
    routes = [route.split(" ")[1].format_map(defaultdict(lambda: "x")) for route in list_routes() if route not in OPEN]
    paths = [*routes, *(f"/sessions/a/b{path}" for path in routes if path.startswith("/v1/")), *list_short_paths()]
    paths += ["/models/helper", "/responses/resp_1", "/responses/resp_1/input_items"]
    assert [path for path in paths if not re.search(found[1], path)] == []
    for path in paths:
        with pytest.raises(Resolver404):
            resolve(path)
    ours = ["/", "/p/desk/", "/api/v1/tasks", "/admin/", "/p/desk/sessions/7/", "/healthz", "/modelsx"]
    assert [path for path in ours if re.search(found[1], path)] == []


def test_no_secret_and_no_data_goes_into_an_image() -> None:
    read = read_dockerfile(DOCKER / "web.Dockerfile", ignore=ROOT / ".dockerignore")
    left_out = [".git/config", ".venv/bin/python", "docker/.env", ".tentalis/config.toml", "apps/x/__pycache__/x.pyc"]
    taken = ["manage.py", "apps/console/live.py", "docker/requirements/base.lock", "gpu_workers/desk/base/config.json"]
    assert [path for path in left_out if read.takes(path)] == []
    assert [path for path in taken if not read.takes(path)] == []
    assert "/docker/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_an_image_that_is_asked_for_a_browser_has_one_and_what_drives_it() -> None:
    """As the shell splits the words that docker hands it: of the steps that install, without installing."""
    steps = [rest for word, rest in read_dockerfile(DOCKER / "web.Dockerfile").steps if word in {"ARG", "RUN"}]
    script = "\n".join(["alias apt-get=echo pip=echo rm=true", *steps[1:3]])

    def install(given: str) -> set[str]:
        done = subprocess.run(["sh", "-c", script], env={"GUI": given}, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert steps[0] == "GUI"
    assert install("1") - install("") == {NAMES[0], "fonts-dejavu-core", "docker/requirements/gui.lock"}
    gui, dev = ((DOCKER / f"requirements/{name}.lock").read_text() for name in ("gui", "dev"))
    assert re.search(rf"^{DRIVER}==", gui, re.M)
    assert {line for line in gui.splitlines() if "==" in line} <= set(dev.splitlines())


def test_torch_is_pinned_with_sums_in_one_version() -> None:
    pinned = re.search(r'"torch==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned
    requirements = DOCKER / "requirements"
    assert re.search(rf"^torch=={pinned[1]} \\\n +--hash=sha256:", (requirements / "torch.lock").read_text(), re.M)
    assert f"\ntorch=={pinned[1]}+cpu \\\n    --hash=sha256:" in (requirements / "torch-cpu.lock").read_text()
    script = (requirements / "install.sh").read_text()
    installs = script[script.index("install_torch()") :].split("\n}\n")[0]
    assert installs.count("pip install") == installs.count('"$@" -r docker/requirements/torch') == 4
    assert 'set -- --quiet --python "$venv/bin/python" --no-deps --require-hashes' in installs
