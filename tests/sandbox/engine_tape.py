"""A daemon of Docker or Podman that says what a real one said, and the recording of it.

`python -m tests.sandbox.engine_tape docker /var/run/docker.sock` asks a real one what `play` asks, and writes down what
it says: `engine_docker.json` here was told by Docker 20.10 (API 1.41), `engine_podman.json` by Podman 4.3.
"""

import base64
import json
import re
import socket
import socketserver
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.frames import take_frame
from tests.sandbox.images import make_image

HERE = Path(__file__).parent
KEPT = {
    "/info": ("ServerVersion", "CgroupVersion", "MemoryLimit", "PidsLimit", "SecurityOptions", "Driver"),
    "/containers/ID/stats": ("memory_stats", "pids_stats"),
    "/containers/json": ("Id", "Names", "State", "Labels"),
    "/images/json": ("Id", "Labels"),
}
"""Of long answers: what is looked at. The rest tells of the machine that they were recorded on."""
_ID = re.compile(r"(?<=/)(sha256:)?[0-9a-f]{12,64}(?=/|$)")


def play(client: SandboxClient, image_directory: Path) -> dict[str, Any]:
    """What is asked of a daemon, and what whoever asks the host hears."""
    heard: dict[str, Any] = {"described": client.describe()}
    image = client.add_image(image_directory)
    first = client.create(image, sandbox="first")
    heard["run"] = client.run(first, ["/bin/sh", "-c", "cat hello; echo bad >&2; exit 3"])
    heard["shell"] = client.ask_shell(first, "cd /tmp; echo kept > file; pwd")
    client.write(first, "new", b"written")
    heard["read"] = client.read(first, "new")
    heard["stats"] = client.stats(first)
    client.snapshot(first, image="snapshot")
    second = client.create("snapshot", sandbox="second", limits={"memory_bytes": 64 * 2**20, "processes": 10})
    heard["of a snapshot"] = client.read(second, "new")
    fork = client.fork(first, to="fork")
    heard["of a fork"] = client.read(fork, "/tmp/file")
    for name in (first, second, fork):
        client.destroy(name)
    client.drop_image("snapshot")
    client.drop_image(image)
    return heard


def name_question(method: str, path: str) -> str:
    """What is asked, whatever it is asked of."""
    return f"{method} {_ID.sub('ID', path.partition('?')[0])}"


class Tape:
    """Answers in the order they were given, each kind of question by itself; the last one goes on.

    Args:
        answers: for each kind of question a list of [status, text].
        streams: for each attached container the bytes that answer each order of the host, by its number.
    """

    def __init__(self, answers: dict[str, list[list[Any]]], streams: list[dict[str, str]]) -> None:
        self.answers = answers
        self.streams = streams
        self.asked: list[tuple[str, str, bytes]] = []
        self._told: dict[str, int] = defaultdict(int)
        self._attached = 0
        self._lock = threading.Lock()

    @classmethod
    def load(cls, name: str) -> "Tape":
        tape = json.loads((HERE / f"engine_{name}.json").read_text())
        return cls(tape["answers"], tape["streams"])

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        question = name_question(method, path)
        with self._lock:
            self.asked.append((question, path, body))
            told = self.answers.get(question, [[404, json.dumps({"message": f"no answer to {question}"})]])
            number = self._told[question]
            self._told[question] += 1
        status, text = told[min(number, len(told) - 1)]
        return status, text

    def next_stream(self) -> dict[str, str]:
        with self._lock:
            self._attached += 1
            return self.streams[self._attached - 1] if self._attached <= len(self.streams) else {}

    def bodies(self, question: str) -> list[Any]:
        """The JSON that came with questions of a kind."""
        return [json.loads(body) for asked, _, body in self.asked if asked == question]


class _Handler(socketserver.StreamRequestHandler):
    """One connection, one question."""

    server: "_Server"

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return
            head += line
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.server.handle_question(self, method, path, head, self._read_body(head))

    def _read_body(self, head: bytes) -> bytes:
        if found := re.search(rb"(?i)content-length: (\d+)", head):
            return self.rfile.read(int(found[1]))
        body = b""
        if re.search(rb"(?i)transfer-encoding: chunked", head):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return body


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    handle_question: Callable[[_Handler, str, str, bytes, bytes], None]


@contextmanager
def serve(path: Path, handle: Callable[[_Handler, str, str, bytes, bytes], None]) -> Iterator[None]:
    with _Server(str(path), _Handler) as server:
        server.handle_question = handle
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def replay(path: Path, tape: Tape) -> Iterator[None]:
    """A daemon at a socket."""

    def handle(handler: _Handler, method: str, target: str, head: bytes, body: bytes) -> None:
        status, text = tape.answer(method, target, body)
        if "/attach" not in target or status != 101:
            told = text.encode()
            handler.wfile.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(told)}\r\n\r\n".encode() + told)
            return
        handler.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        stream = tape.next_stream()
        received = bytearray()
        while part := handler.request.recv(2**18):
            received += part
            while frame := take_frame(received):
                answer = stream.get(str(frame[0]["n"]))
                if answer is None:
                    return  # the container is gone
                handler.wfile.write(base64.b64decode(answer))

    with serve(path, handle):
        yield


def record(name: str, daemon: Path) -> dict[str, Any]:
    """Ask a real one, and listen."""
    answers: dict[str, list[list[Any]]] = defaultdict(list)
    streams: list[dict[str, str]] = []

    def handle(handler: _Handler, method: str, target: str, head: bytes, body: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as real:
            real.connect(str(daemon))
            if b"Upgrade" not in head:
                head = re.sub(rb"(?i)transfer-encoding: chunked", b"Content-Length: %d" % len(body), head)
                real.sendall(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body)
                told = b"".join(iter(lambda: real.recv(2**18), b""))
                handler.wfile.write(told)
                answers[name_question(method, target)].append(_trim(method, target, told))
                return
            real.sendall(head)
            answers[name_question(method, target)].append([101, ""])
            stream: dict[str, str] = {}
            streams.append(stream)
            relay(handler.request, real, stream)

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with serve(place / "engine.sock", handle):
            options = ["--backend", name, "--engine", str(place / "engine.sock")]
            with start_host(place / "host", options=options):
                client = SandboxClient(place / "host")
                play(client, make_image(place / "image"))
                client.close()
    return {"answers": answers, "streams": streams}


def relay(host: socket.socket, daemon: socket.socket, stream: dict[str, str]) -> None:
    """Between a host and an agent, until one of them is gone; what the agent says is kept by the order it answers."""
    raw, orders = bytearray(), bytearray()
    order = ["0"]
    heard: dict[str, bytes] = defaultdict(bytes)

    def pass_on() -> None:
        while part := daemon.recv(2**18):
            raw.extend(part)
            heard[order[0]] += part
            host.sendall(part)
        host.shutdown(socket.SHUT_WR)

    while b"\r\n\r\n" not in raw:
        raw += daemon.recv(1)
    host.sendall(raw)
    thread = threading.Thread(target=pass_on)
    thread.start()
    while part := host.recv(2**18):
        orders += part
        while frame := take_frame(orders):
            order[0] = str(frame[0]["n"])
        daemon.sendall(part)
    daemon.shutdown(socket.SHUT_RDWR)
    thread.join()
    stream.update({number: base64.b64encode(data).decode() for number, data in heard.items()})


def _trim(method: str, target: str, told: bytes) -> list[Any]:
    head, _, text = told.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        body = b""
        while text:
            size, _, text = text.partition(b"\r\n")
            body += text[: int(size, 16)]
            text = text[int(size, 16) + 2 :]
        text = body
    kept = KEPT.get(name_question(method, target).partition(" ")[2])
    if kept and text.strip():
        found = json.loads(text)
        rows = found if isinstance(found, list) else [found]
        rows = [{key: row[key] for key in kept if key in row} for row in rows]
        text = json.dumps(rows if isinstance(found, list) else rows[0]).encode()
    return [int(head.split(b" ")[1]), text.decode()]


if __name__ == "__main__":
    made = record(sys.argv[1], Path(sys.argv[2]))
    (HERE / f"engine_{sys.argv[1]}.json").write_text(json.dumps(made, indent=1) + "\n")
