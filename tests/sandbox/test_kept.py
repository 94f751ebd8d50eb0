"""An image that is kept, and a host that forgets it."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tentalis.sandbox.client import SandboxClient
from tentalis.sandbox.errors import SandboxLostError, SandboxRefusedError
from tentalis.sandbox.kept import KeptImage


class Host:
    """As much of a host as is asked for images and sandboxes. Started anew it knows nothing."""

    def __init__(self) -> None:
        self.images, self.sandboxes, self.laid, self.is_gone = set[str](), list[str](), list[str](), False

    @contextlib.contextmanager
    def stage(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as name:
            Path(name).chmod(0o755)
            yield Path(name)

    def add_image(self, directory: Path) -> str:
        self.laid.append((directory / "hello").read_text())
        self.images.add("image")
        return "image"

    def create(self, image: str, *, limits: Mapping[str, Any]) -> str:
        if image not in self.images or limits.get("processes") == 0:
            raise SandboxRefusedError(f"wanted an image, found none called {image!r}")
        self.sandboxes.append("sandbox")
        return "sandbox"

    def destroy(self, sandbox: str) -> None:
        if self.is_gone:
            raise SandboxLostError("the sandbox host is gone")
        self.sandboxes.remove(sandbox)


def lay(root: Path) -> None:
    assert root.stat().st_mode & 0o777 == 0o755
    (root / "hello").write_text("hello")


def test_a_host_that_was_started_anew_is_given_the_image_again_and_no_host_is_given_it_twice() -> None:
    kept, first, second = KeptImage(lay), Host(), Host()
    for host in (first, first, second, second):
        with kept.open(cast(SandboxClient, host), limits={}) as name:
            assert host.sandboxes == [name]
        assert host.sandboxes == []
    assert (first.laid, second.laid) == (["hello"], ["hello"])


def test_what_is_refused_for_another_reason_is_tried_once_more_and_told() -> None:
    host = Host()
    with (
        pytest.raises(SandboxRefusedError, match="wanted an image"),
        KeptImage(lay).open(cast(SandboxClient, host), limits={"processes": 0}),
    ):
        pass
    assert len(host.laid) == 2


def test_what_was_found_in_a_sandbox_stays_where_the_host_is_gone_before_it_is_destroyed() -> None:
    host = Host()
    with KeptImage(lay).open(cast(SandboxClient, host), limits={}):
        host.is_gone = True
