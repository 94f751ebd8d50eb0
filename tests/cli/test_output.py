"""Tables: a name, a number and a reason are there whole, whatever the terminal's width."""

from pathlib import Path

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.rollouts.models import Rollout
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.cli.output import BEGINNINGS, print_rows
from tests.apps.adapters.desk_adapters import make_served
from tests.cli.conftest import Run
from tests.factories import make_attempt, make_task

REASON = "the tokens of its third call were told by a model server that left before it told their log-probs"


@pytest.fixture(autouse=True)
def narrow(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def test_names_of_adapters_are_whole(signed_in: Run, settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACTS = tmp_path
    names = [make_served(Worker.objects.get(), number, tmp_path / str(number)).name for number in (1, 2)]
    rows = signed_in("adapter", "list").out.splitlines()[1:]
    assert {word for row in rows for word in row.split() if "@v" in word} == set(names)


def test_why_nothing_trains_is_whole(signed_in: Run) -> None:
    task = make_task(Project.objects.get(), state=Task.State.DONE)
    Rollout.objects.create(
        project=task.project,
        worker=task.worker,
        task=task,
        attempt=make_attempt(task),
        is_usable=False,
        unusable_reason=REASON,
    )
    assert f"Attempts that no reward trains on: {REASON}." in signed_in("project", "why").out


def test_a_row_is_a_line_and_its_columns_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": 7, "name": "売店", "words": REASON}, {"id": 12, "name": "shop", "words": "fine"}]
    print_rows(rows, ("id", "name", "words"), as_json=False, empty="")
    assert capsys.readouterr().out.splitlines() == ["id  name  words", f" 7  売店  {REASON}", "12  shop  fine"]


@pytest.mark.parametrize("name", sorted(BEGINNINGS))
def test_of_what_can_be_pages_long_a_table_tells_the_beginning(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{name: "word " * 100}], (name,), as_json=False, empty="")
    _title, row = capsys.readouterr().out.splitlines()
    assert row == ("word " * 100)[:59] + "…"
