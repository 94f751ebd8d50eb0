"""The way out: what is on a sandbox's list is reached, and nothing else. `probes.py` tries to get past it."""

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tentalis.platform.processes import process_identity, wait_until_gone
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.errors import SandboxRefusedError
from tentalis.sandbox.proxy import LOG, MAX_LOG_BYTES, Log, RefusedError, find_addresses, read_asked, read_place
from tests.sandbox.conftest import find_options
from tests.sandbox.images import make_image
from tests.sandbox.probes import PYTHON
from tests.sandbox.test_host import children_of, told_of

ASK = """
import os, socket, sys
place = os.environ["https_proxy"].removeprefix("http://").partition(":")
with socket.create_connection((place[0], int(place[2])), 10) as s:
    s.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n".encode())
    heard = s.recv(1000)
    print(heard.decode().splitlines()[0])
    if heard.startswith(b"HTTP/1.1 200"):
        s.sendall(b"from inside")
        print(s.recv(1000).decode())
"""


@dataclass(frozen=True)
class Asked:
    """A host, an image in it, and a server of this machine that says what it hears."""

    client: SandboxClient
    directory: Path
    pid: int
    image: str
    server: str

    def ask(self, sandbox: str, place: str) -> list[str]:
        done = self.client.run(sandbox, [PYTHON, "-c", ASK, place])
        return done.out.decode().splitlines() or done.err.decode().splitlines()[-1:]

    def proxies(self) -> list[int]:
        return [pid for pid in children_of(self.pid) if b"sandbox.proxy" in told_of(pid, "cmdline")]

    def log(self, sandbox: str, count: int) -> list[dict[str, Any]]:
        """So many lines of a sandbox: each is written when its connection is over."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + 120
        while len(found) < count and time.monotonic() < deadline:
            lines = (self.directory / "network" / LOG).read_text().splitlines()
            found = [line for line in map(json.loads, lines) if line["sandbox"] == sandbox]
        return found


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    def answer(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"heard " + connection.recv(1000))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture(scope="module")
def asked(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    if not Path(PYTHON).exists():
        pytest.skip(f"who asks to be let out here is a program for {PYTHON}, and there is none")
    directory = tmp_path_factory.mktemp("host")
    with start_host(directory, warm=1) as process:
        client = SandboxClient(directory)
        image = client.add_image(make_image(tmp_path_factory.mktemp("image")))
        yield Asked(client, directory, process.pid, image, server)
        client.close()


def test_who_has_no_list_has_no_way_out(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image)
    assert b"proxy" not in asked.client.run(sandbox, ["/usr/bin/env"]).out
    connect = "import socket; socket.create_connection(('127.0.0.1', 3128))"
    assert b"ConnectionRefusedError" in asked.client.run(sandbox, [PYTHON, "-c", connect]).err
    asked.client.destroy(sandbox)


def test_what_is_listed_is_reached_and_nothing_else_and_both_are_written_down(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image, sandbox="mine", allow=[asked.server, "localhost:1"])
    port = asked.server.partition(":")[2]
    assert asked.ask(sandbox, asked.server) == ["HTTP/1.1 200 Connection established", "heard from inside"]
    (refused,) = asked.ask(sandbox, f"127.0.0.1:{int(port) - 1}")
    assert refused == f"HTTP/1.1 403 127.0.0.1:{int(port) - 1} is not on this sandbox's allow list"
    (inside,) = asked.ask(sandbox, "localhost:1")
    assert inside.endswith("403 localhost leads to no public address; a private one has to be listed by its address")
    first, second, third = asked.log("mine", 3)
    asked.client.destroy(sandbox)
    assert (first["status"], first["to"], first["up"], first["down"]) == (200, "127.0.0.1", 11, 17)
    assert (second["status"], third["status"]) == (403, 403)
    assert second["asked"].startswith("CONNECT 127.0.0.1:")


def test_a_fork_is_let_out_as_far_and_no_longer_than_it_lives(asked: Asked) -> None:
    sandbox = asked.client.create(asked.image, allow=[asked.server])
    fork = asked.client.fork(sandbox)
    asked.client.destroy(sandbox)
    assert asked.ask(fork, asked.server)[1:] == ["heard from inside"]
    asked.client.destroy(fork)


def test_nothing_of_a_sandbox_is_left_in_the_proxy(asked: Asked) -> None:
    if os.geteuid():
        pytest.skip("only root sees what another user's process holds")
    asked.client.destroy(asked.client.create(asked.image, allow=[asked.server]))
    (proxy,) = asked.proxies()

    def count() -> int:
        return len(list(Path(f"/proc/{proxy}/fd").iterdir()))

    before = count()
    for _ in range(5):
        sandbox = asked.client.create(asked.image, allow=[asked.server])
        asked.client.ask_shell(sandbox, "exec 5<>/dev/tcp/127.0.0.1/3128")  # and keeps it open
        asked.client.destroy(sandbox)
    deadline = time.monotonic() + 120
    while count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert count() <= before


def test_the_proxy_has_no_rights(asked: Asked) -> None:
    asked.client.destroy(asked.client.create(asked.image, allow=[asked.server]))
    (proxy,) = asked.proxies()
    told = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{proxy}/status").read_text().splitlines() if ":\t" in line
    )
    assert int(told["Uid"].split()[1]) != 0
    assert (int(told["CapEff"], 16), told["NoNewPrivs"], told["Seccomp"]) == (0, "1", "2")


def test_a_proxy_that_died_is_replaced(asked: Asked) -> None:
    asked.client.destroy(asked.client.create(asked.image, allow=[asked.server]))
    (proxy,) = asked.proxies()
    identity = process_identity(proxy)
    os.kill(proxy, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while told_of(proxy, "stat").rpartition(b")")[2].split()[:1] not in ([b"Z"], []) and time.monotonic() < deadline:
        time.sleep(0.01)
    sandbox = asked.client.create(asked.image, allow=[asked.server])
    assert asked.ask(sandbox, asked.server)[1:] == ["heard from inside"]
    assert wait_until_gone(identity, timeout_s=120)
    asked.client.destroy(sandbox)


def test_it_ends_with_its_host(tmp_path: Path, server: str) -> None:
    with start_host(tmp_path / "host", warm=0) as process:
        client = SandboxClient(tmp_path / "host")
        client.create(client.add_image(make_image(tmp_path / "image")), allow=[server])
        (proxy,) = [pid for pid in children_of(process.pid) if b"proxy" in told_of(pid, "cmdline")]
        identity = process_identity(proxy)
        process.kill()
        process.wait(120)
        client.close()
    assert wait_until_gone(identity, timeout_s=120)


@pytest.mark.parametrize(
    ("allow", "words"),
    [
        (["pypi.org"], "allow: wanted host:port with a name or an ordinary IP address, found 'pypi.org'"),
        (["0x7f.1:80"], "found '0x7f.1:80'"),
        (["https://pypi.org:443"], "found 'https://pypi.org:443'"),
        (["pypi.org:443"] * 65, "allow: wanted at most 64 of host:port"),
        ([7], "allow: wanted at most 64 of host:port"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused_in_words(asked: Asked, allow: list[Any], words: str) -> None:
    with pytest.raises(SandboxRefusedError, match=re.escape(words)):
        asked.client.create(asked.image, allow=allow)


def test_a_backend_without_a_proxy_says_so(tmp_path: Path) -> None:
    with start_host(tmp_path / "host", options=find_options("subprocess")):
        client = SandboxClient(tmp_path / "host")
        image = client.add_image(make_image(tmp_path / "image"))
        with pytest.raises(SandboxRefusedError, match="allow: subprocess has no proxy"):
            client.create(image, allow=["pypi.org:443"])
        client.close()


def test_a_place_is_read_in_one_way() -> None:
    assert read_place("PyPI.org:443") == read_place("pypi.org.:443") == ("pypi.org", 443)
    assert read_place("[0:0::1]:80") == ("::1", 80)
    assert read_asked(b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: other.org\r\n\r\n") == ("pypi.org", 443)
    for line, status in (
        (b"GET / HTTP/1.1", 405),
        (b"CONNECT pypi.org HTTP/1.1", 400),
        (b"CONNECT a:99999 HTTP/1.1", 400),
    ):
        with pytest.raises(RefusedError) as refused:
            read_asked(line + b"\r\n\r\n")
        assert refused.value.status == status


async def test_an_address_is_what_it_is_and_a_name_leads_to_public_ones_alone() -> None:
    assert await find_addresses(("10.0.0.7", 443)) == ["10.0.0.7"]  # it was listed as one
    with pytest.raises(RefusedError, match="leads to no public address"):
        await find_addresses(("localhost", 443))


def test_its_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    log = Log(directory)
    for number in range(9):
        log.write({"number": number, "words": "x" * (MAX_LOG_BYTES // 4)})
    os.close(directory)
    assert {path.name for path in tmp_path.iterdir()} == {LOG, f"{LOG}.1"}
    assert json.loads((tmp_path / LOG).read_text().splitlines()[-1])["number"] == 8
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 * MAX_LOG_BYTES
