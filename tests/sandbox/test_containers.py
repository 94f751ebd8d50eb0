"""What Docker's and Podman's daemons are asked for, and what becomes of their answers: played again as real ones gave
them. `test_conformance.py` asks real ones, where they are."""

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.containers import write_root
from tentalis.sandbox.errors import SandboxError, SandboxLostError, SandboxRefusedError, SandboxUnavailableError
from tentalis.sandbox.frames import HOME
from tentalis.sandbox.store import Store
from tests.sandbox.engine_tape import Tape, play, replay
from tests.sandbox.images import make_image

CREATE, START, REMOVE = "POST /containers/create", "POST /containers/ID/start", "DELETE /containers/ID"


BOTH = pytest.mark.parametrize("engine", ["docker", "podman"])


@pytest.fixture
def engine() -> str:
    """Where both say the same."""
    return "docker"


@pytest.fixture
def tape(engine: str) -> Tape:
    return Tape.load(engine)


def options(engine: str, place: Path) -> list[str]:
    return ["--backend", engine, "--engine", str(place / "engine.sock")]


def ask(engine: str, tape: Tape, place: Path, **limits: Any) -> str:
    """Make a sandbox by it, and run something there."""
    with replay(place / "engine.sock", tape), start_host(place / "host", options=options(engine, place)):
        client = SandboxClient(place / "host")
        try:
            sandbox = client.create(client.add_image(make_image(place / "image")), sandbox="first", limits=limits)
            client.run(sandbox, ["/bin/sh", "-c", "cat hello; echo bad >&2; exit 3"])
            return sandbox
        finally:
            client.close()


@BOTH
def test_a_daemon_is_asked_and_its_answers_are_told(engine: str, tape: Tape, tmp_path: Path) -> None:
    with replay(tmp_path / "engine.sock", tape), start_host(tmp_path / "host", options=options(engine, tmp_path)):
        client = SandboxClient(tmp_path / "host")
        heard = play(client, make_image(tmp_path / "image"))
        assert client.describe()["sandboxes"] == 0
        client.close()
    described = heard["described"]
    assert (described["backend"], described["cgroups"]) == (engine, {"memory": "1", "pids": "1"})
    assert described["version"].startswith({"docker": "20.10", "podman": "4.3"}[engine])
    assert "disk_bytes" in described["lacks"]
    assert (heard["run"].code, heard["run"].out, heard["run"].err) == (3, b"hello\n", b"bad\n")
    assert (heard["shell"].out, heard["read"]) == (b"/tmp\n", b"written")
    assert (heard["of a snapshot"], heard["of a fork"]) == (b"written", b"kept\n")
    assert heard["stats"]["processes"] > 0
    assert heard["stats"]["memory_bytes"] > 2**20
    assert len([1 for question, _, _ in tape.asked if question == "POST /images/create"]) == 1, (
        "an image goes over once"
    )
    removed = {path.partition("?")[0] for question, path, _ in tape.asked if question == REMOVE}
    assert removed == {f"/containers/{json.loads(text)['Id']}" for _, text in tape.answers[CREATE]}
    assert any(question == "DELETE /images/ID" for question, _, _ in tape.asked)


@BOTH
def test_a_container_is_asked_for_with_everything_that_holds_it_in(engine: str, tape: Tape, tmp_path: Path) -> None:
    ask(engine, tape, tmp_path, memory_bytes=64 * 2**20, processes=10, disk_bytes=2**20, files=300)
    (order,) = tape.bodies(CREATE)
    held = order["HostConfig"]
    assert held["NetworkMode"] == "none"
    assert order["NetworkDisabled"]
    assert (held["ReadonlyRootfs"], held["CapDrop"], held["SecurityOpt"]) == (True, ["ALL"], ["no-new-privileges"])
    assert not held["Privileged"]
    assert not {"CapAdd", "Devices", "PidMode", "VolumesFrom"} & set(held)
    assert (held["Memory"], held["MemorySwap"], held["PidsLimit"]) == (64 * 2**20, 64 * 2**20, 10)
    left_behind = {"kernel.shm_rmid_forced": "1", "kernel.msgmni": "16", "kernel.sem": "250 32000 32 128"}
    assert (held["IpcMode"], held["Sysctls"]) == ("private", left_behind)
    assert int(order["User"].partition(":")[0]) > 1000
    assert set(held["Tmpfs"]) == {"/work", "/tmp"}
    for told in held["Tmpfs"].values():
        assert {"nosuid", "nodev", f"size={2**20}"} <= set(told.split(","))
        assert ("nr_inodes=300" in told.split(",")) == (engine == "docker")
    assert held["Binds"] == ["/usr:/usr:ro"]
    assert held["LogConfig"] == {"Type": "none"}
    assert (held["AutoRemove"], order["StdinOnce"]) == (True, True)
    assert not any(name.startswith("TENTALIS") for name in order["Env"])


@pytest.mark.parametrize("told", ["name=rootless", "name=userns"])
def test_a_daemon_whose_root_is_not_the_machines_is_not_asked_for_what_kernels_refuse_it(
    engine: str, tape: Tape, tmp_path: Path, told: str
) -> None:
    ((status, text),) = tape.answers["GET /info"]
    tape.answers["GET /info"] = [[status, json.dumps(json.loads(text) | {"SecurityOptions": [told]})]]
    ask(engine, tape, tmp_path)
    (order,) = tape.bodies(CREATE)
    assert order["HostConfig"]["Sysctls"] == {}


def test_what_another_host_left_is_removed_first(engine: str, tape: Tape, tmp_path: Path) -> None:
    left = [{"Id": letter * 64} for letter in "ab"]
    tape.answers["GET /containers/json"] = [[200, json.dumps(left)], [200, "[]"]]
    tape.answers["GET /images/json"] = [[200, json.dumps([{"Id": f"sha256:{'c' * 64}"}])], [200, "[]"]]
    tape.answers[REMOVE] = [[409, '{"message": "removal of container is already in progress"}'], [204, ""]]
    with replay(tmp_path / "engine.sock", tape), start_host(tmp_path / "host", options=options(engine, tmp_path)):
        client = SandboxClient(tmp_path / "host")
        assert client.describe()["left"]["sandboxes"] == 2
        client.close()
    removed = [path.partition("?")[0] for question, path, _ in tape.asked if question.startswith("DELETE")]
    assert removed[:3] == [f"/containers/{'a' * 64}", f"/containers/{'b' * 64}", f"/images/sha256:{'c' * 64}"]
    (listed, *_) = [path for question, path, _ in tape.asked if question == "GET /containers/json"]
    assert "tentalis.sandbox.host" in listed, "nobody else's containers are looked at"


@pytest.mark.parametrize(
    ("question", "answer", "error", "words"),
    [
        ("POST /images/create", [200, '{"error": "no space left on device"}'], SandboxRefusedError, "no space left"),
        (CREATE, [500, '{"message": "invalid mount option"}'], SandboxUnavailableError, "invalid mount option"),
        (
            START,
            [400, '{"message": "exec: \\"python3\\": executable file not found in $PATH: unknown"}'],
            SandboxUnavailableError,
            "executable file not found",
        ),
        ("POST /containers/ID/attach", [409, '{"message": "not running"}'], SandboxUnavailableError, "wanted a stream"),
    ],
)
def test_what_a_daemon_refuses_is_said_in_its_words(
    tape: Tape, engine: str, tmp_path: Path, question: str, answer: list[Any], error: type[SandboxError], words: str
) -> None:
    tape.answers[question] = [answer]
    with pytest.raises(error, match=re.escape(words)):
        ask(engine, tape, tmp_path)
    was_made = question in (START, "POST /containers/ID/attach")
    assert any(asked == REMOVE for asked, _, _ in tape.asked) == was_made, "what was made is removed again"


def test_a_container_that_ends_is_lost_and_no_answer_is_made_up(tape: Tape, engine: str, tmp_path: Path) -> None:
    tape.streams[0] = {"1": tape.streams[0]["1"]}  # its agent says that it began, and nothing more
    with pytest.raises(SandboxLostError, match="the sandbox ended"):
        ask(engine, tape, tmp_path)


def test_an_image_without_python_is_said_to_want_it(tape: Tape, engine: str, tmp_path: Path) -> None:
    tape.streams[0] = {}
    with pytest.raises(SandboxUnavailableError, match=re.escape("wanted python3 of 3.11 or later in it")):
        ask(engine, tape, tmp_path)


def test_a_daemon_that_limits_nothing_is_not_used(tape: Tape, engine: str, tmp_path: Path) -> None:
    tape.answers["GET /info"] = [[200, '{"MemoryLimit": false, "PidsLimit": true}']]
    with pytest.raises(SandboxUnavailableError, match=f"wanted a {engine} that limits memory and processes"):
        ask(engine, tape, tmp_path)


@BOTH
def test_where_no_daemon_answers_its_place_is_named(engine: str, tmp_path: Path) -> None:
    words = re.escape(f"wanted {engine} at {tmp_path / 'engine.sock'}, found none that answers")
    host = start_host(tmp_path / "host", options=options(engine, tmp_path))
    with pytest.raises(SandboxUnavailableError, match=words):
        host.__enter__()


def test_an_image_goes_over_with_its_own_directories_aside_and_no_path_twice(tmp_path: Path) -> None:
    image = make_image(tmp_path / "image")
    (image / "etc").mkdir()
    (image / "etc/passwd").write_text("mine\n")
    (image / "opt").mkdir()
    (image / "opt/first").write_text("1")
    (image / "opt/second").hardlink_to(image / "opt/first")
    store = Store(tmp_path / "store", None)
    store.open()
    archive = io.BytesIO()
    write_root(archive, store.root / "skeleton", store.root / store.add_image(image).layers[0])
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        names = tar.getnames()
        assert len(names) == len(set(names))
        assert {f".tentalis{HOME}/hello", ".tentalis/tentalis/sandbox/agent.py", "bin", "opt/second"} <= set(names)
        assert not any(name.startswith(("work/", "proc/", "dev/")) for name in names)
        assert {told.uid for told in tar.getmembers()} == {60_910}
        told = tar.extractfile("etc/passwd")
        assert told is not None
        assert told.read() == b"mine\n"
        assert tar.getmember("opt/second").islnk()
