"""What workers have been taught to look up."""

from django.db import models

from apps.accounts.models import Project
from apps.base.models import Timestamped


class Skill(Timestamped):
    """A written procedure a worker may use."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="skills")
    name = models.SlugField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    description = models.CharField(max_length=500)
    body = models.TextField()
    is_active = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name", "version"], name="skill_version_is_unique")]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"
