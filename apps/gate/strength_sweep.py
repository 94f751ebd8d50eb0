"""Sweep an adapter's strength: the same tensors under another alpha, served for a measurement and forgotten."""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from django.conf import settings

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterNotServableError
from apps.adapters.models import Adapter
from apps.adapters.serving import require_forgotten
from apps.adapters.weights import CONFIG, WEIGHTS
from apps.base.errors import TentalisError
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderRefusedError

NOT_KEPT = "adapter_not_kept_at_service"
"""What a server says that samples by a service, which has the adapters that were trained there and takes no others."""

logger = logging.getLogger(__name__)


@contextmanager
def serve_scaled(client: ModelClient, adapter: Adapter, scale: float) -> Iterator[str]:
    """Have the server serve the adapter at a share of its strength; gives the name it goes by meanwhile.

    Raises:
        AdapterNotServableError: the server serves what it keeps itself alone, at the strength it was trained at.
        ProviderBusyError, ProviderRefusedError: the server would not.
    """
    name = f"{adapter.name}-x{scale:g}"
    client.unload_adapter(name)  # a gate that was killed left it there, from another directory
    parent = settings.ARTIFACTS / "scales"
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(mkdtemp(prefix=f"{adapter.sha256[:8]}-", dir=parent))
    try:
        _write(path_of(adapter.uri), directory, scale)
        try:
            client.load_adapter(name, str(directory))
        except ProviderRefusedError as error:
            if error.server_code == NOT_KEPT:
                raise AdapterNotServableError(f"another strength than it was trained at: {error}") from error
            raise
        try:
            yield name
        finally:
            with suppress(TentalisError):  # a server that died forgot it, and the first error is the one to tell
                client.unload_adapter(name)
    finally:
        _remove(directory, client)


def _remove(directory: Path, client: ModelClient) -> None:
    """Delete it, unless the server may still read it: then it stays."""
    try:
        require_forgotten(directory, [client])
    except TentalisError as error:
        logger.warning("%s is kept: %s", directory, error)
    else:
        shutil.rmtree(directory, ignore_errors=True)


def _write(source: Path, directory: Path, scale: float) -> None:
    directory.chmod(0o755)  # the server may run as somebody else
    config = json.loads((source / CONFIG).read_bytes())
    config["lora_alpha"] *= scale
    (directory / CONFIG).write_text(json.dumps(config))
    try:
        os.link(source / WEIGHTS, directory / WEIGHTS)
    except OSError:
        shutil.copyfile(source / WEIGHTS, directory / WEIGHTS)
