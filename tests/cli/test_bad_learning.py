"""What nobody can train, try or look at is refused in words that say what to do, and nothing is changed by it."""

import pytest

from apps.accounts.models import Member
from apps.adapters.models import Adapter
from apps.rollouts.models import Batch
from apps.training.models import TrainingRun
from tests.cli.conftest import Run
from tests.factories import make_project, make_worker

REFUSED = {
    "train --recipe {": (2, "a recipe must be JSON"),
    "train --recipe []": (2, "a recipe must be a JSON object, found list"),
    'train --recipe {"algorithm":"magic"}': (1, "algorithm"),
    'train --recipe {"lora_rank":0}': (1, "lora_rank"),
    'train --recipe {"rank":8}': (1, "rank"),
    "train --backend cloud": (1, "backend"),
    "train --worker nobody": (1, "none that you may see"),
    "train": (1, "batch"),
    "run list --state dreaming": (1, "state"),
    "run show 0": (2, "greater than or equal to 1"),
    "run show many": (2, "valid integer"),
    "run cancel 99999": (1, "none that you may see"),
    "run retry 99999": (1, "none that you may see"),
    "run describe 1": (2, "wanted --name, --comment or --tag"),
    "run describe 99999 --name x": (1, "none that you may see"),
    "run cost -p nowhere": (1, "none that you may see"),
    "run reproduce 99999 --artifacts /nowhere": (2, "wanted an attempt that succeeded"),
    "prm train --worker nobody": (1, "none that you may see"),
    "prm train --worker echo": (1, "echo"),
    "prm retire 99999": (1, "none that you may see"),
    "adapter promote none": (2, "no adapter 'none' that you may see"),
    "adapter list --state good": (1, "state"),
    "adapter export none --format zip": (2, "format must be one of peft, merged, gguf, ollama"),
    "adapter rollback nobody": (2, "nobody"),
    "canary start none 60": (2, "less than or equal to 50"),
    "canary start none 10": (2, "no adapter 'none' that you may see"),
    "shadow start none 0": (2, "greater than or equal to 1"),
    "shadow stop none": (2, "no adapter 'none' that you may see"),
    "manager rollback 99999 -r x": (1, "none that you may see"),
    "forget --dry-run": (2, "either --end-user or --text"),
}


def test_bad_commands_of_the_learning_plane_say_what_is_wrong(signed_in: Run) -> None:
    wrong = []
    for command, (code, words) in REFUSED.items():
        outcome = signed_in(*command.split(" "))
        said = " ".join(outcome.err.replace("│", " ").split())
        if outcome.code != code or words not in said or "Traceback" in said:
            wrong.append((command, outcome.code, said[:400]))
    assert wrong == [], wrong
    assert not TrainingRun.objects.exists()


@pytest.mark.parametrize("command", ["run show", "run cost", "run pause", "run resume", "run retry", "run cancel"])
def test_another_projects_run_is_not_there(signed_in: Run, command: str) -> None:
    other = make_project("secret")
    Member.objects.filter(project=other).delete()
    worker = make_worker(other, name="spy")
    batch = Batch.objects.create(project=other, worker=worker, number=1, target_tasks=1, state="closed")
    run = TrainingRun.objects.create(project=other, worker=worker, batch=batch, recipe={}, state="failed", failure="x")
    outcome = signed_in(*command.split(" "), str(run.pk))
    assert (outcome.code, outcome.out) == (1, "")
    assert "No such thing here, or none that you may see." in outcome.err
    run.refresh_from_db()
    assert (run.state, run.failure) == ("failed", "x")


def test_another_projects_adapter_is_not_there(signed_in: Run) -> None:
    worker = make_worker(make_project("secret"), name="spy")
    Member.objects.filter(project=worker.project).delete()
    hidden = Adapter.objects.create(
        project=worker.project, worker=worker, name="spy@v1", version=1, line_version=1, uri="file:///a", manifest={}
    )
    for command in (f"adapter promote {hidden.pk}", f"canary start {hidden.pk} 10", f"shadow start {hidden.pk} 10"):
        outcome = signed_in(*command.split(" "))
        assert (outcome.code, outcome.out) == (1, "")
        assert "No such thing here, or none that you may see." in outcome.err
    hidden.refresh_from_db()
    assert hidden.state == "candidate"
