"""Erase a person (GDPR): end the trainings of their own adapters."""

from apps.accounts.models import Project
from apps.audit.services import move
from apps.outbox.kinds import SegmentKind
from apps.outbox.locking import lock_segments
from apps.outbox.services import cancel_segments
from apps.training import run_control
from apps.training.models import TrainingRun

State = TrainingRun.State
WORDS = "cancelled: the person it was for was forgotten"


def end_line(*, project: Project, end_user: str, stand_in: str, by: str) -> None:
    """Cancel what trains or waits for a person, in the running transaction; their name leaves the runs.

    A result that comes home after all is dropped: nobody waits for it any more.
    """
    theirs = TrainingRun.objects.filter(project=project, end_user=end_user)
    lock_segments(kind=SegmentKind.TRAIN, subject_ids=theirs.values_list("pk", flat=True))
    runs = theirs.select_for_update(of=("self",))
    for run in runs.filter(state__in=[State.QUEUED, State.RUNNING, State.PAUSED]).order_by("pk"):
        cancel_segments(kind=SegmentKind.TRAIN, subject_ids=[run.pk])
        if run.state == State.RUNNING and "output_uri" in run.spec:
            run_control.ask(run, run_control.CANCEL, WORDS)
        move(run, State.CANCELLED, by=by, failure=WORDS)
    TrainingRun.objects.filter(project=project, end_user=end_user).update(end_user=stand_in)
