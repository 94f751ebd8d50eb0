"""Rows too many for one request: sent in pieces that wait until they are asked for together."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.conf import settings

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.base.errors import BadInputError
from apps.base.kept_files import keep_file
from apps.base.packed_rows import unpack_rows
from apps.evals.benchmarks import MOST_ROWS
from apps.evals.row_files import read_rows

DIRECTORY = "pieces"
MOST_PIECES: Final = 400


def keep_piece(*, project: Project, data: bytes, by: User) -> str:
    """Keep a packed file of rows for a while. Returns its hash, by which it is asked for."""
    require_right(by, project, Right.EVALS_WRITE)
    name = hashlib.sha256(data).hexdigest()
    keep_file(settings.ARTIFACTS / DIRECTORY / f"{project.pk}-{name}", data)
    return name


def read_pieces(project: Project, names: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows of pieces, one behind the other.

    Raises:
        BadInputError: one is not there or holds no rows, or they are more than a benchmark takes.
    """
    if not 1 <= len(names) <= MOST_PIECES:
        raise BadInputError.at("pieces", f"wanted 1 to {MOST_PIECES} pieces, found {len(names)}")
    rows: list[Mapping[str, Any]] = []
    for name in names:
        path = settings.ARTIFACTS / DIRECTORY / f"{project.pk}-{name}"
        if not name.isalnum() or not path.is_file():
            raise BadInputError.at("pieces", f"wanted pieces that were sent, found {name:.80}")
        _, text = unpack_rows(path.read_bytes(), field="pieces")
        rows += read_rows(text, form="jsonl")
        if len(rows) > MOST_ROWS:
            raise BadInputError.at("pieces", f"wanted 1 to {MOST_ROWS:,} rows, found more")
    return rows


def drop_pieces(project: Project, names: Sequence[str]) -> None:
    """They have served."""
    for name in names:
        (settings.ARTIFACTS / DIRECTORY / f"{project.pk}-{name}").unlink(missing_ok=True)
