"""A model that lies on this machine is looked over, copied, tried out and kept; what is no such model is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tentalis.cli import main
from tentalis.cli.kept_model import keep_model
from tentalis.kept_models import (
    INDEX,
    KeptModelError,
    find_model,
    list_models,
    models_directory,
    read_weight_head,
)
from tentalis.platform.home import Home
from tentalis.platform.model_adding import add_model, read_licence
from tests.gpu_workers.small_gguf import write_gguf
from tests.gpu_workers.templated import make_templated_model

pytestmark = pytest.mark.torch
Harm = Callable[[Path], object]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    monkeypatch.setenv("TENTALIS_HOME", str(place))
    monkeypatch.setenv("COLUMNS", "240")
    return place


@pytest.fixture
def brought(tmp_path: Path) -> Path:
    """A tiny model as somebody brings it."""
    return Path(shutil.copytree(make_templated_model("qwen2.5"), tmp_path / "tiny"))


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["model", *arguments])
    return int(str(stop.value.code or 0))


def test_a_directory_is_kept_with_what_was_seen_of_it_and_listed(
    home: Path, brought: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (brought / "README.md").write_text("---\nlicense: apache-2.0\n---\nTiny.\n")
    (brought / "run.py").write_text("raise SystemExit")
    assert _run("add", str(brought)) == 0
    assert "chat template: the model's own; licence: apache-2.0" in capsys.readouterr().out
    kept = find_model(home, "tiny")
    assert kept.facts is not None
    assert (kept.facts.family, kept.facts.is_fast, kept.facts.context_tokens) == ("qwen2", True, 4096)
    heads = read_weight_head(kept.directory / "model.safetensors")
    assert kept.facts.parameters * 4 == kept.facts.memory_bytes
    assert kept.facts.dtype in {kind for kind, _ in heads.values()}
    assert kept.facts.is_measured
    assert kept.facts.tokens_per_s
    assert "run.py" not in kept.files
    assert _run("list") == 0
    said = capsys.readouterr().out
    for words in ("tiny: qwen2", "the engine's own forward", "apache-2.0", f"{kept.facts.tokens_per_s:,.1f} tokens/s"):
        assert words in said
    assert _run("check", "tiny") == 0
    assert "measured here" in capsys.readouterr().out
    assert _run("add", str(brought)) == 1
    assert "is kept at" in capsys.readouterr().err


def test_what_a_demo_names_is_kept_once_and_what_nobody_has_is_named(
    home: Path, brought: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (brought, brought, "tiny"):
        assert keep_model(Home(home), str(place), accept_licence=False) == "tiny"
    assert [kept.name for kept in list_models(home)] == ["tiny"]
    assert capsys.readouterr().err.count("is kept already, from") == 2
    with pytest.raises(typer.BadParameter, match="found 'tinier'"):
        keep_model(Home(home), "tinier", accept_licence=False)


def _point_at_shards(directory: Path) -> None:
    weights = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (directory / INDEX).write_text(json.dumps({"weight_map": weights}))
    (directory / "model.safetensors").rename(directory / "model-1.safetensors")


def _change_config(**changes: object) -> Harm:
    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))

    return change


def _cut(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda there: (there / "tokenizer.json").unlink(), "no tokenizer: wanted tokenizer.json"),
        (lambda there: (there / "config.json").unlink(), "no config.json"),
        (_cut, "model.safetensors is not whole: wanted "),
        (lambda there: (there / "model.safetensors").write_bytes(b"x" * 99), "is no safetensors file"),
        (lambda there: (there / "model.safetensors").rename(there / "w.bin"), "found w.bin: pickled weights are never"),
        (_point_at_shards, "no model-2.safetensors: .* names 2 shards, 1 missing"),
        (lambda there: (there / "chat_template.jinja").unlink(), "`--chat-template none` keeps it without"),
        (_change_config(quantization_config={"quant_method": "gptq"}), "quantised by gptq, which can be neither"),
        (_change_config(vocab_size=99), "the tokenizer writes 259 tokens, the model knows 99"),
        (_change_config(hidden_size=32), "must have shape .* by the config, found"),
        (_change_config(model_type="nothing-known"), "cannot read the model"),
    ],
)
def test_what_a_directory_lacks_is_named_and_nothing_is_kept(home: Path, brought: Path, harm: Harm, words: str) -> None:
    harm(brought)
    with pytest.raises(KeptModelError, match=words):
        add_model(home, brought, name="tiny", say=lambda _: None)
    assert list_models(home) == []
    root = models_directory(home)
    assert not root.exists() or list(root.iterdir()) == []


def test_a_wrong_hash_a_wrong_path_and_a_wrong_name_are_told(home: Path, brought: Path) -> None:
    for path, told, words in (
        (brought, {"name": "tiny", "sha256": "0" * 64}, f"wanted weights of sha256 {'0' * 64}, found"),
        (brought / "nowhere", {"name": "tiny"}, "found nothing at"),
        (brought / "config.json", {"name": "tiny"}, "wanted a model's directory or a file .gguf, found the file"),
        (brought, {"name": "../tiny"}, "a model's name is"),
    ):
        with pytest.raises(KeptModelError, match=words):
            add_model(home, path, say=lambda _: None, **told)


def test_a_template_is_given_or_done_without(
    home: Path, brought: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (brought / "chat_template.jinja").unlink()
    assert _run("add", str(brought), "--name", "bare", "--chat-template", "none") == 0
    assert _run("check", "bare") == 0
    file = tmp_path / "mine.jinja"
    file.write_text("{{ messages[0].content }}")
    assert _run("add", str(brought), "--name", "mine", "--chat-template", str(file)) == 0
    assert (find_model(home, "mine").directory / "chat_template.jinja").read_text() == file.read_text()
    capsys.readouterr()
    file.write_text("{% for %}")
    assert _run("add", str(brought), "--name", "broken", "--chat-template", str(file)) == 1
    assert "the chat template cannot be read: line 1" in capsys.readouterr().err
    assert _run("add", str(brought), "--name", "none", "--chat-template", str(tmp_path / "no.jinja")) == 2
    assert [model.name for model in list_models(home)] == ["bare", "mine"]


def test_a_gguf_file_is_written_out_and_what_is_none_is_named(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_gguf(tmp_path / "m.gguf")
    assert _run("add", str(tmp_path / "m.gguf")) == 1
    assert "m.gguf holds no chat template" in capsys.readouterr().err
    assert _run("add", str(tmp_path / "m.gguf"), "--chat-template", "plain", "--licence", "Mine") == 0
    kept = find_model(home, "m")
    assert kept.facts is not None
    assert (kept.facts.family, kept.facts.dtype, kept.licence) == ("gemma3_text", "BF16", "Mine")
    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "half.gguf").write_bytes(whole[: len(whole) // 2])
    assert _run("add", str(tmp_path / "half.gguf"), "--chat-template", "plain") == 1
    assert "half.gguf cannot be read as a model" in capsys.readouterr().err
    assert _run("add", str(tmp_path / "m.gguf"), "--name", "n", "--sha256", "1" * 64) == 1
    assert f"wanted a file of sha256 {'1' * 64}" in capsys.readouterr().err


def test_a_licence_is_read_where_it_stands(tmp_path: Path) -> None:
    assert read_licence(tmp_path) == ""
    (tmp_path / "LICENSE.txt").write_text("Do as you like.")
    assert read_licence(tmp_path) == "see LICENSE.txt"
    (tmp_path / "README.md").write_text('---\ntags: [x]\nlicense: "mit"\n---\nlicense: no\n')
    assert read_licence(tmp_path) == "mit"
