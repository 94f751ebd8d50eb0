"""What a person may do to an adapter, and why not: asked by the service, by the button and for the answer 409."""

from apps.adapters.models import Adapter
from apps.base.errors import IllegalMoveError
from apps.outbox.kinds import SegmentKind
from apps.outbox.models import Segment

State = Adapter.State
READY = (State.CANDIDATE, State.VERIFIED, State.RETIRED)
CHANGED_FROM = {
    "promoted": READY,
    "tried": READY,
    "suspected": tuple(state for state in State if State.QUARANTINED in Adapter.MOVES[state]),
    "released": (State.QUARANTINED,),
}
"""What may be done -> in which states. A candidate may be promoted too, without proof, and tried once the gate is done
with it: where no panel measures a worker's adapters, a trial is the only proof there is."""


def why_not(adapter: Adapter, change: str) -> str:
    """Why it cannot be changed so, in words; "" where it can."""
    words = ""
    if change != "suspected" and adapter.barred:
        words = adapter.barred
    elif change == "tried" and adapter.end_user:
        words = "one person has too few tasks for a trial; promote it"
    elif adapter.state not in CHANGED_FROM[change]:
        words = f"wanted {' or '.join(CHANGED_FROM[change])}, found {adapter.state}"
    elif change == "tried" and adapter.state == State.CANDIDATE and is_before_gate(adapter):
        words = "the gate is looking at it"
    return words and f"{adapter.name} cannot be {change}: {words}"


def require(adapter: Adapter, change: str) -> None:
    """Raises IllegalMoveError where it cannot be changed so."""
    if words := why_not(adapter, change):
        raise IllegalMoveError(words)


def is_before_gate(adapter: Adapter) -> bool:
    """Whether the gate is yet to say what it says of a candidate."""
    return Segment.objects.filter(kind=SegmentKind.ADOPT, subject_id=adapter.pk, state=Segment.State.OPEN).exists()
