"""Doing a link as a queue process does it, in the test's own process."""

from collections.abc import Callable
from typing import Any

from apps.outbox import services
from apps.outbox.links import run_claim
from apps.outbox.services import Claim


def take_link(segment_id: int, position: int, *, owner: str = "test") -> Claim:
    """The claim of one segment's link, which nobody holds."""
    claim = services.claim_links([segment_id], position, owner=owner)
    assert claim is not None
    return claim


def run_link(function: Callable[[int], Any], segment_id: int, position: int) -> bool:
    """Claim and do the link of one segment; whether it was done."""
    claim = services.claim_links([segment_id], position, owner="test")
    return claim is not None and bool(run_claim(lambda subject_ids: function(*subject_ids), claim).ended)
