"""Rows of public data sets, fetched from the Hugging Face hub, which keeps each of them as Parquet too."""

import socket
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

from tentalis.platform.model_hub import find_endpoint, open_hub

REVISION: Final = "refs/convert/parquet"
"""Where the hub keeps them."""
WAIT_S: Final = 4.0
"""Without a network that is said within five seconds."""


class DatasetHubError(Exception):
    """The rows cannot be fetched, in words."""


def fetch_rows(repository: str, config: str, split: str, path: Path) -> int:
    """Write the rows of a split into a Parquet file. Returns how many there are.

    Raises:
        DatasetHubError: there is no network, or the hub does not have or give them. Nothing is left then.
    """
    require_network(find_endpoint())
    import pyarrow.parquet as pq
    from huggingface_hub.errors import HfHubHTTPError

    told: dict[str, Any] = {"repo_type": "dataset", "revision": REVISION}
    try:
        api = open_hub()
        files = [one for one in api.list_repo_files(repository, **told) if one.endswith(".parquet")]
        wanted = sorted(one for one in files if one.startswith(f"{config}/{split}/"))
        if not wanted:
            there = sorted({one.rpartition("/")[0] for one in files})
            raise DatasetHubError(f"{repository}: wanted {config}/{split}, found {', '.join(there)[:300] or 'no rows'}")
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".staging-") as scratch:
            whole = Path(scratch) / path.name
            parts = [Path(api.hf_hub_download(repository, one, local_dir=scratch, **told)) for one in wanted]
            rows, writer = 0, pq.ParquetWriter(whole, pq.read_schema(parts[0]))
            with writer:
                for part in parts:
                    for batch in pq.ParquetFile(part).iter_batches():
                        writer.write_batch(batch)
                        rows += batch.num_rows
            whole.rename(path)
    except DatasetHubError:
        raise
    except HfHubHTTPError as error:
        raise DatasetHubError(f"{repository}: the hub does not give it: {error}"[:500]) from None
    except Exception as error:  # the client raises whatever its transport does
        raise DatasetHubError(f"{repository}: it cannot be fetched: {error}"[:500]) from error
    return rows


def require_network(endpoint: str, *, wait_s: float = WAIT_S) -> None:
    """Raises DatasetHubError where a server cannot be reached, after that long at most, names looked up included."""
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    found: list[BaseException | None] = []

    def reach() -> None:
        try:
            socket.create_connection((host, port), timeout=wait_s).close()
            found.append(None)
        except OSError as error:
            found.append(error)

    thread = Thread(target=reach, daemon=True)  # looking a name up cannot be ended
    thread.start()
    thread.join(wait_s)
    if not found or found[0] is not None:
        why = f": {found[0]}" if found else f" within {wait_s:g} s"
        raise DatasetHubError(f"wanted a network: {host} cannot be reached{why}")
