"""Hosts to ask. What every backend must do is in `test_conformance.py`."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tentalis.sandbox.backends import find_socket
from tentalis.sandbox.client import SandboxClient, start_host
from tests.sandbox.images import make_image

BACKENDS = (
    "embedded",
    "subprocess",
    pytest.param("docker", marks=pytest.mark.containers),
    pytest.param("podman", marks=pytest.mark.containers),
)
CANNOT = {
    "subprocess": {
        "test_a_program_sees_what_it_is_given_and_nothing_of_the_hosts": "paths",
        "test_an_image_is_there_and_stays_as_it_was": "paths",
        "test_a_shell_lasts": "paths",
        "test_a_full_disk_is_the_sandboxs_own_trouble": "disk_bytes",
        "test_all_that_lies_in_a_directory_is_told_at_once": "isolation",
        "test_who_takes_too_long_is_killed_from_outside": "isolation",
    },
}
"""What a backend says that it lacks (`describe`), by the test that shows it elsewhere."""

NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "true")


def find_obstacle() -> str:
    """Why no sandbox could be made here, whatever our code does; "" where one could."""
    if sys.platform != "linux":
        return "sandboxes want Linux"
    if shutil.which(NAMESPACES[0]) and subprocess.run(NAMESPACES, capture_output=True, check=False).returncode:
        return "this machine, or the container that it is, allows no user namespaces"
    return ""


@pytest.fixture(autouse=True, scope="session")
def _where_there_are_namespaces() -> None:
    if obstacle := find_obstacle():
        pytest.skip(obstacle)


@dataclass(frozen=True)
class Asked:
    """A host and an image in it."""

    client: SandboxClient
    directory: Path
    image_directory: Path
    image: str
    pid: int


def find_options(backend: str) -> list[str]:
    """Of a host by this backend; where its daemon is, DOCKER_SOCKET or PODMAN_SOCKET say, or its usual
    place."""
    if backend == "embedded":
        return []
    if backend == "subprocess":
        return ["--backend", backend, "--trusted-code"]
    place = Path(os.environ.get(f"{backend.upper()}_SOCKET", "") or find_socket(backend))
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(place))
    except OSError as error:
        pytest.skip(f"no daemon of {backend} answers at {place}: {error.strerror}")
    return ["--backend", backend, "--engine", str(place)]


@pytest.fixture(scope="module", params=BACKENDS)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    options = find_options(request.param)
    directory = tmp_path_factory.mktemp("host")
    image_directory = make_image(tmp_path_factory.mktemp("image"))
    with start_host(directory, options=options) as process:
        client = SandboxClient(directory)
        assert client.describe()["backend"] == request.param
        yield Asked(client, directory, image_directory, client.add_image(image_directory), process.pid)
        client.close()


@pytest.fixture(autouse=True)
def _what_it_says_that_it_lacks_is_not_wanted(request: pytest.FixtureRequest) -> None:
    if "asked" in request.fixturenames and request.node.module.__name__.endswith("test_conformance"):
        lacks = request.getfixturevalue("asked").client.describe()
        lacking = CANNOT.get(lacks["backend"], {}).get(request.node.originalname)
        if lacking:
            pytest.skip(f"{lacks['backend']}: {lacking}: {lacks['lacks'][lacking]}")


@pytest.fixture
def sandbox(asked: Asked) -> Iterator[str]:
    name = asked.client.create(asked.image)
    yield name
    asked.client.destroy(name)
