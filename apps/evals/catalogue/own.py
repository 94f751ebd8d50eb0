"""A project's own benchmarks, as `own/NAME`: rows that say themselves what is asked and how it is graded."""

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row
from apps.evals.catalogue.shapes import require_text


def _read(row: Row) -> CatalogueItem:
    options = row.get("options") or {}
    if not isinstance(options, dict):
        raise ValueError(f"options: wanted an object, found {options!r:.80}")
    answer = row.get("answer")
    if answer is not None and not isinstance(answer, str):
        raise ValueError(f"answer: wanted a right answer in words, found {answer!r:.80}")
    return CatalogueItem(
        prompt=require_text(row, "prompt"),
        reference=row["reference"],
        grader=require_text(row, "grader"),
        options=options,
        category=str(row.get("category") or "")[:64],
        oracle=answer,
    )


def open_own(name: str) -> CatalogueEntry:
    """The one of that name, `own/NAME`, whose rows are the project's."""
    return CatalogueEntry(
        name=name,
        version="1",
        about="Rows of the project's own.",
        group="own",
        licence="the project's own",
        columns={
            "prompt": "what is asked",
            "reference": "what is right",
            "grader": "who grades it",
        },
        read=_read,
        needs=frozenset({"file"}),
    )
