"""What managers learnt, from the command line, on a real platform."""

from apps.accounts.models import Project
from apps.training.models import ManagerRun
from tests.cli.conftest import Run
from tests.e2e.quality_scenery import let_a_manager_learn


def test_fits_are_listed_shown_and_taken_back(signed_in: Run) -> None:
    project = Project.objects.get()
    assert "no manager learnt anything yet" in signed_in("manager", "runs").out
    let_a_manager_learn(project)
    fit = ManagerRun.objects.get(state="applied")
    assert "refused" in signed_in("manager", "runs").out
    listed = signed_in("manager", "runs", "--manager", "agent:rubric:desk", "--state", "applied", "--json").json
    assert [row["id"] for row in listed] == [fit.pk]
    assert signed_in("manager", "show", str(fit.pk), "--json").json["weights"] == fit.weights
    assert signed_in("manager", "rollback", str(fit.pk)).code == 2
    assert signed_in("manager", "rollback", str(fit.pk), "-r", "it fell").code == 0
    assert signed_in("manager", "rollback", str(fit.pk), "-r", "again").code == 1
    fit.refresh_from_db()
    assert fit.state == "rolled_back"
