"""Checks that a project has given a name."""

from django.db import models

from apps.accounts.models import Project
from apps.base.models import Timestamped


class NamedCheck(Timestamped):
    """One version of a check of a project; another text is its next version.

    Attributes:
        spec: as `apps.checks.language` stores a check, with all that it uses written out.
        default_for: environment whose tasks it checks where they bring no checks of their own; "" for none.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="checks")
    name = models.SlugField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    about = models.CharField(max_length=500, blank=True)
    spec = models.JSONField()
    default_for = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name", "version"], name="check_version_is_unique"),
            models.UniqueConstraint(
                fields=["project", "name"], condition=~models.Q(default_for=""), name="one_version_checks_by_default"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"
