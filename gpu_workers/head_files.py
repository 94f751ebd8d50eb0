"""A reward head as a directory: its tensors and a manifest over them, immutable, named by the manifest's SHA-256."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save

from gpu_workers.artifacts import ArtifactError, publish_directory, read_checked, staged_directory
from gpu_workers.learning.reward_head import Head
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import ContractError, HeadManifest

HEAD_FILE = "reward_head.safetensors"
MANIFEST_FILE = "manifest.json"


class StoredHead(NamedTuple):
    """A head with what its directory says of it.

    Args:
        sha256: of the manifest.
    """

    head: Head
    manifest: HeadManifest
    sha256: str


def publish_head(head: Head, manifest_fields: Mapping[str, Any], *, parent: Path) -> tuple[Path, str]:
    """Write a head under `parent`, named by the SHA-256 of its manifest.

    Args:
        manifest_fields: `HeadManifest` without `files`, `versions` and the sizes.
    Returns:
        The directory, and the manifest's lower-case hex SHA-256.
    Raises:
        ValueError: a tensor is not finite; nothing is written.
        ArtifactError: the disk refuses; nothing is left behind.
    """
    Head.from_tensors(head.to_tensors())
    data = save({name: value.cpu() for name, value in head.to_tensors().items()})
    hidden, features = head.hidden_weight.shape
    manifest = HeadManifest(
        **manifest_fields,
        features=features,
        hidden=hidden,
        files={HEAD_FILE: {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}},
        versions={package: version(package) for package in ("torch", "safetensors")},
    )
    content = canonical_json(manifest.to_json())
    sha256 = hashlib.sha256(content).hexdigest()
    final = parent / sha256
    with staged_directory(parent) as staging:
        (staging / HEAD_FILE).write_bytes(data)
        (staging / MANIFEST_FILE).write_bytes(content)
        publish_directory(staging, final)
    return final, sha256


def read_head(directory: Path) -> StoredHead:
    """A head directory, every byte checked against its manifest.

    Raises:
        ArtifactError: it cannot be read, a file is not what the manifest says, or it holds no head.
    """
    path = directory / MANIFEST_FILE
    try:
        content = path.read_bytes()
        manifest = HeadManifest.from_json(json.loads(content))
        wanted = str(manifest.files[HEAD_FILE]["sha256"])
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    except (ContractError, ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path} is no head manifest: {error}") from error
    data = read_checked(directory / HEAD_FILE, sha256=wanted)
    try:
        head = Head.from_tensors(load(data))
    except (SafetensorError, ValueError) as error:
        raise ArtifactError(f"{directory / HEAD_FILE} holds no reward head: {error}") from error
    if tuple(head.hidden_weight.shape) != (manifest.hidden, manifest.features):
        raise ArtifactError(
            f"{directory / HEAD_FILE} must be {manifest.hidden} x {manifest.features} by its manifest, found "
            f"{tuple(head.hidden_weight.shape)}"
        )
    return StoredHead(head, manifest, hashlib.sha256(content).hexdigest())
