"""Pairs of answers."""

from apps.base.admin import show
from apps.gate.models import AnswerPair

show(AnswerPair, "id adapter said by created_at", search="=adapter__name", hidden="is_swapped")
