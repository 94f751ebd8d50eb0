"""Who gets the places at which links wait for outside servers: every project its share, and one always stays free.

The queues named in `SLOW_QUEUES` are served by pools of threads; a thread is a place. A message, of one segment or of
a set, is sent out only when there is a place for it at every pool it has yet to pass, and holds that until it is past.
A project may hold as many places as are free, so one alone takes half of a pool, two take a third each, and whoever
comes later finds some. Of those who hold as many, who was given one longest ago comes first.

Source: dynamic thresholds, Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998, with alpha = 1.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from django.conf import settings

from apps.outbox.kinds import KINDS, SLOW_QUEUES, queue_of

Pool = frozenset[str]
"""Queues that share their threads."""


def find_pools() -> dict[Pool, int]:
    """The pools that serve slow queues, and how many places each has."""
    groups: list[tuple[list[str], str, int]] = settings.TENTALIS["QUEUE_PROCESSES"]
    pools: dict[Pool, int] = {}
    for queues, _, size in groups:
        if SLOW_QUEUES.isdisjoint(queues):
            continue
        joined, places = frozenset(queues), size
        for other in [pool for pool in pools if not pool.isdisjoint(joined)]:
            joined, places = joined | other, places + pools.pop(other)
        pools[joined] = places
    return pools


@dataclass(frozen=True)
class Kept:
    """Segments of one kind at one link that belong to one project, and how many they are; when sent, in messages."""

    kind: str
    position: int
    project_id: int | None
    count: int


@dataclass
class Places:
    """What is taken of the pools, by project.

    Args:
        pools: how many places each has.
        turns: when each project was last given a place, by a count that goes on; kept by whoever shares out again.
            Without it, more projects than places would leave those that come last with nothing.
    """

    pools: Mapping[Pool, int]
    turns: dict[int | None, int] = field(default_factory=dict)
    _taken: dict[Pool, Counter[int | None]] = field(default_factory=dict)

    def take(self, kept: Kept) -> None:
        for pool in self.find_ahead(kept.kind, kept.position):
            self._taken.setdefault(pool, Counter())[kept.project_id] += kept.count

    def find_ahead(self, kind: str, position: int) -> list[Pool]:
        """The pools that a segment of this kind has yet to pass."""
        links = KINDS[kind].names[position:] if kind in KINDS else ()
        queues = {queue_of(link) for link in links} & SLOW_QUEUES
        return [pool for pool in self.pools if not pool.isdisjoint(queues)]

    def has_room(self, project_id: int | None, pools: Iterable[Pool]) -> bool:
        """Whether a project holds fewer places than are free, at each of these pools."""
        for pool in pools:
            taken = self._taken.get(pool, Counter[int | None]())
            if taken[project_id] >= max(self.pools[pool] - taken.total(), 0):
                return False
        return True

    def count_of(self, project_id: int | None) -> int:
        return sum(taken[project_id] for taken in self._taken.values())

    def share_out(self, waiting: Sequence[Kept], *, room: Mapping[str, int]) -> Counter[Kept]:
        """How many messages of what waits are sent now, taking turns, who holds least first; what they get is taken.

        Args:
            room: kind -> how many more of it may be in flight.
        """
        granted: Counter[Kept] = Counter()
        left = Counter(room)
        by_project: dict[int | None, deque[Kept]] = {}
        for kept in waiting:
            by_project.setdefault(kept.project_id, deque()).append(kept)
        at = {project_id: place for place, project_id in enumerate(by_project)}

        def rank(one: int | None) -> tuple[int, int, int, int, int | None]:
            """Who comes first; what is done for one project changes the rank of no other."""
            here = sum(granted[kept] for kept in by_project[one])
            return self.count_of(one), here, self.turns.get(one, 0), at[one], one

        ranked = sorted(map(rank, by_project))
        while ranked:
            *_, project_id = heappop(ranked)
            queue = by_project[project_id]
            kept = queue.popleft()
            pools = self.find_ahead(kept.kind, kept.position)
            if left[kept.kind] > 0 and granted[kept] < kept.count and self.has_room(project_id, pools):
                left[kept.kind] -= 1
                granted[kept] += 1
                turn = next(reversed(self.turns.values()), 0) + 1
                self.turns.pop(project_id, None)  # so that the last one is the latest
                self.turns[project_id] = turn
                self.take(Kept(kept.kind, kept.position, project_id, 1))
                queue.append(kept)  # its other kinds have their turn first
            if queue:
                heappush(ranked, rank(project_id))
        return granted
