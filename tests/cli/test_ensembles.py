"""Ensembles from the command line, on a real platform."""

from apps.accounts.models import Project
from tests.cli.conftest import Run
from tests.factories import make_worker


def test_an_ensemble_from_its_making_to_its_end(signed_in: Run) -> None:
    for name in ("first", "second", "third"):
        make_worker(Project.objects.get(), name, kind="desk")
    made = signed_in("ensemble", "create", "duo", "-m", "first", "-m", "second")
    assert (made.code, made.out.strip()) == (0, "ensemble/duo asks first, second")
    assert signed_in("ensemble", "show", "duo", "--json").json["wait_s"] == 30
    assert "ensemble/duo" in signed_in("ensemble", "list").out
    changed = signed_in("ensemble", "change", "duo", "-m", "third", "-m", "first", "--wait", "5", "--json").json
    assert (changed["members"], changed["wait_s"]) == (["third", "first"], 5)
    assert signed_in("ensemble", "change", "duo").code == 2
    refused = signed_in("ensemble", "create", "solo", "-m", "first")
    assert (refused.code, "wanted 2 to 8 workers" in refused.err) == (1, True)
    assert signed_in("ensemble", "remove", "duo").out.strip() == "ensemble/duo is removed"
    assert signed_in("ensemble", "list").out.strip() == "no ensembles"
