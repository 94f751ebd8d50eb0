"""Tasksets and their items."""

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.evals.models import Item, Taskset


class TasksetOut(RowOut[Taskset]):
    """A named, versioned set of tasks."""

    class Meta:
        model = Taskset
        fields = "id project name version environment origin about frozen_at created_at"


class ItemOut(RowOut[Item]):
    """A task of a set; `split` says what it is for."""

    messages = serializers.ListField(child=serializers.DictField())

    class Meta:
        model = Item
        fields = "id split prompt messages reference checks seed weight source content_hash created_at"
