"""A packed file of rows as text: unpacked in a process that may take so much and no more."""

import base64
import binascii
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from apps.base.errors import BadInputError
from apps.base.unpacking import is_packed

READER = "apps.base.unpacking"
MOST_WAIT_S = 20.0
NICENESS = "10"
_ROOT = Path(__file__).resolve().parents[2]
_children = threading.BoundedSemaphore(2)


def unpack_rows(data: bytes, *, field: str = "file") -> tuple[str, str]:
    """(name, text) of the rows in a Parquet file or an archive of an export.

    Raises:
        BadInputError: at `field`, with what was wanted of the file.
    """
    if not is_packed(data):
        raise BadInputError.at(field, "wanted a Parquet file or a zip, found neither")
    if not _children.acquire(blocking=False):
        raise BadInputError.at(field, "too many files are being unpacked; try again")
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            ["nice", "-n", NICENESS, sys.executable, "-m", READER],
            input=data, capture_output=True, timeout=MOST_WAIT_S, cwd=_ROOT, env=environment, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BadInputError.at(field, f"it takes more than {MOST_WAIT_S:g} s to unpack") from None
    finally:
        _children.release()
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise BadInputError.at(field, "it takes too much work or memory to unpack")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][-300:]
        raise BadInputError.at(field, said or f"it cannot be unpacked: the reader ended with {done.returncode}")
    name, text = json.loads(done.stdout)
    return name, text


def read_base64(text: str, *, field: str) -> bytes:
    """The bytes that a text writes. Raises BadInputError at `field`."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadInputError.at(field, "wanted base64") from None
