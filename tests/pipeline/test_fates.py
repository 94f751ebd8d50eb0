"""A segment that failed for good leaves no row under way, and who replays it has the row go on: every kind of them."""

from typing import Any, NamedTuple

import pytest
from django.db.models import Model

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Verdict
from apps.adapters.services import refuse
from apps.audit.models import AuditEntry
from apps.base.errors import ConflictError
from apps.conversations.models import Turn
from apps.evals.models import Evaluation
from apps.feedback.models import BulkJudgement, RowImport
from apps.judges.models import JudgeProbe
from apps.outbox import services
from apps.outbox.kinds import FATES, KINDS, NO_ROW_WAITS, SegmentKind
from apps.outbox.models import Segment
from apps.regrading.models import Regrading
from apps.scoring.models import RewardModel
from apps.supervision.models import Proposal
from apps.tasks.models import Task
from apps.training.models import ManagerRun, TrainingRun
from apps.workers.models import Worker
from apps.worlds.models import RepoTaskAdmission
from tests.subjects import make_subject

REASON = "OSError: the disk is full"


class Way(NamedTuple):
    """A row under way, the link at which its segment dies, what the row becomes then, and when it is replayed."""

    model: type[Model]
    begun: str
    link: str
    dead: str
    again: str


WAYS = {
    SegmentKind.WORK: Way(Task, "scoring", "scoring.score", "failed", "scoring"),
    SegmentKind.EPISODE: Way(Task, "queued", "tasks.play", "failed", "queued"),
    SegmentKind.TRY: Way(Task, "queued", "tasks.work", "failed", "queued"),
    SegmentKind.LEARN: Way(Task, "learning", "rollouts.build", "failed", "learning"),
    SegmentKind.TRAIN: Way(TrainingRun, "queued", "training.dispatch", "failed", "queued"),
    SegmentKind.ADOPT: Way(Adapter, "candidate", "adapters.gate", "refused", "candidate"),
    SegmentKind.EVALUATE: Way(Evaluation, "running", "evals.measure", "failed", "queued"),
    SegmentKind.REGRADE: Way(Regrading, "running", "regrading.regrade", "failed", "running"),
    SegmentKind.PROBE: Way(JudgeProbe, "running", "calibration.probe_judge", "failed", "running"),
    SegmentKind.ADOPT_SCORER: Way(RewardModel, "candidate", "training.gate_scorer", "refused", "candidate"),
    SegmentKind.ADOPT_MANAGER: Way(ManagerRun, "fitted", "training.gate_manager", "refused", "fitted"),
    SegmentKind.HEAR: Way(Turn, "closed", "conversations.hear", "failed", "closed"),
    SegmentKind.BULK: Way(BulkJudgement, "running", "pipeline.judge_bulk", "failed", "running"),
    SegmentKind.UNBULK: Way(BulkJudgement, "undoing", "pipeline.undo_bulk", "failed", "undoing"),
    SegmentKind.IMPORT: Way(RowImport, "running", "pipeline.import_rows", "failed", "running"),
    SegmentKind.DECIDE: Way(Proposal, "pending", "supervision.decide", "pending", "pending"),
    SegmentKind.ADMIT: Way(RepoTaskAdmission, "running", "worlds.admit", "failed", "failed"),
}


def let_die(kind: str, subject: Any, link: str) -> Segment:
    names = KINDS[kind].names
    segment = Segment.objects.create(
        kind=kind,
        subject_id=subject.pk,
        project_id=getattr(subject, "project_id", None),
        links=list(names),
        position=names.index(link),
        queue="workers",
    )
    services.bury(segment, reason=REASON)
    subject.refresh_from_db()
    return segment


def replay(segment: Segment, subject: Any) -> None:
    services.replay(segment, by="user:alice")
    subject.refresh_from_db()


def test_every_kind_has_a_fate() -> None:
    """A new kind says what becomes of its row, and is tried below; or that no row waits for it."""
    assert FATES.keys() == set(SegmentKind)
    unmoved = {kind for kind, fate in FATES.items() if fate is NO_ROW_WAITS}
    assert unmoved == {SegmentKind.MIRROR, SegmentKind.META, SegmentKind.CUT, SegmentKind.LABEL}
    assert WAYS.keys() == set(SegmentKind) - unmoved


@pytest.mark.parametrize("kind", WAYS)
def test_a_row_whose_segment_is_dead_says_why_and_goes_on_when_that_is_replayed(
    kind: SegmentKind, worker: Worker, alice: User
) -> None:
    model, begun, link, dead, again = WAYS[kind]
    subject: Any = make_subject(model, worker, alice)
    asked = {"asked_by": alice.handle} if model is Evaluation else {}
    model._default_manager.filter(pk=subject.pk).update(state=begun, **asked)
    segment = let_die(kind, subject, link)
    told = [*map(str, vars(subject).values()), *Verdict.objects.values_list("words", flat=True)]
    assert (subject.state, any(REASON in words for words in told)) == (dead, True)
    if kind == SegmentKind.ADMIT:
        with pytest.raises(ConflictError, match="handed in again"):
            replay(segment, subject)
        return
    replay(segment, subject)
    assert subject.state == again
    services.bury(segment, reason=REASON)
    subject.refresh_from_db()
    assert subject.state == dead, "it may die again"


def test_an_adapter_that_could_not_be_put_into_service_is_tried_again(worker: Worker, alice: User) -> None:
    adapter: Any = make_subject(Adapter, worker, alice)
    Adapter.objects.filter(pk=adapter.pk).update(state="verified")
    Verdict.objects.create(adapter=adapter, question="safe", outcome="yes", words="safe")
    segment = let_die(SegmentKind.ADOPT, adapter, "adapters.promote")
    assert adapter.state == "refused"
    replay(segment, adapter)
    assert (adapter.state, adapter.verdicts.get().words) == ("verified", "safe")


@pytest.mark.parametrize("kind", [SegmentKind.ADOPT, SegmentKind.ADOPT_SCORER, SegmentKind.TRAIN, SegmentKind.BULK])
def test_what_became_something_else_meanwhile_stays_that(kind: SegmentKind, worker: Worker, alice: User) -> None:
    """Cancelled by somebody, or barred, it is not brought back by an old letter."""
    model, begun, link, _, _ = WAYS[kind]
    subject: Any = make_subject(model, worker, alice)
    model._default_manager.filter(pk=subject.pk).update(state=begun)
    segment = let_die(kind, subject, link)
    then = {"barred": "it must forget"} if hasattr(subject, "barred") else {"state": "cancelled"}
    model._default_manager.filter(pk=subject.pk).update(**then)
    replay(segment, subject)
    assert subject.state == then.get("state", "refused")


def test_what_the_gate_refused_stays_refused(worker: Worker, alice: User) -> None:
    adapter: Any = make_subject(Adapter, worker, alice)
    segment = let_die(SegmentKind.ADOPT, adapter, "adapters.hot_swap")
    assert adapter.state == "candidate", "others were only to be unloaded behind it"
    refuse(adapter, reason="refused: it is worse", by="gate")
    replay(segment, adapter)
    assert (adapter.state, adapter.verdicts.get().words) == ("refused", "refused: it is worse")


def test_an_evaluation_of_a_verdict_that_waits_no_longer_is_not_replayed(worker: Worker, alice: User) -> None:
    evaluation: Any = make_subject(Evaluation, worker, alice)
    Evaluation.objects.filter(pk=evaluation.pk).update(state="running", asked_by="")
    segment = let_die(SegmentKind.EVALUATE, evaluation, "evals.measure")
    with pytest.raises(ConflictError, match="waits for it no longer"):
        replay(segment, evaluation)
    segment.refresh_from_db()
    assert segment.state == "dead"


def test_what_of_a_bulk_judgement_failed_is_what_goes_on(project: Project, worker: Worker, alice: User) -> None:
    """Its judging failed, then its taking back: each letter takes up its own."""
    bulk: Any = make_subject(BulkJudgement, worker, alice)
    judging = let_die(SegmentKind.BULK, bulk, "pipeline.judge_bulk")
    BulkJudgement.objects.filter(pk=bulk.pk).update(state="undoing", failure="")
    undoing = let_die(SegmentKind.UNBULK, bulk, "pipeline.undo_bulk")
    replay(judging, bulk)
    assert (bulk.state, bulk.failure) == ("failed", f"pipeline.undo_bulk: {REASON}")
    replay(undoing, bulk)
    assert (bulk.state, bulk.failure) == ("undoing", "")
    told = AuditEntry.objects.filter(kind="bulk.failed", project_id=project.pk)
    assert [entry.payload["done"] for entry in told] == [1, 1]
