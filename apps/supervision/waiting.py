"""Waiting for decisions; see `apps.base.waiting`."""

from collections.abc import Collection

from apps.base.waiting import LongPollHub
from apps.supervision.models import Proposal


def find_settled(proposal_ids: Collection[int]) -> list[int]:
    """Which of these wait no more, or are gone."""
    pending = set(Proposal.objects.filter(pk__in=proposal_ids, state="pending").values_list("pk", flat=True))
    return [pk for pk in proposal_ids if pk not in pending]


boards = LongPollHub(find_settled)
current_board = boards.current
