"""Answers of a candidate beside those of what serves, where nothing but a comparison says which are better."""

from typing import Self

from django.db import models
from django.db.models import Q

from apps.adapters.models import Adapter
from apps.base.models import Timestamped
from apps.evals.models import ItemTry
from apps.tasks.models import Task


class AnswerPairQuerySet(models.QuerySet["AnswerPair"]):
    """Reads of pairs."""

    def that_wait(self) -> Self:
        """Those of which people may yet say something."""
        return self.filter(task__isnull=False).exclude(task__state__in=Task.FINAL)


class AnswerPair(Timestamped):
    """Two answers to one held-out item. Written once; its word is added when there is one.

    Attributes:
        mine, theirs: the candidate's try, and that of what it is compared with.
        task: where people judge it, whose two attempts are the answers; None where a model does.
        is_swapped: the candidate's answer is the task's second.
        said: how far the candidate's is better, in [0, 1]; None while nobody said.
        by: handle of the model that said so; "" for people.
    """

    adapter = models.ForeignKey(Adapter, models.CASCADE, related_name="answer_pairs")
    mine = models.ForeignKey(ItemTry, models.CASCADE, related_name="+", db_index=False)
    theirs = models.ForeignKey(ItemTry, models.CASCADE, related_name="+")
    task = models.OneToOneField(Task, models.SET_NULL, null=True, blank=True, related_name="answer_pair")
    is_swapped = models.BooleanField(default=False)
    said = models.FloatField(null=True, blank=True)
    by = models.CharField(max_length=120, blank=True, default="")

    objects = AnswerPairQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["mine", "theirs", "by"], name="one_word_per_pair_and_judge"),
            models.CheckConstraint(
                condition=Q(said__isnull=True) | Q(said__gte=0, said__lte=1), name="pair_is_said_0_to_1"
            ),
        ]

    def __str__(self) -> str:
        return f"pair {self.pk} of {self.adapter}"

    @property
    def project_id(self) -> int:
        return self.adapter.project_id
