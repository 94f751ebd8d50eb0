"""The lock files hold what pyproject.toml asks for, with hashes, and leave torch to the installer."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CUDA_TAIL = re.compile(r"torch$|triton$|nvidia-|cuda-")


def read_lock(name: str) -> dict[str, str]:
    """Each package's block of lines by its name."""
    text = (ROOT / "docker" / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)
    return {block.partition("==")[0].partition("[")[0]: block for block in blocks if "==" in block}


def wanted_names(*, with_dev: bool) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = project["dependencies"] + (project["optional-dependencies"]["dev"] if with_dev else [])
    return {re.split(r"[^A-Za-z0-9._-]", text)[0].lower() for text in requirements} - {"torch"}


@pytest.mark.parametrize(("name", "with_dev"), [("base", False), ("dev", True)])
def test_a_lock_file_holds_every_wanted_package_with_a_hash_and_no_torch(name: str, with_dev: bool) -> None:
    locked = read_lock(name)
    assert wanted_names(with_dev=with_dev) <= locked.keys(), "run `make lock`"
    assert not [package for package, block in locked.items() if "--hash=sha256:" not in block]
    assert not [package for package in locked if CUDA_TAIL.match(package)]


def test_both_lock_files_agree_on_versions() -> None:
    base, dev = read_lock("base"), read_lock("dev")
    assert not [name for name in base if base[name].split()[0] != dev[name].split()[0]]


def test_torch_is_pinned_to_one_version_for_the_installer() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert [text for text in dependencies if re.fullmatch(r"torch==\d+\.\d+\.\d+", text)]
