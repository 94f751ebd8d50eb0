"""The kinds of segments there are. `apps/pipeline` registers them; its `flow.py` is where they are read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.conf import settings

SLOW_QUEUES = frozenset({"workers", "scorers", "hints", "gates"})
"""Queues of links that ask servers outside, and wait for them as long as these please. `control` asks nobody."""

KINDS: dict[str, "SegmentKind"] = {}


@dataclass(frozen=True, kw_only=True)
class SegmentKind:
    """A chain of links and what surrounds it.

    Args:
        links: names of Celery jobs, in order.
        together: of these subjects' ids, those that its links may do as one set; None: each is done alone.
        then: called with the subjects' ids in the transaction that ends the last link.
        on_dead: called with the subject's id, the link's name and the reason, in the transaction that buries it.
        on_replay: called with the subject's id and the link's name, in the transaction that takes it up again.
    """

    name: str
    links: tuple[str, ...]
    together: Callable[[Sequence[int]], Iterable[Sequence[int]]] | None = None
    then: Callable[[Sequence[int]], None] | None = None
    on_dead: Callable[[int, str, str], None] | None = None
    on_replay: Callable[[int, str], None] | None = None


def register_kind(
    name: str,
    *,
    links: tuple[str, ...],
    together: Callable[[Sequence[int]], Iterable[Sequence[int]]] | None = None,
    then: Callable[[Sequence[int]], None] | None = None,
    on_dead: Callable[[int, str, str], None] | None = None,
    on_replay: Callable[[int, str], None] | None = None,
) -> None:
    """See `SegmentKind`."""
    KINDS[name] = SegmentKind(
        name=name, links=links, together=together, then=then, on_dead=on_dead, on_replay=on_replay
    )


def queue_of(link: str) -> str:
    """The queue a link runs on, by the routes of the settings."""
    for pattern, route in settings.CELERY_TASK_ROUTES.items():
        if fnmatchcase(link, pattern):
            return str(route["queue"])
    return str(settings.CELERY_TASK_DEFAULT_QUEUE)
