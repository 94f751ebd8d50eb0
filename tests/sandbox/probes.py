"""What tries to get out of a sandbox, and what must stop each try.

A probe is run twice. First the walls it names are left away, and a decoy stands where the machine's own would: it must
get through. Then in a sandbox as the host makes them: it must not.
"""

import contextlib
import os
import platform
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox.errors import SandboxError
from tentalis.sandbox.limits import Limits, Wall
from tentalis.sandbox.sandbox import Ended, Output, Sandbox

THROUGH: Final = b"GOT THROUGH"
PYTHON: Final = "/usr/bin/python3"
METADATA: Final = "169.254.169.254"
MIB: Final = 2**20
TIGHT: Final = Limits(memory_bytes=200 * MIB, processes=64, disk_bytes=8 * MIB, files=1_000)
"""What probes meet inside: little, so that the decoys that show the way without it can be harmless."""

NUMBERS: Final = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "keyctl": 250, "bpf": 321, "io_uring_setup": 425, "userfaultfd": 323,
        "perf_event_open": 298, "unshare": 272, "clone": 56, "clone3": 435, "mount": 165, "umount2": 166, "fsopen": 430,
        "personality": 135, "kcmp": 312, "get_mempolicy": 239, "name_to_handle_at": 303, "prlimit64": 302,
        "syslog": 103, "adjtimex": 159, "pidfd_getfd": 438, "setns": 308,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "keyctl": 219, "bpf": 280, "io_uring_setup": 425, "userfaultfd": 282,
        "perf_event_open": 241, "unshare": 97, "clone": 220, "clone3": 435, "mount": 40, "umount2": 39, "fsopen": 430,
        "personality": 92, "kcmp": 272, "get_mempolicy": 236, "name_to_handle_at": 264, "prlimit64": 261, "syslog": 116,
        "adjtimex": 171, "pidfd_getfd": 438, "setns": 268,
    },
}  # fmt: skip
PRELUDE: Final = f"""
import ctypes, ctypes.util, errno, fcntl, os, mmap, resource, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
N = {NUMBERS.get(platform.machine(), {})}
E = os.environ
def call(name, *args):
    found = libc.syscall(ctypes.c_long(N[name]), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if found < 0:
        raise OSError(ctypes.get_errno(), name)
    return found
def through():
    print("{THROUGH.decode()}", flush=True)
def sleeper():
    pid = os.fork()
    if not pid:
        time.sleep(5)
        os._exit(0)
    return pid
"""


@dataclass
class Try:
    """A sandbox that a probe is run in, and where the decoys are.

    Args:
        is_control: the walls that must stop it are away.
    """

    sandbox: Sandbox
    decoys: Mapping[str, str]
    is_control: bool

    async def run(self, argv: list[str], timeout_s: float = 20) -> tuple[bytes, Ended]:
        has_root = Wall.ROOT not in self.without
        out, ended = b"", Ended(-1)

        def hear(told: Output | Ended) -> None:
            nonlocal out, ended
            if isinstance(told, Output):
                out += told.data
            else:
                ended = told

        await self.sandbox.run(
            argv,
            cwd="/work" if has_root else self.decoys["SCRATCH"],
            environment=self.decoys,
            stdin=b"",
            timeout_s=timeout_s,
            hear=hear,
        )
        return out, ended

    without: frozenset[Wall] = frozenset()


Attempt = Callable[[Try], Awaitable[bool]]


@dataclass(frozen=True)
class Probe:
    """One try to get out.

    Args:
        walls: what must stop it; away in the control.
        tight: limits that it meets; loose: those of them that are wider in the control, where a limit must stop it.
        needs_root: its decoy can only be set up by root.
        counted: whether cgroups may hold it; with False rlimits alone do.
    """

    name: str
    attempt: Attempt
    walls: frozenset[Wall] = frozenset()
    tight: Mapping[str, Any] = field(default_factory=dict)
    loose: Mapping[str, Any] = field(default_factory=dict)
    needs_root: bool = False
    counted: bool = True

    @property
    def stopped_by(self) -> str:
        return ", ".join([*sorted(self.walls), *(f"limit of {name}" for name in self.loose)])

    def limits(self, *, is_control: bool) -> Limits:
        return replace(TIGHT, **{**self.tight, **(self.loose if is_control else {})})


def script(code: str, timeout_s: float = 20) -> Attempt:
    """Python in the sandbox that says so when it got through."""

    async def attempt(tried: Try) -> bool:
        out, _ = await tried.run([PYTHON, "-c", PRELUDE + code], timeout_s)
        return THROUGH in out

    return attempt


def shell(code: str) -> Attempt:
    async def attempt(tried: Try) -> bool:
        out, _ = await tried.run(["/bin/sh", "-c", code])
        return THROUGH in out

    return attempt


def by_host(do: Callable[[Try], Awaitable[bool]]) -> Attempt:
    """A try through what the host offers: an error of ours is a refusal."""

    async def attempt(tried: Try) -> bool:
        try:
            return await do(tried)
        except SandboxError:
            return False

    return attempt


async def _read_secret(tried: Try, path: str) -> bool:
    data, _ = await tried.sandbox.read(path, offset=0, most_bytes=100)
    return tried.decoys["WORD"].encode() in data


@by_host
async def read_through_link(tried: Try) -> bool:
    place = f"{'/work' if Wall.ROOT not in tried.without else tried.decoys['SCRATCH']}/way"
    await tried.run(["/bin/sh", "-c", f'ln -sf "$SECRET" {place}'])
    return await _read_secret(tried, place)


@by_host
async def read_upwards(tried: Try) -> bool:
    return await _read_secret(tried, f"/tmp/../../../..{tried.decoys['SECRET']}")


async def _has_written(tried: Try, path: str) -> bool:
    """Whether what is written to a path comes out on the machine."""
    target = Path(tried.decoys["OPEN"], "written")
    target.unlink(missing_ok=True)
    try:
        await tried.sandbox.write(path, b"x", mode=0o644, makes_parents=True)
        return target.exists()
    finally:
        target.unlink(missing_ok=True)


@by_host
async def write_through_link(tried: Try) -> bool:
    place = f"{'/work' if Wall.ROOT not in tried.without else tried.decoys['SCRATCH']}/out"
    await tried.run(["/bin/sh", "-c", f'ln -sfn "$OPEN" {place}'])
    return await _has_written(tried, f"{place}/written")


@by_host
async def write_upwards(tried: Try) -> bool:
    return await _has_written(tried, f"/tmp/../../../..{tried.decoys['OPEN']}/written")


@by_host
async def read_kernels_file(tried: Try) -> bool:
    data, _ = await tried.sandbox.read("/proc/self/environ", offset=0, most_bytes=100_000)
    return tried.decoys["WORD"].encode() in data


async def unpack_archive(tried: Try) -> bool:
    target = Path(tried.decoys["OPEN"], "unpacked")
    target.unlink(missing_ok=True)
    await tried.run([PYTHON, "-c", PRELUDE + """
import io, tarfile
with tarfile.open("evil.tar", "w") as archive:
    link = tarfile.TarInfo("way"); link.type = tarfile.SYMTYPE; link.linkname = E["OPEN"]; archive.addfile(link)
    archive.addfile(tarfile.TarInfo("way/unpacked"), io.BytesIO(b""))
os.execvp("tar", ["tar", "-P", "--keep-directory-symlink", "-xf", "evil.tar"])
"""])  # fmt: skip
    try:
        return target.exists()
    finally:
        target.unlink(missing_ok=True)


async def kill_agent(tried: Try) -> bool:
    """Whoever ends pid 1 ends what collects the dead and tells the host."""
    try:
        await tried.run([PYTHON, "-c", PRELUDE + "os.kill(os.getppid(), signal.SIGKILL); time.sleep(0.3)"])
        await tried.run(["/bin/true"])
    except SandboxError:
        return True
    return False


async def outlive_sandbox(tried: Try) -> bool:
    name = b"sleep\x003.1415\0"
    await tried.run(["/bin/sh", "-c", "setsid sleep 3.1415 >/dev/null 2>&1 & sleep 0.2"])
    await tried.sandbox.destroy()
    left = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes() == name:
                    left.append(int(entry.name))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return bool(left)


async def take_longer(tried: Try) -> bool:
    code = f"trap '' TERM INT HUP; sleep 0.7; echo {THROUGH.decode()}"
    out, _ = await tried.run(["/bin/sh", "-c", code], timeout_s=10 if tried.is_control else 0.2)
    return THROUGH in out


async def flood_output(tried: Try) -> bool:
    out, _ = await tried.run(["/usr/bin/head", "-c", str(3 * MIB), "/dev/zero"])
    return len(out) > 2 * MIB


FORK_200 = """
pids = []
try:
    for _ in range(200):
        pids.append(sleeper())
    through()
finally:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
"""
TAKE_300_MB = f"""
held = bytearray()
for _ in range(300):
    held += b"x" * {MIB}
through()
"""
SPEAK_TCP = """
with socket.create_connection((E["{host}"], int(E["PORT"])), 2) as s:
    assert s.recv(100).decode() == E["WORD"]
through()
"""
ALLOWED_BYTES: Final = 100_000
ASK_PROXY: Final = """
def ask(place, first=None):
    s = socket.create_connection(("127.0.0.1", 3128), 5)
    s.sendall(first or f"CONNECT {place} HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n".encode())
    heard = b""
    while part := s.recv(65536):
        heard += part
    return heard
"""
"""All that comes of a connection through the proxy, its own answer first."""


def by_proxy(*places: str, allow: Sequence[str] = ("allowed.test:443",), also: str = "") -> dict[str, Any]:
    """A try to hear the word at one of these places; in the control the last of them is listed too, or `also`."""
    code = ASK_PROXY + f"any(E['WORD'].encode() in ask(place) for place in {places!r}) and through()"
    return {
        "attempt": code,
        "tight": {"allow": tuple(allow)},
        "loose": {"allow": (*allow, also or places[-1])},
        "needs_root": True,
    }


SMUGGLE: Final = (
    ASK_PROXY
    + """
firsts = [
    "CONNECT allowed.test:443@other.test:443 HTTP/1.1",
    "CONNECT other.test:443 HTTP/1.1\\r\\nHost: allowed.test:443",
    "CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: other.test:443\\r\\n\\r\\nCONNECT other.test:443 HTTP/1.1",
    "CONNECT allowed.test:443\\rCONNECT other.test:443 HTTP/1.1",
    "CONNECT allowed.test:443\\nCONNECT other.test:443 HTTP/1.1",
    "\\r\\nCONNECT other.test:443 HTTP/1.1",
    "connect other.test:443 HTTP/1.1",
    "CONNECT other.test:443#allowed.test:443 HTTP/1.1",
    "CONNECT other.test:443/allowed.test:443 HTTP/1.1",
    "CONNECT allowed.test:443\\0.other.test:443 HTTP/1.1",
    "CONNECT other.test.:443 HTTP/1.1",
    "CONNECT OTHER.TEST:443 HTTP/1.1",
    "CONNECT other.test:0443 HTTP/1.1",
    "CONNECT 1572394767:443 HTTP/1.1",
    "CONNECT 0x5db8d70f:443 HTTP/1.1",
    "CONNECT 0135.0270.0327.017:443 HTTP/1.1",
    "CONNECT [::ffff:93.184.215.15]:443 HTTP/1.1",
    "CONNECT https://other.test:443 HTTP/1.1",
    "GET http://other.test:443/ HTTP/1.1",
    "GET https://other.test/ HTTP/1.1",
    "POST http://other.test:443/ HTTP/1.1\\r\\nContent-Length: 0",
    "CONNECT other.test:443 HTTP/2.0",
    "CONNECT  other.test:443 HTTP/1.1",
    "CONNECT other.test:443\\tHTTP/1.1",
]
any(E["WORD"].encode() in ask("", f"{first}\\r\\n\\r\\n".encode()) for first in firsts) and through()
"""
)
FILL_CONNECTIONS: Final = """
held = []
for _ in range(8):
    s = socket.create_connection(("127.0.0.1", 3128), 5)
    held.append(s)
time.sleep(0.2)
for s in held:
    s.sendall(b"CONNECT allowed.test:443 HTTP/1.1\\r\\n\\r\\n")
all(s.recv(100).startswith(b"HTTP/1.1 200") for s in held) and through()
"""
OLD = frozenset({Wall.USER, Wall.CAPABILITIES, Wall.FILTER, Wall.LANDLOCK})
"""Away from what only root may do: then it is root."""


def _probe(name: str, attempt: Attempt | str, *walls: Wall, **rest: Any) -> Probe:
    return Probe(name, script(attempt) if isinstance(attempt, str) else attempt, frozenset(walls), **rest)


PROBES: Final = (
    # the machine's files
    _probe("read a file of the machine", 'open(E["SECRET"]).read() == E["WORD"] and through()', Wall.ROOT),
    _probe("list a directory of the machine", 'os.listdir(E["OPEN"]); through()', Wall.ROOT),
    _probe(
        "write a file of the machine", 'open(E["OPEN"] + "/w", "w"); os.unlink(E["OPEN"] + "/w"); through()', Wall.ROOT
    ),
    _probe(
        "hard-link a file of the machine",
        'os.link(E["SECRET"], E["OPEN"] + "/l"); os.unlink(E["OPEN"] + "/l"); through()',
        Wall.ROOT,
    ),
    _probe("open a device of the machine", 'os.open(E["DEVICE"], os.O_RDWR); through()', Wall.ROOT, needs_root=True),
    _probe("speak to the database's socket", 'socket.socket(socket.AF_UNIX).connect(E["UNIX"]); through()', Wall.ROOT),
    _probe("read through a link, by the host", read_through_link, Wall.ROOT),
    _probe("read by .., by the host", read_upwards, Wall.ROOT),
    _probe("write through a link, by the host", write_through_link, Wall.ROOT),
    _probe("write by .., by the host", write_upwards, Wall.ROOT),
    _probe("unpack an archive through a link", unpack_archive, Wall.ROOT),
    _probe(
        "use a descriptor left open",
        'os.pread(int(E["LEAKED_FILE"]), 100, 0).decode() == E["WORD"] and through()',
        Wall.DESCRIPTORS,
    ),
    _probe(
        "leave by a directory left open",
        'os.open("secret", 0, dir_fd=int(E["LEAKED_DIRECTORY"])); through()',
        Wall.DESCRIPTORS,
        Wall.LANDLOCK,
    ),
    # the machine's processes
    _probe("read the environment of its starter", 'E["HOSTS_WORD"] == E["WORD"] and through()', Wall.ENVIRONMENT),
    _probe(
        "read the environment of another process",
        'E["WORD"] in open(f"/proc/{E[\'PROCESS\']}/environ").read() and through()',
        Wall.PROCESSES,
        Wall.USER,
        Wall.LANDLOCK,
        needs_root=True,
    ),
    _probe(
        "see another process", '"decoy" in open(f"/proc/{E[\'PROCESS\']}/cmdline").read() and through()', Wall.PROCESSES
    ),
    _probe("signal a process of the machine", 'os.kill(int(E["PROCESS"]), signal.SIGUSR1); through()', Wall.PROCESSES),
    _probe("end the agent", kill_agent, Wall.PROCESSES),
    _probe("outlive its sandbox", outlive_sandbox, Wall.PROCESSES, counted=False),
    _probe("read the agent's memory", 'open(f"/proc/{os.getppid()}/mem", "rb"); through()', Wall.SEALED_AGENT),
    _probe(
        "read the agent's environment",
        'E["WORD"] in open(f"/proc/{os.getppid()}/environ").read() and through()',
        Wall.SEALED_AGENT,
    ),
    _probe("see the agent's descriptors", 'os.listdir(f"/proc/{os.getppid()}/fd"); through()', Wall.SEALED_AGENT),
    _probe("trace the agent", 'call("ptrace", 0x4206, os.getppid(), 0, 0); through()', Wall.FILTER, Wall.SEALED_AGENT),
    _probe(
        "starve the agent of descriptors",
        'call("prlimit64", os.getppid(), resource.RLIMIT_NOFILE, 0, ctypes.create_string_buffer(16)); through()',
        Wall.FILTER,
    ),
    _probe(
        "leave zombies behind",
        """
for _ in range(50):
    if not os.fork():
        if not os.fork():
            os._exit(0)
        os._exit(0)
    os.wait()
def zombies():
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
            except OSError:
                continue
            count += state[0] == "Z" and int(state[1]) == os.getppid()
    return count
end = time.monotonic() + 2
while (left := zombies()) and time.monotonic() < end and left < 50:
    time.sleep(0.02)
if left >= 50:
    through()
""",
        Wall.REAPING,
        loose={"processes": 200},
    ),
    # the network
    _probe("reach a server on the machine's loopback", SPEAK_TCP.format(host="LOOPBACK"), Wall.NETWORK),
    _probe("reach it by IPv6", SPEAK_TCP.format(host="LOOPBACK6"), Wall.NETWORK),
    _probe("reach the cloud's metadata address", SPEAK_TCP.format(host="METADATA"), Wall.NETWORK, needs_root=True),
    _probe(
        "ask by UDP",
        """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.sendto(b"?", (E["LOOPBACK"], int(E["UDP_PORT"])))
s.recv(100).decode() == E["WORD"] and through()
""",
        Wall.NETWORK,
    ),
    _probe(
        "speak to an abstract socket",
        'socket.socket(socket.AF_UNIX).connect("\\0" + E["ABSTRACT"]); through()',
        Wall.NETWORK,
    ),
    _probe(
        "read the machine's connections",
        """
f"{int(E['PORT']):04X}" in open("/proc/net/tcp").read() and through()
""",
        Wall.NETWORK,
    ),
    # the way out
    _probe("reach another host", **by_proxy("other.test:443")),
    _probe("reach another port", **by_proxy("allowed.test:80")),
    _probe("reach a host by its address", **by_proxy("93.184.215.15:443")),
    _probe("reach an allowed host's other name for the machine", **by_proxy("localhost:443", "127.0.0.1:443")),
    _probe("reach the metadata address by the proxy", **by_proxy(f"{METADATA}:443")),
    _probe("reach it in IPv6's clothes", **by_proxy(f"[::ffff:{METADATA}]:443", also=f"[::ffff:{METADATA}]:443")),
    _probe(
        "reach the machine by a name that leads inside",
        **by_proxy("inside.test:443", "127.0.0.1:443", allow=["inside.test:443"]),
    ),
    _probe(
        "reach the metadata address by a name",
        **by_proxy("metadata.test:443", f"{METADATA}:443", allow=["metadata.test:443"]),
    ),
    _probe("smuggle a second address past the list", **{**by_proxy("other.test:443"), "attempt": SMUGGLE}),
    _probe(
        "ask a name server beside the proxy",
        """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.sendto(b"?", (E["LOOPBACK"], int(E["UDP_PORT"])))
s.recv(100).decode() == E["WORD"] and through()
""",
        Wall.NETWORK,
        tight={"allow": ("allowed.test:443",)},
    ),
    _probe(
        "resolve a name of the machine's",
        'socket.gethostbyname("inside.test") and through()',
        Wall.ROOT,
        tight={"allow": ("inside.test:443",)},
        needs_root=True,
    ),
    _probe(
        "carry off more than its bytes",
        ASK_PROXY + f'len(ask("allowed.test:443")) > 2 * {ALLOWED_BYTES} and through()',
        tight={"allow": ("allowed.test:443",), "network_bytes": ALLOWED_BYTES},
        loose={"network_bytes": 8 * ALLOWED_BYTES},
        needs_root=True,
    ),
    _probe(
        "hold more connections than it may",
        FILL_CONNECTIONS,
        tight={"allow": ("allowed.test:443",), "connections": 4},
        loose={"connections": 16},
        needs_root=True,
    ),
    _probe("open a socket to the hypervisor", "socket.socket(40, socket.SOCK_STREAM); through()", Wall.FILTER),
    # what processes share
    _probe(
        "attach the machine's shared memory",
        """
libc.shmat.restype = ctypes.c_void_p
at = libc.shmat(int(E["SHARED"]), None, 0o10000)
ctypes.string_at(at, len(E["WORD"])).decode() == E["WORD"] and through()
""",
        Wall.IPC,
    ),
    _probe(
        "open the machine's message queue",
        """
libc.mq_open.argtypes = [ctypes.c_char_p, ctypes.c_int]
libc.mq_open(E["QUEUE"].encode(), os.O_RDONLY) >= 0 and through()
""",
        Wall.IPC,
        Wall.LANDLOCK,
    ),
    _probe("learn the machine's name", 'socket.gethostname() == E["NAME"] and through()', Wall.NAME),
    _probe("learn its group", '"tentalis" in open("/proc/self/cgroup").read() and through()', Wall.CGROUP),
    # more rights
    _probe("unshare into a user namespace", 'call("unshare", 0x10000000); through()', Wall.FILTER, Wall.NO_NESTING),
    _probe(
        "clone into a user namespace",
        """
pid = call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
if not pid:
    os._exit(0)
through()
""",
        Wall.FILTER,
        Wall.NO_NESTING,
    ),
    _probe(
        "clone3 into a user namespace",
        """
pid = call("clone3", struct.pack("8Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64)
if not pid:
    os._exit(0)
through()
""",
        Wall.FILTER,
        Wall.NO_NESTING,
    ),
    _probe(
        "run a setuid program",
        '"euid=0" in os.popen("./setuid-id").read() and through()',
        Wall.USER,
        Wall.NO_SETUID,
        Wall.NO_NEW_PRIVILEGES,
        needs_root=True,
    ),
    _probe("mount", 'call("mount", b"none", b"/mnt", b"tmpfs", 0, 0); through()', *OLD, needs_root=True),
    _probe(
        "unmount what hides the kernel's keys", 'call("umount2", b"/proc/keys", 2); through()', *OLD, needs_root=True
    ),
    _probe("make a file system", 'call("fsopen", b"tmpfs", 0); through()', *(OLD - {Wall.LANDLOCK}), needs_root=True),
    _probe("change the root", 'os.chroot("/tmp"); through()', *(OLD - {Wall.LANDLOCK}), needs_root=True),
    _probe(
        "make a device",
        'os.mknod("/tmp/node", 0o20666, os.makedev(1, 3)); through()',
        Wall.USER,
        Wall.CAPABILITIES,
        needs_root=True,
    ),
    _probe("rename the machine", 'socket.sethostname("owned"); through()', *(OLD - {Wall.LANDLOCK}), needs_root=True),
    # the clock's tick, written as it was read
    _probe(
        "set the clock",
        """
t = (ctypes.c_long * 64)()
call("adjtimex", t)
at = 11 if struct.calcsize("l") == 8 else 0
ctypes.memset(t, 0, 4)
ctypes.cast(t, ctypes.POINTER(ctypes.c_uint))[0] = 0x4000
call("adjtimex", t)
through()
""",
        Wall.USER,
        Wall.CAPABILITIES,
        needs_root=True,
    ),
    _probe(
        "run before everybody else",
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); through()",
        Wall.USER,
        Wall.CAPABILITIES,
        needs_root=True,
    ),
    _probe("read the kernel's log", 'call("syslog", 10, 0, 0); through()', *(OLD - {Wall.LANDLOCK}), needs_root=True),
    _probe(
        "load a program into the kernel",
        """
attributes = struct.pack("5I", 2, 4, 8, 1, 0).ljust(120, b"\\0")
call("bpf", 0, attributes, len(attributes)); through()
""",
        *(OLD - {Wall.LANDLOCK}),
        needs_root=True,
    ),
    # the kernel's odd corners
    _probe("trace a sibling", 'call("ptrace", 0x4206, sleeper(), 0, 0); through()', Wall.FILTER),
    _probe(
        "read a sibling's memory",
        """
word = ctypes.create_string_buffer(b"word")
into = ctypes.create_string_buffer(4)
local, remote = struct.pack("2N", ctypes.addressof(into), 4), struct.pack("2N", ctypes.addressof(word), 4)
call("process_vm_readv", sleeper(), local, 1, remote, 1, 0)
into.raw == b"word" and through()
""",
        Wall.FILTER,
    ),
    _probe("use the kernel's keyring", 'call("keyctl", 0, -3, 1); through()', Wall.FILTER),
    _probe("set up an io_uring", 'call("io_uring_setup", 1, ctypes.create_string_buffer(120)); through()', Wall.FILTER),
    _probe("handle page faults", 'call("userfaultfd", 1); through()', Wall.FILTER),
    _probe(
        "count the processor's events",
        """
attributes = struct.pack("IIQQQQQ", 1, 128, 0, 0, 0, 0, 0x61).ljust(128, b"\\0")
call("perf_event_open", attributes, 0, -1, -1, 0); through()
""",
        Wall.FILTER,
    ),
    _probe("lay out its memory as before", 'call("personality", 0x0040000); through()', Wall.FILTER),
    _probe(
        "compare processes in the kernel", 'call("kcmp", os.getpid(), os.getpid(), 0, 0, 1); through()', Wall.FILTER
    ),
    _probe(
        "name a file past its path",
        """
handle = struct.pack("Ii", 128, 0).ljust(136, b"\\0")
call("name_to_handle_at", -100, b"/usr/bin", handle, ctypes.create_string_buffer(8), 0); through()
""",
        Wall.FILTER,
    ),
    _probe(
        "type into a terminal",
        """
master, slave = os.openpty()
os.setsid() if os.getsid(0) != os.getpid() else None
fcntl.ioctl(slave, 0x540E, 0)
fcntl.ioctl(slave, 0x5412, b"x")
through()
""",
        Wall.FILTER,
    ),
    _probe(
        "type into a terminal by another number for it",
        """
master, slave = os.openpty()
fcntl.ioctl(slave, 0x540E, 0)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
libc.ioctl(slave, 0x100005412, b"x") == 0 and through()
""",
        Wall.FILTER,
    ),
    # too much of everything
    _probe("fork a bomb", FORK_200, loose={"processes": 400}),
    _probe("fork a bomb where no cgroup counts", FORK_200, loose={"processes": 400}, counted=False),
    _probe("take all memory", TAKE_300_MB, loose={"memory_bytes": 512 * MIB}),
    _probe("take all memory where no cgroup counts", TAKE_300_MB, loose={"memory_bytes": 512 * MIB}, counted=False),
    _probe("fill the disk", f'open("big", "wb").write(bytes(24 * {MIB})); through()', loose={"disk_bytes": 64 * MIB}),
    _probe(
        "fill memory by shared files",
        f'open("/dev/shm/big", "wb").write(bytes(24 * {MIB})); through()',
        loose={"disk_bytes": 64 * MIB},
    ),
    _probe(
        "take all inodes", 'any(open(f"f{i}", "w").close() for i in range(2000)); through()', loose={"files": 20_000}
    ),
    _probe("open everything", "fds = [os.open('/dev/null', 0) for _ in range(2000)]; through()", Wall.RESOURCES),
    _probe("lock memory", f"libc.mlock(ctypes.create_string_buffer({MIB}), {MIB}) == 0 and through()", Wall.RESOURCES),
    _probe("flood whoever reads", flood_output, loose={"output_bytes": 8 * MIB}),
    _probe("take for ever, deaf to SIGTERM", take_longer, loose={"lifetime_s": 1_801}),
)


def applicable() -> list[Probe]:
    """Those that can be tried as whoever we are."""
    return [probe for probe in PROBES if os.geteuid() == 0 or not probe.needs_root]
