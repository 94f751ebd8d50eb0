"""What becomes of the row that a segment works for when that fails for good, and when it is replayed, of every kind.

Without it the row would be under way for ever. Where a row failed, it says why, in the link's words; a replay puts it
back where the link takes it up, unless somebody did something else with it meanwhile: then it stays what it is.
"""

from collections.abc import Callable
from functools import partial

from apps.adapters import jobs as adapter_jobs
from apps.adapters import services as adapters
from apps.base.errors import ConflictError
from apps.conversations import services as conversations
from apps.evals import asking
from apps.feedback import bulk, importing
from apps.feedback.models import BulkJudgement
from apps.judges import services as probes
from apps.outbox.kinds import FATES, NO_ROW_WAITS, Fate, SegmentKind
from apps.pipeline import admitting
from apps.regrading import services as regradings
from apps.supervision.services import note_undecided
from apps.tasks import services as tasks
from apps.training import retrying, scorers, verdict_managers
from apps.training import services as training


def _refuse_with(refuse: Callable[..., None]) -> Callable[..., None]:
    """What cannot be judged is refused, with the reason."""
    return lambda pk, *, link, reason, by: refuse(pk, reason=f"refused: {link} could not be done: {reason}", by=by)


def _refuse_unadopted(adapter_id: int, *, link: str, reason: str, by: str) -> None:
    """Refuse an adapter that could not be judged or put into service; where only others were to be unloaded behind
    that, it stays what it is."""
    if link != adapter_jobs.hot_swap.name:
        _refuse_with(adapters.refuse_unjudged)(adapter_id, link=link, reason=reason, by=by)


def _hand_in_anew(admission_id: int, *, link: str, by: str) -> None:
    raise ConflictError("a task that could not be looked at is handed in again")


OF_A_TASK = Fate(on_dead=tasks.fail_task, on_replay=tasks.revive_task)
JUDGING, UNDOING = (
    Fate(on_dead=bulk.fail_bulk, on_replay=partial(bulk.revive_bulk, state=state))
    for state in (BulkJudgement.State.RUNNING, BulkJudgement.State.UNDOING)
)

FATES |= {
    # the row: failed; taken up again
    SegmentKind.WORK: OF_A_TASK,
    SegmentKind.EPISODE: OF_A_TASK,
    SegmentKind.TRY: OF_A_TASK,
    SegmentKind.LEARN: OF_A_TASK,
    SegmentKind.TRAIN: Fate(on_dead=training.fail_run, on_replay=retrying.revive_run),
    SegmentKind.EVALUATE: Fate(on_dead=asking.fail_evaluation, on_replay=asking.revive_evaluation),
    SegmentKind.REGRADE: Fate(on_dead=regradings.fail_regrading, on_replay=regradings.revive_regrading),
    SegmentKind.PROBE: Fate(on_dead=probes.fail_probe, on_replay=probes.revive_probe),
    SegmentKind.HEAR: Fate(on_dead=conversations.fail_turn, on_replay=conversations.revive_turn),
    SegmentKind.BULK: JUDGING,
    SegmentKind.UNBULK: UNDOING,
    SegmentKind.IMPORT: Fate(on_dead=importing.fail_import, on_replay=importing.revive_import),
    SegmentKind.ADMIT: Fate(on_dead=admitting.fail, on_replay=_hand_in_anew),
    # the row: refused; a candidate again
    SegmentKind.ADOPT: Fate(on_dead=_refuse_unadopted, on_replay=adapters.revive_unjudged),
    SegmentKind.ADOPT_SCORER: Fate(on_dead=_refuse_with(scorers.refuse_ungated), on_replay=scorers.revive_ungated),
    SegmentKind.ADOPT_MANAGER: Fate(
        on_dead=_refuse_with(verdict_managers.refuse_ungated), on_replay=verdict_managers.revive_ungated
    ),
    # the row waits for people anyway, and says why no model decided
    SegmentKind.DECIDE: Fate(on_dead=note_undecided),
    # a task has one answer fewer in the shadow; managers learn with the next run; sessions and workers are left alone
    SegmentKind.MIRROR: NO_ROW_WAITS,
    SegmentKind.META: NO_ROW_WAITS,
    SegmentKind.CUT: NO_ROW_WAITS,
    SegmentKind.LABEL: NO_ROW_WAITS,
}
