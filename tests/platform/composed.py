"""docker/compose.yaml and the Dockerfiles, read by docker's rules: what each service is told, and as whom it runs.

Only what these files use is understood; anything else is refused by name and never misread in silence.
Source: the Compose Specification (interpolation, `depends_on`, `healthcheck`) and the Dockerfile reference.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

REFERENCE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<rule>:?[-?+])(?P<words>[^{}]*))?\})"
)
UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}
GRACE_S = 10.0
"""How long docker waits for a stopped container before it kills it, where the file says nothing."""
KNOWN = {
    *("restart", "security_opt", "cap_drop", "cap_add", "networks", "build", "image", "user", "read_only", "tmpfs"),
    *("mem_limit", "shm_size", "volumes", "depends_on", "environment", "command", "healthcheck", "ports"),
    *("stop_grace_period", "init"),
}


class NotUnderstoodError(Exception):
    """Something in a file that docker may well understand and this reader does not."""


@dataclass(frozen=True)
class Mount:
    """A volume by its name or a file beside compose.yaml, seen at `target`."""

    source: str
    target: str
    is_read_only: bool

    @property
    def is_volume(self) -> bool:
        return not self.source.startswith((".", "/"))


@dataclass(frozen=True)
class Service:
    """One service, every `${…}` filled in. Empty words mean that the image decides.

    Args:
        depends_on: other service -> condition.
        networks: name -> its own address there, or "".
        healthcheck: {} where there is none.
    """

    name: str
    image: str
    dockerfile: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    user: str
    depends_on: Mapping[str, str]
    networks: Mapping[str, str]
    mounts: tuple[Mount, ...]
    tmpfs: tuple[str, ...]
    is_read_only: bool
    capabilities: tuple[str, ...]
    security: tuple[str, ...]
    memory_bytes: int
    grace_s: float
    healthcheck: Mapping[str, Any]
    ports: tuple[str, ...]
    restart: str

    @property
    def is_once(self) -> bool:
        return self.restart == "no"


@dataclass(frozen=True)
class Composed:
    """The whole file. `subnets`: of its networks that name one."""

    services: Mapping[str, Service]
    subnets: Mapping[str, str]
    asked: frozenset[str]
    directory: Path

    def needed_by(self, name: str) -> set[str]:
        """What a service depends on, and what that depends on, and so on."""
        direct = set(self.services[name].depends_on)
        return direct.union(*(self.needed_by(other) for other in direct))


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `$NAME`, `${NAME}` and `${NAME:-words}` filled in; of its kind also `-`, `:?`, `?`, `:+`, `+`.

    Raises:
        NotUnderstoodError: a value that the file insists on is missing, or a `$` stands where docker allows none.
    """

    def one(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        name, rule, words = found["plain"] or found["name"], found["rule"] or "", found["words"] or ""
        value = values.get(name)
        is_there = bool(value) if rule.startswith(":") else value is not None
        if rule.endswith("+"):
            return words if is_there else ""
        if rule.endswith("?") and not is_there:
            raise NotUnderstoodError(f"{name}: {words or 'must be set'}")
        return (value or "") if is_there or not rule.endswith("-") else words

    if "$" in REFERENCE.sub("", text):
        raise NotUnderstoodError(f"a lone $, or one reference inside another, in {text!r}")
    return REFERENCE.sub(one, text)


def read_values(text: str) -> dict[str, str]:
    """NAME=value lines, as docker reads `.env`; quotes and inline comments are refused, for the file needs none."""
    values = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name) or re.search(r"""['"\\\s]|\$""", value):
            raise NotUnderstoodError(f"a line of the environment file: {name}=…")
        values[name] = value
    return values


def read_compose(path: Path, values: Mapping[str, str]) -> Composed:
    """The file with these values. Raises NotUnderstoodError."""
    text = path.read_text(encoding="utf-8")
    loaded = _fill_all(yaml.safe_load(text), values)
    services = {name: _read_service(name, given) for name, given in loaded["services"].items()}
    volumes = set(loaded.get("volumes") or {})
    for service in services.values():
        if unknown := {mount.source for mount in service.mounts if mount.is_volume} - volumes:
            raise NotUnderstoodError(f"{service.name}: volumes that the file does not name: {', '.join(unknown)}")
        if unknown := set(service.depends_on) - set(services):
            raise NotUnderstoodError(f"{service.name} depends on what is not there: {', '.join(unknown)}")
    subnets = {
        name: given["ipam"]["config"][0]["subnet"]
        for name, given in loaded["networks"].items()
        if given and given.get("ipam")
    }
    asked = frozenset(found["plain"] or found["name"] for found in REFERENCE.finditer(text) if not found["dollar"])
    return Composed(services, subnets, asked, path.parent)


def _fill_all(value: Any, values: Mapping[str, str]) -> Any:
    """Values only, never keys, as docker does."""
    if isinstance(value, dict):
        return {key: _fill_all(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_all(item, values) for item in value]
    return fill(value, values) if isinstance(value, str) else value


def _read_service(name: str, given: Mapping[str, Any]) -> Service:
    if unknown := set(given) - KNOWN:
        raise NotUnderstoodError(f"{name}: {', '.join(sorted(unknown))}")
    command = given.get("command") or []
    if isinstance(command, str):
        raise NotUnderstoodError(f"{name}: a command that is one string")
    depends_on = given.get("depends_on") or {}
    networks = given.get("networks") or ["default"]
    return Service(
        name=name,
        image=given.get("image", ""),
        dockerfile=(given.get("build") or {}).get("dockerfile", ""),
        command=tuple(command),
        environment={key: _say(value) for key, value in (given.get("environment") or {}).items()},
        user=given.get("user", ""),
        depends_on={other: rule["condition"] for other, rule in depends_on.items()},
        networks=dict.fromkeys(networks, "")
        if isinstance(networks, list)
        else {key: (rule or {}).get("ipv4_address", "") for key, rule in networks.items()},
        mounts=tuple(_read_mount(name, words) for words in given.get("volumes") or []),
        tmpfs=tuple(words.partition(":")[0] for words in given.get("tmpfs") or []),
        is_read_only=bool(given.get("read_only")),
        capabilities=tuple(given.get("cap_add") or []) if given.get("cap_drop") == ["ALL"] else ("ALL",),
        security=tuple(given.get("security_opt") or []),
        memory_bytes=read_bytes(given.get("mem_limit", "0")),
        grace_s=read_seconds(given["stop_grace_period"]) if "stop_grace_period" in given else GRACE_S,
        healthcheck=given.get("healthcheck") or {},
        ports=tuple(given.get("ports") or []),
        restart=given.get("restart", "no"),
    )


def _say(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        raise NotUnderstoodError(f"a value of an environment that is neither text nor a number: {value!r}")
    return str(value)


def _read_mount(name: str, words: str) -> Mount:
    parts = words.split(":")
    if len(parts) not in {2, 3} or parts[2:] not in ([], ["ro"]):
        raise NotUnderstoodError(f"{name}: volume {words!r}")
    return Mount(parts[0], parts[1], parts[2:] == ["ro"])


def read_bytes(text: str) -> int:
    """`768m` -> 805306368."""
    found = re.fullmatch(r"(\d+)([kmg]?)", text)
    if not found:
        raise NotUnderstoodError(f"a size like 512m, found {text!r}")
    return int(found[1]) * UNITS.get(found[2], 1)


def read_seconds(text: str) -> float:
    """`1m30s` -> 90.0."""
    found = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or not found:
        raise NotUnderstoodError(f"a time like 1m30s, found {text!r}")
    return 60.0 * int(found[1] or 0) + int(found[2] or 0)


@dataclass(frozen=True)
class Dockerfile:
    """What a Dockerfile does, in its order, and what it leaves to a container.

    Args:
        steps: (instruction, rest) of FROM, COPY, RUN, USER and so on, continued lines joined.
    """

    base: str
    steps: tuple[tuple[str, str], ...]
    environment: Mapping[str, str]
    directory: str
    user: str
    command: tuple[str, ...]
    stop_signal: str = "SIGTERM"
    ignored: tuple[str, ...] = field(default=())

    def takes(self, path: str) -> bool:
        """Whether `COPY . .` takes a file of the project, by the `.dockerignore` beside it."""
        is_taken = True
        for rule in self.ignored:
            pattern = rule.removeprefix("!").removeprefix("**/").strip("/")
            parts = path.split("/")
            heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
            tails = [
                "/".join(parts[start : end + 1]) for start in range(len(parts)) for end in range(start, len(parts))
            ]
            if any(fnmatch(part, pattern) for part in (tails if "**/" in rule else heads)):
                is_taken = rule.startswith("!")
        return is_taken


def read_dockerfile(path: Path, *, ignore: Path | None = None) -> Dockerfile:
    """One stage, words in the JSON form. Raises NotUnderstoodError."""
    joined = re.sub(r"\\\n", " ", "".join(_without_comments(path.read_text(encoding="utf-8"))))
    steps = tuple(
        (line.split(None, 1)[0], line.split(None, 1)[1].strip()) for line in joined.splitlines() if line.strip()
    )
    environment: dict[str, str] = {}
    base = directory = user = ""
    command: tuple[str, ...] = ()
    for word, rest in steps:
        match word:
            case "FROM" if not base:
                base = rest
            case "ENV":
                environment |= dict(part.split("=", 1) for part in shlex.split(rest))
            case "WORKDIR":
                directory = rest
            case "USER":
                user = rest
            case "CMD":
                command = tuple(json.loads(rest))
            case "ARG" | "COPY" | "RUN" | "EXPOSE":
                pass
            case _:
                raise NotUnderstoodError(f"{path.name}: {word} {rest}")
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore else []
    ignored = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    return Dockerfile(base, steps, environment, directory or "/", user, command, ignored=ignored)


def _without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#")]
