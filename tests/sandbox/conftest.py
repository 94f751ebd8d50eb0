"""Hosts to ask. What another backend must do too is in `test_conformance.py`: add its name to BACKENDS."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tentalis.sandbox.client import SandboxClient, start_host

BACKENDS = ("embedded",)

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


def make_image(directory: Path) -> Path:
    """A small one: a note, a list to delete, a directory, a link, a program."""
    work = directory / "work"
    (work / "notes" / "old").mkdir(parents=True)
    (work / "hello").write_text("hello\n")
    (work / "notes" / "one").write_text("1\n")
    (work / "notes" / "old" / "two").write_text("2\n")
    (work / "link").symlink_to("notes/one")
    (work / "program").write_text("#!/bin/sh\necho $0 $#\n")
    (work / "program").chmod(0o755)
    return directory


@pytest.fixture(scope="module", params=BACKENDS)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    directory = tmp_path_factory.mktemp("host")
    image_directory = make_image(tmp_path_factory.mktemp("image"))
    with start_host(directory) as process:
        client = SandboxClient(directory)
        assert client.describe()["backend"] == request.param
        yield Asked(client, directory, image_directory, client.add_image(image_directory), process.pid)
        client.close()


@pytest.fixture
def sandbox(asked: Asked) -> Iterator[str]:
    name = asked.client.create(asked.image)
    yield name
    asked.client.destroy(name)
