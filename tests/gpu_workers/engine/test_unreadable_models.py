"""Models that cannot be served are named before anything starts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from gpu_workers.engine import Engine, __main__
from gpu_workers.engine.errors import EngineError

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]
Harm = Callable[[Path], object]


def halve(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_config(**changes: Any) -> Harm:
    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))

    return change


def drop_weight(directory: Path) -> None:
    path = directory / "model.safetensors"
    weights = load_file(path)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, path, metadata={"format": "pt"})


def point_at_shards(directory: Path) -> None:
    (directory / "model.safetensors").rename(directory / "model-1.safetensors")
    shards = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(shards))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (halve, "model.safetensors is no whole safetensors file"),
        (point_at_shards, "cannot read .*model-2.safetensors"),
        (drop_weight, "the weights lack model.layers.1.mlp.up_proj.weight"),
        (lambda there: (there / "tokenizer.json").unlink(), "holds no tokenizer.json"),
        (lambda there: (there / "tokenizer.json").write_text("{}"), "cannot read .*tokenizer.json"),
        (change_config(vocab_size=599), r"must have shape \(599, 48\) by the config, found \(600, 48\)"),
        (change_config(quantization_config={"quant_method": "gptq", "bits": 4}), "quantised by gptq"),
        (change_config(model_type="nothing-known"), "cannot read the model"),
        (lambda there: (there / "chat_template.jinja").write_text("{% if %}"), "the chat template cannot be read"),
    ],
)
def test_what_a_directory_lacks_is_named(
    model_directory: Callable[[str], Path], tmp_path: Path, harm: Harm, words: str
) -> None:
    directory = tmp_path / "model"
    shutil.copytree(model_directory("qwen2"), directory)
    harm(directory)
    with pytest.raises(EngineError, match=words):
        Engine("tiny", directory)


def test_a_model_larger_than_the_machine_is_refused_before_it_is_read(
    model_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "_count_memory", lambda: 1 << 17)
    monkeypatch.setattr(Engine, "open", lambda *_, **__: pytest.fail("it was read"))
    assert __main__.main(["--model", str(model_directory("qwen2"))]) == 1
    assert "KiB of memory, the machine has 128 KiB" in capsys.readouterr().err
