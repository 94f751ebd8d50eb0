"""The kinds of segments, and the table of what each is made of, which `apps/pipeline` fills and its `flow.py` tells."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Protocol

from django.conf import settings


class SegmentKind(StrEnum):
    """What a segment is for; the subject of each in brackets."""

    WORK = "work"
    """Do, score and open to review (a task)."""
    EPISODE = "episode"
    """The same in a world with turns (a task)."""
    DECIDE = "decide"
    """Have a model decide what an agent proposes (a proposal)."""
    TRY = "try"
    """Have an agent elsewhere make a try of an evaluation (a task)."""
    LEARN = "learn"
    """Draw hints and build rollouts (a judged task)."""
    TRAIN = "train"
    """Examine a run and send it to the training box (a run)."""
    ADOPT = "adopt"
    """Gate, promote and swap in (an adapter)."""
    MIRROR = "mirror"
    """Let a shadow do it too (a task)."""
    LABEL = "label"
    """Label steps for a step scorer (a worker)."""
    EVALUATE = "evaluate"
    """Have a model try items (an evaluation)."""
    REGRADE = "regrade"
    """Grade anew what was answered before (a set of new grades)."""
    PROBE = "probe"
    """Probe a judge (a probe)."""
    ADOPT_SCORER = "adopt_scorer"
    """Gate a step scorer (a reward model)."""
    META = "meta"
    """Let managers learn (a run)."""
    ADOPT_MANAGER = "adopt_manager"
    """Gate a manager's adapter (a manager's run)."""
    CUT = "cut"
    """Cut into turns (a session)."""
    HEAR = "hear"
    """Extract signals and build a task (a turn)."""
    BULK = "bulk"
    """Judge or change many rows (a bulk judgement)."""
    UNBULK = "unbulk"
    """Take that back (a bulk judgement)."""
    IMPORT = "import"
    """Make finished tasks (an import of rows)."""
    ADMIT = "admit"
    """Find out whether a repository's task may be used (an admission)."""


OF_WORK = (SegmentKind.WORK, SegmentKind.EPISODE, SegmentKind.TRY)
"""The kinds in which a task is done."""
OF_A_TASK = (*OF_WORK, SegmentKind.LEARN)
"""The kinds whose subject is a task that is under way."""


SLOW_QUEUES = frozenset({"workers", "episodes", "scorers", "hints", "gates"})
"""Queues of links that ask servers outside, and wait for them as long as these please. `control` asks nobody."""


class Job(Protocol):
    """A Celery job, as `links.link` makes it of a function."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The links of a kind of segment and what surrounds them.

    Args:
        links: Celery jobs, in order; a test may name them.
        together: of these subjects' ids, those that its links may do as one set; None: each is done alone.
        then: called with the subjects' ids in the transaction that ends the last link.
    """

    links: tuple[Job | str, ...]
    together: Callable[[Sequence[int]], Iterable[Sequence[int]]] | None = None
    then: Callable[[Sequence[int]], None] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(link if isinstance(link, str) else link.name for link in self.links)


KINDS: dict[str, Chain] = {}
OUTBOX = "outbox"
"""Who it is in the audit that lets what a segment works for fail, and takes it up again."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What becomes of the row that a segment works for when the segment fails for good, and when it is replayed.

    Args:
        on_dead: called with the subject's id, `link`, `reason` and `by`, in the transaction that buries it.
        on_replay: called with the subject's id, `link` and `by`, in the transaction that takes it up again. It may
            refuse (ConflictError).
    """

    on_dead: Callable[..., object] | None = None
    on_replay: Callable[..., object] | None = None


NO_ROW_WAITS = Fate()
"""Of a kind whose subject is nowhere said to be under way. Where the clock starts it, it leaves those out that
`selectors.died_last` tells."""
FATES: dict[str, Fate] = {}
"""By kind; `apps/pipeline/fates.py` fills it."""


def queue_of(link: str) -> str:
    """The queue a link runs on, by the routes of the settings."""
    for pattern, route in settings.CELERY_TASK_ROUTES.items():
        if fnmatchcase(link, pattern):
            return str(route["queue"])
    return str(settings.CELERY_TASK_DEFAULT_QUEUE)
