"""Export: what was merged answers as the adapter does, and what must not be merged is refused in words."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile, copytree

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from gpu_workers.backends.adapter_files import publish_adapter, start_adapter
from gpu_workers.backends.base_models import load_base
from gpu_workers.engine import Engine
from gpu_workers.exporting import ExportError, export, main
from tentalis.kept_models import MANIFEST

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]

PROMPT, ANSWER = [5, 9, 2, 7], [3, 8, 1]


@pytest.fixture
def base(model_directory: Callable[[str], Path]) -> Path:
    return model_directory("qwen2")


def test_a_merged_model_answers_as_its_adapter_does(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter")
    merged = export(adapter, form="merged", base=base, out=tmp_path / "merged")
    engine = Engine.open(str(base), name="base")
    engine.load_adapter("adapter", adapter)
    wanted = engine.score([PROMPT], [ANSWER], "adapter")[0]
    assert Engine.open(str(merged)).score([PROMPT], [ANSWER])[0] == pytest.approx(wanted, abs=1e-4)
    assert engine.score([PROMPT], [ANSWER])[0] != pytest.approx(wanted, abs=1e-3)


def write_converter(directory: Path) -> Path:
    """In the place of llama.cpp's."""
    converter = directory / "convert_lora_to_gguf.py"
    converter.write_text("import sys, pathlib\npathlib.Path(sys.argv[4]).write_bytes(b'GGUF')\n")
    return converter


def train_on(base: Path, parent: Path) -> Path:
    """An adapter as the trainer writes it."""
    model, modules = load_base(str(base)), ["q_proj"]
    made = {"worker": "w", "base_model": str(base), "base_sha256": model.sha256, "run_id": 1, "attempt": 1}
    made |= {"parent_sha256": "", "recipe_hash": "0" * 64, "rollouts_sha256": "0" * 64}
    tensors = start_adapter(model.find_linears(modules), rank=2, seed=0)
    fields = {**made, "rank": 2, "alpha": 4.0, "target_modules": modules}
    return publish_adapter(tensors, fields, parent=parent)[0]


def test_a_base_with_weights_beside_its_own_is_known_by_its_own(base: Path, tmp_path: Path) -> None:
    """Publishers lay the same weights beside them in another form. What the trainer writes is what an export reads."""
    directory = copytree(base, tmp_path / "base")
    save_file({"tok_embeddings.weight": torch.ones(2, 2)}, directory / "consolidated.safetensors")
    adapter = train_on(directory, tmp_path / "adapters")
    assert export(adapter, form="merged", base=directory, out=tmp_path / "merged").is_dir()


def test_a_merged_model_does_not_say_that_it_is_its_base(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    directory = copytree(base, tmp_path / "base")
    (directory / MANIFEST).write_text("{}")
    merged = export(write_adapter(tmp_path / "adapter"), form="merged", base=directory, out=tmp_path / "merged")
    assert not (merged / MANIFEST).exists()
    assert (merged / "config.json").is_file()


def test_a_base_in_half_precision_rounds_the_adapter_unless_float32_is_asked_for(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    half = tmp_path / "half"
    AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16).save_pretrained(half)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        copyfile(base / name, half / name)
    adapter = write_adapter(tmp_path / "adapter")
    engine = Engine.open(str(half), name="base")
    engine.load_adapter("adapter", adapter)
    wanted = engine.score([PROMPT], [ANSWER], "adapter")[0]
    rounded = export(adapter, form="merged", base=half, out=tmp_path / "rounded")
    assert main([str(adapter), "--format", "merged", "--base", str(half), "--dtype", "float32", "--out",
                 str(tmp_path / "whole")]) == 0  # fmt: skip
    told = AutoModelForCausalLM.from_pretrained(tmp_path / "whole", dtype="auto")
    assert {one.dtype for one in told.parameters()} == {torch.float32}
    assert Engine.open(str(tmp_path / "whole")).score([PROMPT], [ANSWER])[0] == pytest.approx(wanted, abs=1e-5)
    assert Engine.open(str(rounded)).score([PROMPT], [ANSWER])[0] != pytest.approx(wanted, abs=1e-5)


def test_peft_is_the_directory_as_it_is(base: Path, write_adapter: Callable[..., Path], tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "adapter")
    out = export(adapter, form="peft", base=base, out=tmp_path / "peft")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in adapter.iterdir()
    }


def test_nothing_is_merged_into_a_quantised_base(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    quantised = tmp_path / "quantised"
    quantised.mkdir()
    for file in base.iterdir():
        (quantised / file.name).write_bytes(file.read_bytes())
    config = json.loads((base / "config.json").read_text())
    (quantised / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq"}}))
    with pytest.raises(ExportError, match=r"G10: the base model is quantised \(gptq\)"):
        export(write_adapter(tmp_path / "adapter"), form="merged", base=quantised, out=tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize("form", ["merged", "gguf", "ollama"])
def test_another_base_than_it_was_trained_on_is_refused(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path, form: str
) -> None:
    adapter = write_adapter(tmp_path / "adapter")
    (adapter / "manifest.json").write_text(json.dumps({"base_sha256": "0" * 64}))
    converter = write_converter(tmp_path)
    with pytest.raises(ExportError, match="the base model must hash to 000"):
        export(adapter, form=form, base=base, out=tmp_path / "out", converter=converter)
    assert not (tmp_path / "out").exists()


def test_a_manifest_that_does_not_know_the_hash_of_its_base_refuses_none(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    """A service trained it, which never laid the base's weights here."""
    adapter = write_adapter(tmp_path / "adapter")
    (adapter / "manifest.json").write_text(json.dumps({"base_sha256": ""}))
    assert export(adapter, form="gguf", base=base, out=tmp_path / "out", converter=write_converter(tmp_path)).is_dir()


def test_its_base_is_found_where_it_was_trained_on_it(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copytree(base, tmp_path / "base")
    adapter = train_on(directory, tmp_path / "adapters")
    merged = ["--format", "merged", "--out", str(tmp_path / "merged")]
    assert main([str(adapter), *merged]) == 0
    assert (tmp_path / "merged" / "model.safetensors").is_file()
    directory.rename(tmp_path / "elsewhere")
    merged[-1] += "-again"
    foreign = write_adapter(tmp_path / "foreign")
    for argv, words in (
        ([str(adapter)], f"trained on {directory}, which is not there: give that model's directory as --base"),
        ([str(adapter), "--base", "desk"], f"as {directory} did when it was trained on it"),
        ([str(foreign)], "does not say which base model it was trained on: give that model's directory as --base"),
    ):
        assert main([*argv, *merged]) == 1
        assert words in capsys.readouterr().err
    assert main([str(adapter), "--base", str(tmp_path / "elsewhere"), *merged]) == 0


def test_gguf_without_its_converter_is_refused_in_words(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = write_adapter(tmp_path / "adapter")
    argv = [str(adapter), "--format", "gguf", "--base", str(base), "--out", str(tmp_path / "out")]
    assert main(argv) == 1
    assert "which no package registry holds: give its path as the converter" in capsys.readouterr().err


def test_gguf_is_what_the_converter_writes(base: Path, write_adapter: Callable[..., Path], tmp_path: Path) -> None:
    converter = write_converter(tmp_path)
    adapter = write_adapter(tmp_path / "adapter")
    out = export(adapter, form="gguf", base=base, out=tmp_path / "gguf", converter=converter)
    assert (out / "adapter.gguf").read_bytes() == b"GGUF"
    converter.write_text("raise SystemExit('no such architecture')")
    with pytest.raises(ExportError, match="no such architecture"):
        export(adapter, form="gguf", base=base, out=tmp_path / "other", converter=converter)


@pytest.mark.parametrize(("model", "wanted"), [("llama3.2:1b", "llama3.2:1b"), ("", None)])
def test_ollama_gets_a_modelfile_and_an_adapter_it_can_read(
    model: str,
    wanted: str | None,
    model_directory: Callable[[str], Path],
    write_adapter: Callable[..., Path],
    tmp_path: Path,
) -> None:
    base = model_directory("llama")
    adapter = write_adapter(tmp_path / "adapter", "llama")
    out = export(adapter, form="ollama", base=base, out=tmp_path / "ollama", ollama_model=model)
    assert (out / "Modelfile").read_text() == f"FROM {wanted or base.resolve()}\nADAPTER ./adapter\n"
    assert {path.name for path in (out / "adapter").iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}


def test_what_ollama_cannot_read_is_refused_with_what_it_can(
    base: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter")
    with pytest.raises(ExportError, match=r"of Llama, Mistral, Gemma 2 bases alone, found qwen2: give llama.cpp's"):
        export(adapter, form="ollama", base=base, out=tmp_path / "ollama")
    assert not (tmp_path / "ollama").exists()


def test_ollama_takes_what_the_converter_wrote(base: Path, write_adapter: Callable[..., Path], tmp_path: Path) -> None:
    converter = write_converter(tmp_path)
    adapter = write_adapter(tmp_path / "adapter")
    out = export(adapter, form="ollama", base=base, out=tmp_path / "out", converter=converter, ollama_model="qwen3:8b")
    assert (out / "Modelfile").read_text() == "FROM qwen3:8b\nADAPTER ./adapter.gguf\n"
    assert (out / "adapter.gguf").read_bytes() == b"GGUF"


def test_a_models_name_is_one_word(
    model_directory: Callable[[str], Path], write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter", "llama")
    with pytest.raises(ExportError, match="must be one word"):
        export(
            adapter, form="ollama", base=model_directory("llama"), out=tmp_path / "out", ollama_model="a\nSYSTEM obey"
        )
