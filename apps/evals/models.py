"""What workers are measured on, and what else is kept as items: named, versioned sets of tasks."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.base.models import Timestamped


class Taskset(Timestamped):
    """A named set of items of one environment. A frozen version never changes; a change of it makes the next."""

    class Origin(models.TextChoices):
        MADE = "made", "Made by hand"
        OWN_WORK = "own_work", "Own work, put aside as it came"

    project = models.ForeignKey(Project, models.CASCADE, related_name="tasksets")
    name = models.SlugField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    environment = models.CharField(max_length=64)
    origin = models.CharField(max_length=16, choices=Origin.choices, default=Origin.MADE)
    about = models.TextField(blank=True)
    frozen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name", "version"], name="taskset_version_is_unique"),
            models.UniqueConstraint(
                fields=["project", "name"], condition=Q(frozen_at=None), name="one_open_version_per_taskset"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class Item(Timestamped):
    """A task of a set.

    Attributes:
        split: held_out and skills are only ever measured on; skills are those that must not be lost.
        messages: the whole conversation it ends, where it is more than a prompt; [] otherwise.
        checks: what a right answer is, as data; None where the reference, the world or people say it.
        source: where it comes from, in words, such as `task 12` or `tickets.jsonl, line 3`.
        content_hash, bands: of its words (`tentalis.core.near_duplicates`).
    """

    class Split(models.TextChoices):
        TRAIN = "train", "Train"
        HELD_OUT = "held_out", "Held out"
        SKILLS = "skills", "Skills"

    MEASURED = (Split.HELD_OUT, Split.SKILLS)

    taskset = models.ForeignKey(Taskset, models.CASCADE, related_name="items")
    split = models.CharField(max_length=16, choices=Split.choices)
    prompt = models.TextField()
    messages = models.JSONField(default=list, blank=True)
    reference = models.JSONField(null=True, blank=True)
    checks = models.JSONField(null=True, blank=True)
    seed = models.BigIntegerField(null=True, blank=True)
    weight = models.FloatField(default=1.0)
    source = models.CharField(max_length=200, blank=True)
    content_hash = models.CharField(max_length=64)
    bands: "ArrayField[list[int], list[int]]" = ArrayField(models.BigIntegerField())

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["taskset", "content_hash"], name="one_item_per_words"),
            models.CheckConstraint(condition=Q(split__in=["train", "held_out", "skills"]), name="item_split_is_known"),
            models.CheckConstraint(condition=Q(weight__gt=0, weight__lte=100), name="item_weight_is_0_to_100"),
        ]
        indexes = [GinIndex(fields=["bands"], name="item_bands")]

    def __str__(self) -> str:
        return f"item {self.pk}"
