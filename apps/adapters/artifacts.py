"""Reading adapter directories: nothing is believed that its hash does not say."""

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings

from apps.adapters.errors import AdapterBrokenError
from tentalis.core.contracts import AdapterManifest

MANIFEST = "manifest.json"


def path_of(uri: str) -> Path:
    """The directory of a file:// URI inside the artifact store.

    Raises:
        AdapterBrokenError: another scheme, or a place outside the store.
    """
    parts = urlsplit(uri)
    path = Path(unquote(parts.path)).resolve()
    if parts.scheme != "file" or not path.is_relative_to(settings.ARTIFACTS.resolve()):
        raise AdapterBrokenError(f"an artifact must lie in the artifact store as a file:// URI, found {uri!r}")
    return path


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(directory: Path, *, sha256: str) -> AdapterManifest:
    """The manifest of an adapter, after every file was checked against its hash.

    Args:
        sha256: what the manifest file itself must hash to.
    Raises:
        AdapterBrokenError: a file is missing, truncated or changed, or the manifest cannot be read.
    """
    manifest_file = directory / MANIFEST
    try:
        content = manifest_file.read_bytes()
    except OSError as error:
        raise AdapterBrokenError(f"the manifest cannot be read: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise AdapterBrokenError(f"the manifest must hash to {sha256}, found {found}")
    try:
        manifest = AdapterManifest.from_json(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise AdapterBrokenError(f"the manifest cannot be read: {error}") from error
    for name, entry in manifest.files.items():
        _check_file(directory, name, entry)
    return manifest


def _check_file(directory: Path, name: str, entry: Any) -> None:
    path = directory / name
    if Path(name).name != name or not path.is_file() or path.is_symlink():
        raise AdapterBrokenError(f"file {name!r} of the manifest is not a plain file of the directory")
    if (found := hash_file(path)) != entry["sha256"]:
        raise AdapterBrokenError(
            f"file {name} must hash to {entry['sha256']}, found {found} ({path.stat().st_size} of "
            f"{entry['size_bytes']} bytes)"
        )
