"""Renewing the keys that seal: every sealed field of every table, row by row, while everything runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.apps import apps
from django.db import models, transaction
from django.db.models.functions import Substr

from apps.accounts.models import User
from apps.accounts.services import require_admin
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.sealing import SealedKeyError, read_ring, seal, unseal

BATCH = 100
SEALED = "sealed"


@dataclass
class Rotation:
    """What came of it.

    Attributes:
        key_id: of the key that seals now.
        renewed: secrets that were sealed anew. unreadable: rows whose secret no key opens, as `table 7`.
    """

    key_id: str
    renewed: int = 0
    unreadable: list[str] = field(default_factory=list)


def rotate_keys(*, by: User) -> Rotation:
    """As `renew_secrets`, for a person. Raises NotAllowedError where `by` is no admin of the installation."""
    require_admin(by)
    return renew_secrets(by=by.handle)


def renew_secrets(*, by: str) -> Rotation:
    """Seal anew, with the ring's newest key, every secret that another key sealed.

    Broken off, it is simply called again: what is done is told by the rows. Readers are never without a key that
    opens what they read, because old keys stay in the ring until somebody drops them.
    """
    rotation = Rotation(read_ring().newest)
    for model, name in find_sealed_fields():
        for pk in _find_stale(model, name, rotation.key_id):
            _renew(model, name, pk, rotation)
    record(
        Kind.PROVIDER_KEYS_ROTATED,
        by=by,
        payload={"key": rotation.key_id, "renewed": rotation.renewed, "unreadable": len(rotation.unreadable)},
    )
    return rotation


def find_sealed_fields() -> list[tuple[type[models.Model], str]]:
    """Every field that holds a sealed secret: binary, with "sealed" among the words of its name.

    A model whose secrets are bound to something says to what: `sealed_for(field)`.
    """
    return [
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.local_concrete_fields
        if isinstance(field, models.BinaryField) and SEALED in field.name.split("_")
    ]


def find_keys_in_use() -> set[str]:
    """Ids of the keys that some stored secret still needs."""
    found: set[str] = set()
    for model, name in find_sealed_fields():
        heads = _with_heads(model, name).values_list("head", flat=True).order_by().distinct()
        found |= {bytes(head).decode("ascii", "replace") for head in heads}
    return found


def _find_stale(model: type[models.Model], name: str, newest: str) -> Iterator[int]:
    last = 0
    while True:
        rows = _with_heads(model, name).filter(pk__gt=last).exclude(head=newest.encode())
        found = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
        yield from found
        if len(found) < BATCH:
            return
        last = found[-1]


def _with_heads(model: type[models.Model], name: str) -> models.QuerySet[models.Model]:
    """Rows with a secret, and the id of the key that sealed it as `head`."""
    head = Substr(name, 1, 16, output_field=models.BinaryField())
    rows: models.QuerySet[models.Model] = model._base_manager.exclude(**{name: b""}).annotate(head=head)
    return rows


def _renew(model: type[models.Model], name: str, pk: int, rotation: Rotation) -> None:
    with transaction.atomic():
        row = model._base_manager.select_for_update(of=("self",)).filter(pk=pk).first()
        sealed = bytes(getattr(row, name) or b"") if row is not None else b""
        if row is None or not sealed or sealed.startswith(rotation.key_id.encode()):
            return
        bound_to = row.sealed_for(name) if hasattr(row, "sealed_for") else ""
        try:
            secret = unseal(sealed, bound_to=bound_to)
        except SealedKeyError:
            rotation.unreadable.append(f"{model._meta.db_table} {pk}")
            return
        setattr(row, name, seal(secret, bound_to=bound_to))
        row.save(update_fields=[name])
        rotation.renewed += 1
