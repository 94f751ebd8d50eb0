"""The host as a process: what it knows, what it leaves, and what becomes of those who ask when it dies."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tentalis.platform.processes import process_identity, wait_until_gone
from tentalis.sandbox.client import HOST_ENVIRONMENT, SandboxClient, start_host
from tentalis.sandbox.errors import SandboxLostError, SandboxUnavailableError
from tentalis.sandbox.limits import Limits
from tentalis.sandbox.prepared import OFTEN, Prepared
from tentalis.sandbox.store import Image
from tests.sandbox.images import make_image
from tests.sandbox.probes import PYTHON

PLAIN_USER = 61_000  # as good as anybody


MAKE_OUTLIVING = """
import ctypes
library = ctypes.CDLL(None, use_errno=True)
made = library.shmget(0, 4096, 0o1600), library.semget(0, 1, 0o1600), library.msgget(0, 0o1600)
print("refused", [number < 0 for number in made], end=" ")
"""


def children_of(pid: int) -> list[int]:
    """All of them, near and far."""
    found, todo = [], [pid]
    while todo:
        with suppress(OSError):  # one that has just ended has none
            for task in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
                near = [int(word) for word in task.read_text().split()]
                found += near
                todo += near
    return found


def told_of(pid: int, name: str) -> bytes:
    """A file of a process in /proc; nothing where it has ended since it was listed."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def groups_of(directory: Path) -> list[Path]:
    return [Path(line) for line in (directory / "store.cgroups").read_text().splitlines()]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return make_image(tmp_path / "image")


def test_it_is_told_a_few_names_of_its_starters_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENTALIS_SECRET_KEY", "a secret")
    monkeypatch.setenv("TENTALIS_DATABASE_URL", "postgres://somewhere")
    with start_host(tmp_path / "host") as process:
        for pid in (process.pid, *children_of(process.pid)):
            text = told_of(pid, "environ").decode()
            assert {line.split("=")[0] for line in text.split("\0") if line} <= set(HOST_ENVIRONMENT)
        assert "psycopg" not in Path(f"/proc/{process.pid}/maps").read_text()


def test_only_its_own_user_may_ask_it(tmp_path: Path) -> None:
    with start_host(tmp_path / "host"):
        assert (tmp_path / "host/host.sock").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "host").stat().st_mode & 0o777 == 0o700


def test_two_hosts_do_not_share_a_directory(tmp_path: Path) -> None:
    second = start_host(tmp_path / "host")
    with start_host(tmp_path / "host"), pytest.raises(SandboxUnavailableError, match="another sandbox host works here"):
        second.__enter__()


def test_an_image_is_laid_out_in_the_hosts_own_directory_and_leaves_nothing_there(tmp_path: Path) -> None:
    with start_host(tmp_path / "host"):
        client = SandboxClient(tmp_path / "host")
        with client.stage() as root:
            assert (tmp_path / "host") in root.parents
            (root / "work").mkdir()
            (root / "work/hello").write_text("staged\n")
            image = client.add_image(root)
        assert list(root.parent.iterdir()) == []
        assert client.read(client.create(image), "hello") == b"staged\n"
        client.close()


def test_a_host_that_starts_clears_away_what_was_being_laid_out_which_is_told_as_lost(tmp_path: Path) -> None:
    with start_host(tmp_path / "host"):
        client = SandboxClient(tmp_path / "host")
    with pytest.raises(SandboxLostError, match="the host was started again"), client.stage() as root:
        (root / "half").write_text("")
        with start_host(tmp_path / "host"):
            assert not root.exists()
            (root / "other half").write_text("")


def test_a_fault_of_who_lays_an_image_out_is_their_own(tmp_path: Path) -> None:
    with start_host(tmp_path / "host"):
        client = SandboxClient(tmp_path / "host")
        with pytest.raises(FileNotFoundError, match="nowhere"), client.stage() as root:
            (root / "nowhere/file").write_text("")


def wait_for_warm(client: SandboxClient, count: int) -> None:
    while client.describe()["warm"] < count:
        time.sleep(0.01)


def wait_until_heard(pid: int, count: int) -> None:
    """Who has ended stands among the children until the zygote has heard of it, a little after the host has."""
    while len(children_of(pid)) > count:
        time.sleep(0.01)


def test_it_keeps_processes_ready_and_uses_each_once(tmp_path: Path, image: Path) -> None:
    with start_host(tmp_path / "host", warm=2) as process:
        client = SandboxClient(tmp_path / "host")
        kept = client.add_image(image)
        wait_for_warm(client, 2)
        ready = set(children_of(process.pid))
        first = client.create(kept)
        client.write(first, "hello", b"mine")
        wait_for_warm(client, 2)
        assert len(set(children_of(process.pid)) - ready) == 1  # the first was one of them, and has been replaced
        second = client.create(kept)
        assert client.read(second, "hello") == b"hello\n"
        client.close()


def test_what_is_asked_for_again_and_again_is_made_beforehand_and_ends_with_its_image(
    tmp_path: Path, image: Path
) -> None:
    with start_host(tmp_path / "host", warm=2) as process:
        client = SandboxClient(tmp_path / "host")
        kept = client.add_image(image)
        for number in range(OFTEN + 1):  # the last one is there already, and so is its shell
            assert client.describe()["prepared"] == int(number == OFTEN)
            sandbox = client.create(kept, limits={"lifetime_s": 600}, opens_shell=True)
            assert client.read(sandbox, "hello") == b"hello\n"
            client.write(sandbox, "hello", b"mine")
            if number < OFTEN:
                client.destroy(sandbox)
            while number == OFTEN - 1 and not client.describe()["prepared"]:
                time.sleep(0.01)
        assert client.ask_shell(sandbox, "echo $0; cat hello").out.endswith(b"mine")
        assert client.stats(sandbox)["commands"] == 1
        while not client.describe()["prepared"]:
            time.sleep(0.01)
        client.destroy(sandbox)
        client.drop_image(kept)
        assert client.describe()["prepared"] == 0
        wait_for_warm(client, 2)
        wait_until_heard(process.pid, 1 + 2)  # the zygote, and those that are ready for any image
        assert len(children_of(process.pid)) == 1 + 2
        client.close()


class Counted:
    """As much of a sandbox as is asked while nobody has it."""

    def __init__(self, name: str) -> None:
        self.name, self.is_over, self.ended, self.made_at = name, False, False, 0.0

    async def destroy(self) -> None:
        self.ended = True


async def test_of_what_is_made_beforehand_there_are_no_more_than_wanted_and_the_oldest_goes() -> None:
    made: list[Counted] = []
    handed: list[Counted] = []

    async def make(image: Image, limits: Limits, shell: str) -> Any:
        made.append(Counted(image.id))
        return made[-1]

    prepared: Prepared[Any] = Prepared(make, 2)
    one, other = Image("one", ("layers/0",), False), Image("other", ("layers/1",), False)

    async def ask(image: Image) -> Any:
        found = prepared.take(image, Limits(), "")
        handed.extend(filter(None, [found]))
        await asyncio.sleep(0)
        return found

    assert [await ask(one) for _ in range(OFTEN)] == [None] * OFTEN
    assert prepared.take(one, Limits(memory_bytes=2**24), "") is None  # of other limits it is another
    assert prepared.take(one, Limits(), "main") is None
    assert (await ask(one)).name == "one"
    made[-1].is_over = True  # it dies while it waits
    assert await ask(one) is None
    assert made[-2].ended
    assert [await ask(other) for _ in range(OFTEN + 1)].count(None) == OFTEN
    await ask(other)
    assert prepared.ready == 2
    assert (await ask(one)).made_at > 0
    await prepared.drop(["layers/1"])
    assert [one.ended for one in made if one.name == "other"].count(True) == 1
    await prepared.drop()
    assert prepared.ready == 0
    assert not any(one.ended for one in handed), "those are ended by who has them"


def test_when_it_is_stopped_nothing_is_left(tmp_path: Path, image: Path) -> None:
    directory = tmp_path / "host"
    with start_host(directory) as process:
        client = SandboxClient(directory)
        kept = client.add_image(image)
        for number in range(5):
            sandbox = client.create(kept, sandbox=f"s{number}")
            client.ask_shell(sandbox, "sleep 1000 &")
        client.snapshot("s0", image="snapshot")
        client.fork("s1", to="fork")
        groups = groups_of(directory)
        pids = children_of(process.pid)
        assert len(pids) > 10
        identities = [process_identity(pid) for pid in pids]
        client.close()
    assert not any(process_identity(int(one.partition(":")[0])) == one for one in identities if one)
    assert not any(group.exists() for group in groups)
    assert list((directory / "store").iterdir()) == []
    assert not (directory / "host.sock").exists()


def test_who_asks_a_host_that_dies_is_told_that_it_was_lost_and_the_next_host_clears_up(
    tmp_path: Path, image: Path
) -> None:
    directory = tmp_path / "host"
    found: list[Exception] = []
    with start_host(directory) as process:
        client = SandboxClient(directory)
        sandbox = client.create(client.add_image(image))
        running = [process_identity(pid) for pid in children_of(process.pid)]

        def ask() -> None:
            try:
                client.run(sandbox, ["/bin/sh", "-c", "echo here; sleep 1000"], on_output=lambda *_: process.kill())
            except SandboxLostError as error:
                found.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(60)
        process.wait(120)
        assert len(found) == 1
        for identity in running:
            assert wait_until_gone(identity, timeout_s=120)
        client.close()
        groups = groups_of(directory)
    with start_host(directory):
        client = SandboxClient(directory)
        left = client.describe()["left"]
        assert left["layers"] == 1
        assert left["sandboxes"] >= len(groups)  # the one that ran, and those that were ready
        assert client.describe()["sandboxes"] == 0
        client.close()


def test_it_ends_with_what_started_it(tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from tentalis.sandbox.client import start_host
with start_host(Path({str(tmp_path / "host")!r})) as process:
    print(process.pid, flush=True)
    time.sleep(1000)
"""
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    identity = process_identity(int(starter.stdout.readline()))
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    assert wait_until_gone(identity, timeout_s=120)


def test_many_episodes_leave_nothing(tmp_path: Path, image: Path) -> None:
    directory = tmp_path / "host"
    with start_host(directory, warm=1) as process:
        client = SandboxClient(directory)
        kept = client.add_image(image)
        for number in range(30):
            sandbox = client.create(kept)
            client.ask_shell(sandbox, f"echo {number} > hello; sleep 1000 &")
            if not number % 10:
                fork = client.fork(sandbox)
                client.destroy(fork)
            client.destroy(sandbox)
        client.drop_image(kept)
        wait_for_warm(client, 1)
        wait_until_heard(process.pid, 1 + 1)  # the zygote, and who is ready
        assert len(children_of(process.pid)) == 1 + 1
        assert [sum(entry.is_dir() for entry in group.iterdir()) for group in groups_of(directory)] in ([], [1], [1, 1])
        assert list((directory / "store/layers").iterdir()) == []
        assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 30
        client.close()


def test_a_sandbox_that_is_gone_is_lost_and_says_nothing_of_who_worked_in_it(tmp_path: Path, image: Path) -> None:
    with start_host(tmp_path / "host", warm=0) as process:
        client = SandboxClient(tmp_path / "host")
        sandbox = client.create(client.add_image(image))
        before = set(children_of(process.pid))
        zygote = min(before)
        first = next(iter(before - {zygote}))
        os.kill(first, signal.SIGKILL)
        with pytest.raises(SandboxLostError):
            client.run(sandbox, ["/bin/true"])
        with pytest.raises(SandboxLostError):
            client.create(client.add_image(image), sandbox=sandbox)
        client.close()


def without_libseccomp(*options: str) -> list[str]:
    """The command of a host that cannot confine, because what it calls is not there."""
    script = "import ctypes, sys\nold = ctypes.CDLL\n"
    script += "def absent(name, *a, **k):\n"
    script += "    if name and 'seccomp' in name: raise OSError(name)\n    return old(name, *a, **k)\n"
    script += "ctypes.CDLL = absent\nfrom tentalis.sandbox.__main__ import main\n"
    return [sys.executable, "-c", f"{script}sys.exit(main({list(options)!r}))"]


LACKS = "wanted libseccomp.so.2 (Debian: libseccomp2), found none"


def test_a_host_that_cannot_confine_says_why_and_runs_nothing(tmp_path: Path) -> None:
    argv = without_libseccomp("--directory", str(tmp_path / "host"))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{LACKS}\n")


def test_one_that_is_to_stay_says_so_to_whoever_asks(tmp_path: Path, image: Path) -> None:
    argv = without_libseccomp("--directory", str(tmp_path / "host"), "--stays")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            client = SandboxClient(tmp_path / "host")
            for ask in (client.describe, partial(client.add_image, image)):
                with pytest.raises(SandboxUnavailableError, match=re.escape(LACKS)):
                    ask()
            client.close()
        finally:
            process.terminate()
    assert process.returncode == 0
    assert not (tmp_path / "host/host.sock").exists()


def test_threads_ask_side_by_side(tmp_path: Path, image: Path) -> None:
    with start_host(tmp_path / "host"):
        client = SandboxClient(tmp_path / "host")
        sandbox = client.create(client.add_image(image))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.run, sandbox, ["/bin/sh", "-c", "until [ -e /tmp/go ]; do sleep .01; done"])
            client.write(sandbox, "/tmp/go", b"")
            assert waiting.result(60).code == 0
        client.close()


def test_who_asked_a_host_that_died_goes_on_with_the_next_one(tmp_path: Path, image: Path) -> None:
    with start_host(tmp_path / "host") as process:
        client = SandboxClient(tmp_path / "host")
        sandbox = client.create(client.add_image(image))
        process.kill()
        process.wait(120)
        with pytest.raises(SandboxLostError):
            client.stats(sandbox)
    with start_host(tmp_path / "host"):
        assert client.describe()["sandboxes"] == 0
        client.close()


def test_whoever_is_not_root_has_sandboxes_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """In a process that gave its rights away: no cgroup is its own, so each process is limited by itself, and where the
    kernel takes no limits of an IPC namespace, nothing is made that nobody's end frees."""
    if os.geteuid():
        pytest.skip("the other tests show it")
    with tempfile.TemporaryDirectory(prefix="tentalis-plain-") as name:
        place = Path(name)
        make_image(place / "image")
        for path in (place, *place.rglob("*")):
            os.chown(path, PLAIN_USER, PLAIN_USER, follow_symlinks=False)
        script = f"""
import asyncio, concurrent.futures.thread, os, sys
from pathlib import Path
from tentalis.sandbox import kernel
from tentalis.sandbox.embedded import Embedded
from tentalis.sandbox.sandbox import Ended, Output
from tentalis.sandbox.limits import Limits
from tentalis.sandbox.store import Store
os.setgroups([])
os.setresgid(*[{PLAIN_USER}] * 3)
os.setresuid(*[{PLAIN_USER}] * 3)
kernel.set_open_to_own_user(True)  # as who was started as that user is
place = Path({name!r})
store = Store(place / "store", None); store.open()
backend = Embedded(store)
async def main():
    image = store.add_image(place / "image")
    sandbox = await backend.make(image, Limits(memory_bytes=64 * 2**20, processes=20, disk_bytes=4 * 2**20))
    script = "id -u; cat hello; echo more >> hello; ls /proc/1/fd; ls {name}; "
    script += "mkdir d; echo x > d/locked; chmod 0 d/locked d; "
    script += "head -c 100M /dev/zero | tail >/dev/null; for i in $(seq 40); do sleep 5 & done; wait"
    def hear(told):
        print(told.data.decode() if isinstance(told, Output) else f"code {{told.code}}", end="")
    await sandbox.run(
        ["/bin/sh", "-c", script], cwd="/work", environment={{}}, stdin=b"", timeout_s=20, hear=hear
    )
    async with sandbox.paused() as written:
        image = store.keep("s", written, image, most_bytes=2**20, most_entries=100)
    await sandbox.destroy()
    sandbox = await backend.make(image, Limits())
    await sandbox.run([{PYTHON!r}, "-c", {MAKE_OUTLIVING!r}], cwd="/work", environment={{}}, stdin=b"", timeout_s=20,
                      hear=hear)
    data, _ = await sandbox.read("hello", offset=0, most_bytes=100)
    await sandbox.run(
        ["/bin/sh", "-c", "stat -c %a d; chmod 700 d; stat -c %a d/locked"], cwd="/work", environment={{}}, stdin=b"",
        timeout_s=20, hear=hear,
    )
    print(data.decode(), backend.describe()["cgroups"])
    await sandbox.destroy()
asyncio.run(main())
backend.close()
"""
        done = subprocess.run(  # by a Python that everybody may start
            [PYTHON, "-c", script],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        words = done.stdout
    assert words.startswith("1000\nhello\n")
    assert "/proc/1/fd': Permission denied" in words
    assert f"'{name}': No such file" in words
    assert "memory exhausted" in words or "annot allocate" in words
    assert "fork" in words
    assert "refused [True, True, True] code 0" in words
    assert words.endswith("hello\nmore\n {}\n")


def test_hosts_whose_stores_have_one_number_on_two_disks_have_groups_of_their_own(tmp_path: Path) -> None:
    """The second would find the first one's sandboxes in its groups, and end them."""
    with start_host(tmp_path / "host"):
        found = (tmp_path / "host/store").stat()
        names = {group.name for group in groups_of(tmp_path / "host")}
        assert names <= {f"tentalis-sandboxes-{found.st_dev:x}-{found.st_ino}"}


def test_it_has_as_many_files_open_as_it_may(tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = tmp_path / "python"
    limited.write_text(f'#!/bin/sh\nulimit -S -n 64\nexec {sys.executable} "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(limited))
    with start_host(tmp_path / "host", warm=0):
        client = SandboxClient(tmp_path / "host")
        kept = client.add_image(image)
        assert len({client.create(kept) for _ in range(30)}) == 30
        client.close()


FILL = """
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)
library.shmat.restype = ctypes.c_void_p
for size in [40 * 2**20] + [2**20] * 30 + [2**16] * 100:
    number = library.shmget(0, size, 0o1600)
    child = os.fork()
    if not child:
        place = library.shmat(number, None, 0)
        ctypes.memset(place, 1, size)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="without root nothing of the kind is made")
def test_memory_that_nobody_is_attached_to_is_free_again(tmp_path: Path, image: Path) -> None:
    """Else who fills it and is ended for that leaves none, and the next to be ended is the agent that tells of it."""
    with start_host(tmp_path / "host"):
        client = SandboxClient(tmp_path / "host")
        sandbox = client.create(client.add_image(image), limits={"memory_bytes": 64 * 2**20})
        client.run(sandbox, [str(PYTHON), "-c", FILL])
        assert client.stats(sandbox).get("memory_bytes", 0) < 32 * 2**20
        assert client.run(sandbox, ["/bin/cat", "/proc/sys/kernel/msgmni"]).out == b"16\n"
        client.close()
