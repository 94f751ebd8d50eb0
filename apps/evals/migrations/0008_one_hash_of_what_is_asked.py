"""What an evaluation was asked with is hashed as all else is: the SHA-256 of canonical JSON, its first 32 digits."""

import hashlib
from collections.abc import Callable
from typing import Any

from django.db import migrations

from tentalis.core.canon import canonical_json, content_hash

AT_ONCE = 1_000


def _rehash(apps: Any, hash_asked: Callable[[Any], str]) -> None:
    """In batches by id; of rows from before it was kept there is nothing to hash."""
    evaluations = apps.get_model("evals", "Evaluation").objects.exclude(asked_hash="").order_by("pk")
    last = 0
    while rows := list(evaluations.filter(pk__gt=last).only("asked_with")[:AT_ONCE]):
        for row in rows:
            row.asked_hash = hash_asked(row.asked_with)
        evaluations.model.objects.bulk_update(rows, ["asked_hash"])
        last = rows[-1].pk


def hash_by_sha256(apps: Any, schema_editor: object) -> None:
    _rehash(apps, lambda asked: content_hash(asked)[:32])


def hash_by_blake2b(apps: Any, schema_editor: object) -> None:
    _rehash(apps, lambda asked: hashlib.blake2b(canonical_json(asked), digest_size=16).hexdigest())


class Migration(migrations.Migration):
    dependencies = [("evals", "0007_experiments_are_evaluations_compared")]

    operations = [migrations.RunPython(hash_by_sha256, hash_by_blake2b)]
