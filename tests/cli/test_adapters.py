"""`tentalis adapter`: quarantine and release for a reason, and exports in the forms that other programs take."""

import hashlib
import json
from pathlib import Path
from shutil import copytree
from zipfile import ZipFile

import pytest
from pytest_django import Settings

from apps.adapters.models import Adapter
from apps.workers.models import Worker
from tentalis.core.canon import canonical_json
from tests.apps.adapters.desk_adapters import make_served
from tests.cli.conftest import Run


@pytest.fixture
def adapter(signed_in: Run, settings: Settings, tmp_path: Path) -> Adapter:
    settings.ARTIFACTS = tmp_path
    return make_served(Worker.objects.get(), 1, tmp_path / "made")


def test_people_are_asked_to_compare_where_the_gate_left_it_open(signed_in: Run, adapter: Adapter) -> None:
    told = signed_in("adapter", "compare", adapter.name)
    assert (told.code, "cannot be compared by people: wanted candidate, found verified" in told.err) == (1, True)


def test_one_is_put_under_suspicion_and_released(signed_in: Run, adapter: Adapter) -> None:
    for command in ("quarantine", "release"):
        assert signed_in("adapter", command, adapter.name).code == 2, "a reason is wanted"
    told = signed_in("adapter", "quarantine", adapter.name, "--reason", "It flatters.", "--json")
    assert (told.code, told.json["state"], told.json["suspicion"]) == (0, "quarantined", "It flatters.")
    assert adapter.name in signed_in("adapter", "list", "--state", "quarantined").out
    refused = signed_in("adapter", "promote", adapter.name)
    assert (refused.code, "verified or retired, found quarantined" in refused.err) == (1, True)
    told = signed_in("adapter", "release", str(adapter.pk), "--reason", "Read a hundred answers.")
    assert (told.code, "verified" in told.out) == (0, True)
    again = signed_in("adapter", "release", adapter.name, "--reason", "Once more.")
    assert (again.code, "wanted quarantined, found verified" in again.err) == (1, True)


def test_it_is_saved_as_a_zip_in_pefts_layout(signed_in: Run, adapter: Adapter, tmp_path: Path) -> None:
    out = tmp_path / "one.zip"
    told = signed_in("adapter", "export", adapter.name, "--out", str(out), "--json")
    assert (told.code, told.json["format"], told.json["size_bytes"]) == (0, "peft", out.stat().st_size)
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(ZipFile(out).namelist())


@pytest.mark.torch
@pytest.mark.parametrize("is_kept", [False, True])
def test_it_is_merged_into_its_base_as_its_page_prints_it(
    signed_in: Run, adapter: Adapter, tmp_path: Path, *, is_kept: bool
) -> None:
    from safetensors.torch import load_file, save_file

    from gpu_workers.desk import base_directory
    from gpu_workers.engine.checkpoint import hash_files, weight_files

    base, name = base_directory(), "desk"
    if is_kept:
        base = Path(copytree(base, tmp_path / "kept"))
        name = str(base)
        (weights,) = weight_files(base)
        save_file({name: 2 * tensor for name, tensor in load_file(weights).items()}, weights)
    manifest = tmp_path / "made" / f"v1-{adapter.worker_id}" / "manifest.json"
    made_for = json.loads(manifest.read_bytes()) | {"base_model": name, "base_sha256": hash_files(weight_files(base))}
    manifest.write_bytes(canonical_json(made_for))
    Adapter.objects.update(sha256=hashlib.sha256(manifest.read_bytes()).hexdigest())
    out = tmp_path / "merged"
    told = signed_in("adapter", "export", adapter.name, "--format", "merged", "--out", str(out))
    assert (told.code, told.out.strip()) == (0, str(out)), told.err
    assert json.loads((out / "config.json").read_text())["architectures"]
    assert list(out.glob("*.safetensors"))


def test_what_cannot_be_is_said(signed_in: Run, adapter: Adapter, tmp_path: Path) -> None:
    unknown = signed_in("adapter", "export", adapter.name, "--format", "onnx")
    assert (unknown.code, "peft, merged, gguf, ollama" in unknown.err) == (2, True)
    out = tmp_path / "one.gguf"
    gguf = signed_in("adapter", "export", adapter.name, "--format", "gguf", "--out", str(out))
    assert (gguf.code, "convert_lora_to_gguf.py" in gguf.err, out.exists()) == (1, True, False)
