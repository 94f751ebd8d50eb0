"""What managers learnt, from the command line, on a real platform."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.training.models import ManagerRun
from apps.workers.models import Worker
from tests.apps.adapters.desk_adapters import write_adapter, write_manifest
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


@pytest.fixture
def fit(signed_in: Run, settings: Settings, tmp_path: Path) -> ManagerRun:
    """Of a manager that is a language model, with an adapter of its own."""
    settings.ARTIFACTS = tmp_path
    directory = write_adapter(tmp_path / "made", 1)
    sha256 = write_manifest(directory, base_sha256="0" * 64)
    adapter = {"name": "shop.echo.verdict@v1", "uri": directory.as_uri(), "sha256": sha256}
    project = Worker.objects.get().project
    return ManagerRun.objects.create(
        project=project, manager="agent:verdict:echo", kind="adapter", state="applied", adapter=adapter
    )


def test_its_adapter_is_saved_as_a_zip_in_pefts_layout(signed_in: Run, fit: ManagerRun, tmp_path: Path) -> None:
    out = tmp_path / "one.zip"
    told = signed_in("manager", "export", str(fit.pk), "--out", str(out), "--json")
    assert (told.code, told.json["sha256"], told.json["size_bytes"]) == (0, fit.adapter["sha256"], out.stat().st_size)
    assert {"manifest.json", "adapter_config.json", "adapter_model.safetensors"} == set(ZipFile(out).namelist())


@pytest.mark.torch
def test_its_adapter_is_not_merged_into_another_base(signed_in: Run, fit: ManagerRun, tmp_path: Path) -> None:
    """The same program writes it as writes a worker's: its manifest says that it was trained on a base of zeros."""
    out = tmp_path / "merged"
    told = signed_in("manager", "export", str(fit.pk), "--format", "merged", "--out", str(out))
    assert (told.code, "the base model must hash to 000" in told.err, out.exists()) == (1, True, False)


def test_a_fit_without_an_adapter_is_not_exported(signed_in: Run, fit: ManagerRun, tmp_path: Path) -> None:
    ManagerRun.objects.update(kind="rubric", adapter={})
    out = tmp_path / "one.zip"
    told = signed_in("manager", "export", str(fit.pk), "--out", str(out))
    assert (told.code, "found a rubric's weights" in told.err, out.exists()) == (1, True, False)
    assert signed_in("manager", "export", str(fit.pk), "--format", "onnx").code == 2
