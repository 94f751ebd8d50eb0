"""Doing a link as a queue process does it, in the test's own process."""

from collections.abc import Callable
from typing import Any

from django.db import connection

from apps.outbox import services
from apps.outbox.errors import LostClaimError
from apps.outbox.links import fail, run_claim
from apps.outbox.services import Claim, Hold


def take_link(segment_id: int, position: int, *, owner: str = "test") -> Claim:
    """The claim of one segment's link, which nobody holds."""
    claim = services.claim_links([segment_id], position, owner=owner)
    assert claim is not None
    return claim


def run_link(function: Callable[[int], Any], segment_id: int, position: int) -> bool:
    """Claim and do the link of one segment; whether it was done.

    Within a test's transaction the keeper of leases is left out: it sees no row that is not committed, and would take
    the claim for lost.
    """
    claim = services.claim_links([segment_id], position, owner="test")
    if claim is None:
        return False
    if not connection.in_atomic_block:
        return bool(run_claim(lambda subject_ids: function(*subject_ids), claim).ended)
    held = Hold(claim)
    try:
        with services.hold(held):
            function(*claim.subjects.values())
            services.end_unwritten(held)
    except LostClaimError:
        return False
    except Exception as error:
        fail(claim, error)
    return bool(held.ended)
