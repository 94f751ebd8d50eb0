"""Plain subprocesses: for trusted code, said in so many words; what they cannot hold is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.errors import SandboxRefusedError, SandboxUnavailableError
from tests.sandbox.images import make_image
from tests.sandbox.test_conformance import find_processes


def test_nothing_runs_as_one_unless_somebody_says_that_its_code_is_trusted(tmp_path: Path) -> None:
    host = start_host(tmp_path / "host", options=["--backend", "subprocess"])
    with pytest.raises(SandboxUnavailableError, match="for trusted code only: wanted that said with --trusted-code"):
        host.__enter__()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxClient]:
    directory = tmp_path_factory.mktemp("host")
    with start_host(directory, options=["--backend", "subprocess", "--trusted-code"]):
        client = SandboxClient(directory)
        yield client
        client.close()


@pytest.fixture(scope="module")
def image(client: SandboxClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    return client.add_image(make_image(tmp_path_factory.mktemp("image")))


def test_it_says_what_it_lacks(client: SandboxClient) -> None:
    lacks = client.describe()["lacks"]
    assert set(lacks) == {"isolation", "paths", "processes", "disk_bytes", "files", "memory_bytes", "allow", "system"}


@pytest.mark.parametrize("limit", ["processes", "disk_bytes", "files"])
def test_a_limit_that_it_cannot_keep_is_refused(client: SandboxClient, image: str, limit: str) -> None:
    with pytest.raises(SandboxRefusedError, match=f"{limit}: wanted a limit, found the backend subprocess: {limit} "):
        client.create(image, limits={limit: 2**20 if limit == "disk_bytes" else 300})


def test_an_image_with_a_system_of_its_own_is_refused(client: SandboxClient, tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    with pytest.raises(SandboxRefusedError, match="an image with a /usr of its own cannot be run"):
        client.create(client.add_image(tmp_path))


def test_its_files_are_its_own_and_gone_with_it(client: SandboxClient, image: str) -> None:
    sandbox = client.create(image)
    place = Path(client.run(sandbox, ["/bin/pwd"]).out.decode().strip())
    assert (place / "hello").read_text() == "hello\n"
    assert client.run(sandbox, ["/bin/sh", "-c", 'echo "$TMPDIR"'], cwd="/tmp").out.decode().strip() == str(
        place.parent / "tmp"
    )
    client.write(sandbox, "/tmp/file", b"x")
    assert (place.parent / "tmp/file").read_bytes() == b"x"
    client.destroy(sandbox)
    assert not place.parent.exists()


def test_a_snapshot_lets_its_own_processes_go_on_and_no_others(client: SandboxClient, image: str) -> None:
    """A signal to all, as an agent in a namespace of its own sends it, would reach the whole machine."""
    sandbox, other = client.create(image), client.create(image)
    halt = "sleep 1000 & kill -STOP $!; until grep -q '^State:.T' /proc/$!/status; do :; done; echo $!"
    stopped = int(client.ask_shell(other, halt).out)
    client.ask_shell(sandbox, "(setsid sleep 1019 &)")
    client.drop_image(client.snapshot(sandbox))
    assert Path(f"/proc/{stopped}/stat").read_text().split()[2] == "T"
    client.destroy(sandbox)
    assert find_processes(b"sleep\x001019\0") == []
    client.destroy(other)
