"""Scripts of others are the ones that were looked at: every file is in the lock, byte for byte."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHIPPED, FOR_TESTS = ROOT / "static" / "vendor", ROOT / "tests" / "e2e" / "vendor"


def hash_file(path: Path) -> str:
    return "sha384-" + base64.b64encode(hashlib.sha384(path.read_bytes()).digest()).decode()


@pytest.mark.parametrize("vendor", [SHIPPED, FOR_TESTS], ids=["shipped", "for tests"])
def test_every_vendored_file_is_in_the_lock_with_its_hash_and_licence(vendor: Path) -> None:
    lock = json.loads((vendor / "vendor.lock").read_text(encoding="utf-8"))
    found = {
        folder.name: {path.name: hash_file(path) for path in sorted(folder.iterdir())}
        for folder in vendor.iterdir()
        if folder.is_dir()
    }
    assert found == {name: package["files"] for name, package in lock.items()}
    for name, package in lock.items():
        assert "LICENSE" in package["files"], name
        assert package["licence"], name
        assert package["integrity"].startswith("sha512-"), name
