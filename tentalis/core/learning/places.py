"""Who stands where among several, as far as what was compared can tell."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple, TypeVar

from tentalis.core.learning.gate import GateError

Name = TypeVar("Name", bound=Hashable)


class Place(NamedTuple):
    """The places, from 1, that one may truly have. Those who share any may be in either order."""

    best: int
    worst: int

    @property
    def is_known(self) -> bool:
        """Whether it is one place."""
        return self.best == self.worst


def find_places(names: Sequence[Name], better: Collection[tuple[Name, Name]]) -> dict[Name, Place]:
    """The places that each may have: behind all that are shown to be better, before all that are shown to be worse.

    Nothing is concluded from what was not shown. Where A is not told apart from B, nor B from C, but A is better than
    C, then A has place 1 or 2, B any, and C 2 or 3: who is not told apart shares places, and is not thereby the same.

    Args:
        names: each once.
        better: (who is better, than whom), as shown by tests that are corrected for how many there are.
    Returns:
        By name, in the order given. Where the shown differences all hold, so do all places together.
    Raises:
        GateError: somebody is named twice, is not among the names, or is shown to be both better and worse.
    Source:
        Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks", Review of Economic Studies 91(1): the
        confidence set of a rank by simultaneous tests of all pairwise differences.
    """
    known, shown = set(names), set(better)
    if len(known) != len(names):
        raise GateError("wanted each name once, found one twice")
    worse, ahead = defaultdict[Name, int](int), defaultdict[Name, int](int)
    for one, other in shown:
        if one not in known or other not in known or (other, one) in shown:
            raise GateError(f"wanted who is better than whom among the names, found {one!r} and {other!r}")
        ahead[other] += 1
        worse[one] += 1
    return {name: Place(1 + ahead[name], len(names) - worse[name]) for name in names}
