"""The kinds of segments, named here so that every app can say them; what each is made of stands in `apps/pipeline`."""

from enum import StrEnum


class SegmentKind(StrEnum):
    """What a segment is for; the subject of each in brackets."""

    WORK = "work"
    """Do, score and open to review (a task)."""
    EPISODE = "episode"
    """The same in a world with turns (a task)."""
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


OF_A_TASK = (SegmentKind.WORK, SegmentKind.EPISODE, SegmentKind.LEARN)
"""The kinds whose subject is a task that is under way."""
