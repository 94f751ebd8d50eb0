"""Leaderboards: who was measured alike is ranked as far as the data tell, and nobody else."""

from collections.abc import Sequence
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.evals.leaderboards import find_leaderboard
from apps.evals.models import Benchmark, Evaluation, Taskset
from apps.workers.models import Worker
from tests.factories import make_measured, make_worker

pytestmark = pytest.mark.django_db
GOOD, FAIR, POOR = [1, 1, 1, 1] * 15, [1, 1, 1, 0] * 15, [1, 0, 0, 0] * 15


class Boards:
    """A benchmark, and models measured on it."""

    def __init__(self, project: Project) -> None:
        self.worker = make_worker(project, "desk")
        self.benchmark = self.install(1)

    def install(self, version: int) -> Benchmark:
        taskset = Taskset.objects.create(project=self.worker.project, name=f"b{version}", environment="chat")
        return Benchmark.objects.create(
            project=self.worker.project, name="b", version=version, entry="b", entry_version="1", taskset=taskset,
            licence="MIT", source="by hand",
        )  # fmt: skip

    def measure(
        self, version: int, outcomes: Sequence[float], *, worker: Worker | None = None, **said: Any
    ) -> Evaluation:
        worker = worker or self.worker
        adapter, _ = Adapter.objects.get_or_create(
            project=worker.project, worker=worker, name=f"{worker.name}-v{version}",
            defaults={"version": version, "line_version": version, "uri": "file:///a", "manifest": {}},
        )  # fmt: skip
        values: dict[str, Any] = {
            "item_set_hash": "5f",
            "purpose": "report",
            "asked_by": "user:alice",
            "benchmark": self.benchmark,
        }
        return make_measured(worker, adapter, outcomes, items="b", **values | said)

    def read(self, line: Worker | None = None) -> list[list[tuple[str, int, int]]]:
        """(adapter, best place, worst place) of each row of each board."""
        boards = find_leaderboard(self.benchmark, line=line).boards
        return [[(str(row.evaluation.adapter), *row.place) for row in board.rows] for board in boards]


@pytest.fixture
def boards(project: Project) -> Boards:
    return Boards(project)


def test_who_cannot_be_told_apart_shares_places(boards: Boards) -> None:
    boards.measure(1, POOR)
    boards.measure(2, GOOD)
    boards.measure(3, [*GOOD[:-1], 0])
    assert boards.read() == [[("desk-v2", 1, 2), ("desk-v3", 1, 2), ("desk-v1", 3, 3)]]


def test_a_chain_of_small_differences_is_shown_as_far_as_it_is_known(boards: Boards) -> None:
    for version, right in enumerate((30, 26, 22), start=1):
        boards.measure(version, [1.0] * right + [0.0] * (60 - right))
    assert boards.read() == [[("desk-v1", 1, 2), ("desk-v2", 1, 3), ("desk-v3", 2, 3)]]


def test_other_items_graders_versions_and_ways_to_answer_are_not_ranked_together(boards: Boards) -> None:
    boards.measure(1, GOOD)
    boards.measure(2, POOR)
    boards.measure(3, POOR, item_set_hash="6a")
    boards.measure(4, POOR, asked_with={"graders": ["choice@2"]})
    boards.measure(5, POOR, is_greedy=True)
    boards.measure(6, POOR, benchmark=boards.install(2))
    boards.measure(7, POOR, item_set_hash="")
    Evaluation.objects.filter(pk=boards.measure(8, POOR).pk).update(state="running")
    first, *alone = boards.read()
    assert first == [("desk-v1", 1, 1), ("desk-v2", 2, 2)]
    assert sorted(alone) == [[(f"desk-v{version}", 1, 1)] for version in (3, 4, 5)]
    assert find_leaderboard(boards.benchmark).elsewhere == ["desk-v6"]


def test_the_newest_run_of_a_model_counts_and_a_line_is_ranked_by_itself(boards: Boards, project: Project) -> None:
    other = make_worker(project, "other")
    pupil = make_worker(project, "pupil", learns_with=boards.worker)
    boards.measure(1, GOOD)
    newest = boards.measure(1, POOR, seed=1)
    boards.measure(1, FAIR, worker=other)
    boards.measure(1, FAIR, worker=pupil)
    found = find_leaderboard(boards.benchmark).boards[0]
    assert {row.evaluation.pk for row in found.rows if row.evaluation.worker_id == boards.worker.pk} == {newest.pk}
    assert len(found.rows) == 3
    assert boards.read(boards.worker) == [[("pupil-v1", 1, 1), ("desk-v1", 2, 2)]]


def test_who_lacks_too_many_outcomes_is_on_the_board_and_told_apart_from_nobody(boards: Boards) -> None:
    boards.measure(1, GOOD)
    boards.measure(2, POOR)
    lacking = boards.measure(3, POOR)
    lacking.item_tries.filter(place__gte=30).update(outcome=None, cause="infrastructure", reason="the server was away")
    board = find_leaderboard(boards.benchmark).boards[0]
    places = {str(row.evaluation.adapter): row.place for row in board.rows}
    assert places == {"desk-v1": (1, 2), "desk-v2": (2, 3), "desk-v3": (1, 3)}
    assert board.compared == 1
    assert "the server was away" in board.why[0]
