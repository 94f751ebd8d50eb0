"""Runs of other tools as the platform takes them: read here, and sent without what nothing is kept of."""

import base64
from typing import Final

import typer

from tentalis.core.edge_limits import EdgeLimits
from tentalis.core.run_logs.condensed import write_condensed
from tentalis.core.run_logs.logged import RunLogError
from tentalis.core.run_logs.reading import read_run
from tentalis.zstd import unpack_zstd

MOST_FILE: Final = 256 * 2**20
MOST_UNPACKED: Final = 2**30
"""Bytes of a file, and of what it unfolds into, that are read here."""


def pack_run(data: bytes, *, name: str, form: str = "", score: str = "", results: str = "") -> str:
    """The run in base64. Raises typer.BadParameter, saying what was wanted of the file."""
    try:
        run = read_run(
            data,
            name=name,
            form=form,
            score=score,
            results=results.encode() if results else None,
            most_bytes=MOST_UNPACKED,
            unzstd=unpack_zstd,
        )
    except RunLogError as error:
        raise typer.BadParameter(f"{name}: {error}") from None
    written = base64.b64encode(write_condensed(run)).decode()
    if len(written) > EdgeLimits.import_chars:
        most = EdgeLimits.import_chars
        raise typer.BadParameter(f"{name}: wanted at most {most:,} characters packed, found {len(written):,}: split it")
    return written
