"""Certificates of worlds: what their examination found, and of what."""

from collections.abc import Collection
from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class WorldCertificateQuerySet(models.QuerySet["WorldCertificate"]):
    def find_newest(self, worlds: Collection[str]) -> "dict[str, WorldCertificate]":
        """The newest of each, by its name."""
        rows = self.filter(world__in=worlds).order_by("world", "-pk").distinct("world")
        return {row.world: row for row in rows}


class WorldCertificate(models.Model):
    """What an examination of a world found. It speaks of the world that has its hash, and of no other; it is never
    changed, and a later one of the same world stands in its place."""

    world = models.CharField(max_length=64, help_text="Name of the environment.")
    version = models.CharField(max_length=64, blank=True, help_text="As the world says it.")
    sha256 = models.CharField(max_length=64, help_text="Of all files that it is made of.")
    passed = models.BooleanField(help_text="Nothing that was looked at speaks against training there.")
    checks = models.JSONField(help_text="One entry each: name, passed (null: could not be looked at), words.")
    figures = models.JSONField(help_text="Episodes, steps, steps a second, memory.")
    accepted = models.CharField(
        max_length=300,
        blank=True,
        help_text="Why it may train although it did not pass, as somebody said.",
    )
    examined_by = models.CharField(max_length=120)
    created_at = models.DateTimeField(db_default=Now())

    objects = WorldCertificateQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["world", "-id"], name="certificate_by_world")]

    def __str__(self) -> str:
        return f"{self.world}+{self.sha256[:12]} {'passed' if self.passed else 'failed'}"
