"""Failed work is narrowed to one worker, whatever kind it is of."""

from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.finding.failed import OF_NO_WORKER, OF_WORKERS, FailedFilters
from apps.outbox.kinds import KINDS, SegmentKind
from apps.outbox.models import Segment
from apps.outbox.selectors import find_dead
from apps.regrading.models import Regrading
from apps.workers.models import Worker
from tests.factories import make_worker
from tests.subjects import make_subject


def make_dead(kind: str, subject: Any) -> Segment:
    return Segment.objects.create(
        kind=kind,
        subject_id=subject.pk,
        project_id=subject.project_id,
        state=Segment.State.DEAD,
        links=list(KINDS[kind].names),
        queue="workers",
    )


def find_of(worker: str, project: Project, by: User) -> list[Segment]:
    return list(FailedFilters.bind({"worker": worker}, find_dead(project.pk), by).qs)


@pytest.mark.parametrize("kind", OF_WORKERS)
def test_failed_work_of_each_kind_is_found_by_its_worker(
    project: Project, worker: Worker, alice: User, kind: SegmentKind
) -> None:
    other = make_worker(project, "other")
    theirs = [make_dead(kind, make_subject(OF_WORKERS[kind][0], one, alice)) for one in (worker, other)]
    assert find_of(worker.name, project, alice) == theirs[:1]
    assert find_of(other.name, project, alice) == theirs[1:]


def test_new_grades_of_a_workers_history_are_its_work(project: Project, worker: Worker, alice: User) -> None:
    row = Regrading.objects.create(project=project, source="attempts", worker=worker, rule={}, last_id=1, planned=1)
    dead = make_dead(SegmentKind.REGRADE, row)
    assert find_of(worker.name, project, alice) == [dead]


def test_every_kind_of_work_says_whose_it_is() -> None:
    assert OF_WORKERS.keys() | OF_NO_WORKER == set(SegmentKind)
    assert not OF_WORKERS.keys() & OF_NO_WORKER
