"""Pairs of answers."""

from apps.base.admin import show
from apps.gate.models import AnswerPair

show(
    AnswerPair, "id adapter said by is_open created_at", filters="is_open", search="=adapter__name", hidden="is_swapped"
)
