"""Names that are given once in a project."""

from django.db import IntegrityError, transaction

from apps.base.errors import ConflictError
from apps.workers.models import Ensemble, Worker


def insert_named(row: Worker | Ensemble) -> None:
    """Store a new row. Raises ConflictError where its project has one of that name."""
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        message = f"the name {row.name} is taken in {row.project.slug}"
        raise ConflictError(message, errors={"name": [message]}) from None
