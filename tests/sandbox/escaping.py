"""`python -m tests.sandbox.escaping`: run every probe on a machine of decoys, and print what got through, as JSON.

The decoys are servers, files, a process and shared memory of this process, which goes into a network and an IPC
namespace of its own first where it may, so that they are nobody else's.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox import kernel
from tentalis.sandbox.embedded import Embedded
from tentalis.sandbox.limits import ALL_WALLS, Wall
from tentalis.sandbox.store import Image, Store
from tests.sandbox.probes import ALLOWED_BYTES, METADATA, PYTHON, Probe, Try, applicable

WORD: Final = "the-decoys-secret-word"
DECOY_PROCESS: Final = (
    "import signal, time; signal.signal(signal.SIGUSR1, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)
NAMES: Final = {
    "allowed.test": "93.184.215.14",
    "other.test": "93.184.215.15",
    "inside.test": "127.0.0.1",
    "metadata.test": METADATA,
}
_libc = ctypes.CDLL(None, use_errno=True)


def add_loopback_address(address: str, number: int) -> None:
    """An address more for this namespace's own loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        wanted = struct.pack("16sHH4s8x", b"lo:%d" % number, socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(any_socket, 0x8916, wanted)  # SIOCSIFADDR


def name_hosts(place: Path) -> None:
    """Names that this process, and what it starts, knows: what of them is public is the decoys' own."""
    hosts = place / "hosts"
    hosts.write_text("".join(f"{address} {name}\n" for name, address in NAMES.items()))
    hosts.chmod(0o644)
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount(str(hosts), "/etc/hosts", flags=kernel.MS_BIND)


@contextlib.contextmanager
def set_decoys(place: Path) -> Iterator[dict[str, str]]:
    """Everything that probes look for, and where it is."""
    if os.geteuid() == 0:
        kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC)
        kernel.raise_loopback()
        for number, address in enumerate(sorted({METADATA, *NAMES.values()} - {"127.0.0.1"}), 1):
            add_loopback_address(address, number)
        name_hosts(place)
    place.chmod(0o777)
    secret = place / "secret"
    secret.write_text(WORD)
    secret.chmod(0o666)
    for name in ("open", "scratch"):
        (place / name).mkdir()
        (place / name).chmod(0o777)
    decoys = {"WORD": WORD, "SECRET": str(secret), "OPEN": str(place / "open"), "SCRATCH": str(place / "scratch")}
    if os.geteuid() == 0:
        os.mknod(place / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        (place / "device").chmod(0o666)
        decoys["DEVICE"] = str(place / "device")
    with contextlib.ExitStack() as stack:
        decoys |= _serve(stack, place)
        shared = _libc.shmget(0, 4096, 0o1666)
        _libc.shmat.restype = ctypes.c_void_p
        ctypes.memmove(_libc.shmat(shared, None, 0), WORD.encode(), len(WORD))
        stack.callback(_libc.shmctl, shared, 0, None)
        queue = f"/decoy-{os.getpid()}"
        old = os.umask(0)
        _libc.mq_open(queue.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        os.umask(old)
        stack.callback(_libc.mq_unlink, queue.encode())
        other = Embedded.outer_user() if os.geteuid() == 0 else None
        process = subprocess.Popen(
            [PYTHON, "-c", DECOY_PROCESS, "decoy"],
            env={"HOSTS_WORD": WORD}, user=other, group=other, stdout=subprocess.PIPE,
            extra_groups=[] if os.geteuid() == 0 else None,
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        stack.callback(process.stdout.close)
        stack.callback(process.wait)
        stack.callback(process.kill)
        for name, path in (("LEAKED_FILE", secret), ("LEAKED_DIRECTORY", place)):
            descriptor = os.open(path, os.O_RDONLY)
            os.set_inheritable(descriptor, True)
            decoys[name] = str(descriptor)
        yield decoys | {
            "SHARED": str(shared), "QUEUE": queue, "PROCESS": str(process.pid), "NAME": socket.gethostname(),
        }  # fmt: skip


def _serve(stack: contextlib.ExitStack, place: Path) -> dict[str, str]:
    """Servers that tell the word to whoever reaches them."""
    first = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = first.getsockname()[1]
    abstract = f"decoy-{os.getpid()}"
    servers = [first, stack.enter_context(socket.create_server(("::1", port), family=socket.AF_INET6))]
    if os.geteuid() == 0:
        servers.append(stack.enter_context(socket.create_server((METADATA, port))))
        places = [(address, 443) for address in {METADATA, *NAMES.values()}]
        places.append((NAMES["allowed.test"], 80))
        servers += [stack.enter_context(socket.create_server(where)) for where in places]
    for address in (str(place / "database.sock"), f"\0{abstract}"):
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(address)
        server.listen()
        servers.append(server)
    (place / "database.sock").chmod(0o777)
    datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    datagrams.bind(("127.0.0.1", 0))

    def answer(server: socket.socket) -> None:
        said = WORD.encode()
        if server.family == socket.AF_INET and server.getsockname() == (NAMES["allowed.test"], 443):
            said = bytes(2 * ALLOWED_BYTES)  # what everybody may hear
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(ConnectionError):
                    connection.sendall(said)

    def answer_datagrams() -> None:
        with contextlib.suppress(OSError):
            while True:
                _, asker = datagrams.recvfrom(100)
                datagrams.sendto(WORD.encode(), asker)

    # started by whoever has forked all zygotes: a process of several threads must not fork
    _threads.extend(threading.Thread(target=answer, args=(server,), daemon=True) for server in servers)
    _threads.append(threading.Thread(target=answer_datagrams, daemon=True))
    return {
        "LOOPBACK": "127.0.0.1", "LOOPBACK6": "::1", "METADATA": METADATA, "PORT": str(port),
        "UDP_PORT": str(datagrams.getsockname()[1]), "UNIX": str(place / "database.sock"), "ABSTRACT": abstract,
    }  # fmt: skip


_threads: list[threading.Thread] = []


class Escapes:
    """Runs probes: many may share a sandbox, for each is a program of its own."""

    def __init__(self, backends: dict[bool, Embedded], image: Image, decoys: dict[str, str]) -> None:
        self._backends = backends
        self._image = image
        self._decoys = decoys

    async def run(self, probe: Probe, without: frozenset[Wall], *, is_control: bool) -> bool:
        """Whether it got through."""
        limits = probe.limits(is_control=is_control)
        backend = self._backends[probe.counted]
        sandbox = await backend.make(self._image, limits, walls=ALL_WALLS - without)
        try:
            return await probe.attempt(Try(sandbox, self._decoys, is_control, without))
        finally:
            with contextlib.suppress(OSError, ValueError):  # a probe may have ended it
                await sandbox.destroy()

    async def close(self) -> None:
        for backend in self._backends.values():
            await backend.close()


def lend_setuid(store: Path, image: Image) -> None:
    """A program of root's in the image, marked setuid, as an image's own files never are after they were copied in."""
    if os.geteuid() == 0:
        target = store / image.layers[0] / "work/setuid-id"
        shutil.copy("/usr/bin/id", target)
        os.chown(target, 0, 0)
        target.chmod(0o4755)


async def run_all(escapes: Escapes, *, alone: bool) -> list[dict[str, Any]]:
    """A row a probe: whether it got through without its walls and within them, and, if asked, which of them stop it
    alone."""
    rows: list[dict[str, Any]] = []
    for probe in applicable():
        row: dict[str, Any] = {"probe": probe.name, "stopped_by": probe.stopped_by}
        row["control"] = await escapes.run(probe, probe.walls, is_control=True)
        row["inside"] = await escapes.run(probe, frozenset(), is_control=False)
        if alone and len(probe.walls) > 1:
            row["alone"] = {
                str(wall): not await escapes.run(replace(probe), probe.walls - {wall}, is_control=False)
                for wall in sorted(probe.walls)
            }
        rows.append(row)
    await escapes.close()
    return rows


def main() -> int:
    if os.environ.get("HOSTS_WORD") != WORD:  # what a process was started with, its own others may read
        argv = [sys.executable, "-m", "tests.sandbox.escaping", *sys.argv[1:]]
        os.execve(sys.executable, argv, {**os.environ, "HOSTS_WORD": WORD})
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with tempfile.TemporaryDirectory(prefix="tentalis-escapes-") as name, set_decoys(Path(name)) as decoys:
        place = Path(name, "stores")
        place.mkdir()
        image_directory = Path(name, "image")
        (image_directory / "work").mkdir(parents=True)
        backends, stores = {}, {}
        for counted in (True, False):
            directory = place / str(counted)
            stores[counted] = Store(directory, Embedded.outer_user() if os.geteuid() == 0 else None)
            stores[counted].open()
            backends[counted] = Embedded(stores[counted], counts=counted)
        for thread in _threads:
            thread.start()
        images = [store.add_image(image_directory) for store in stores.values()]
        for store in stores.values():
            lend_setuid(store.root, images[0])
        rows = asyncio.run(run_all(Escapes(backends, images[0], decoys), alone="--alone" in sys.argv))
    sys.stdout.write(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
