"""`python -m gpu_workers.exporting ADAPTER --format merged --base desk --out DIR`: an adapter for other programs.

`peft` is the adapter's directory as it is; `merged` is the base model with the adapter added to its weights; `gguf` is
llama.cpp's adapter file, written by its own converter, which no package registry holds: its path must be given.
`ollama` is a Modelfile with what Ollama can load beside it.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from gpu_workers.desk import base_directory
from gpu_workers.engine.checkpoint import FAMILIES, hash_files, plain_shape, read_config, read_weights, weight_files
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.lora import CONFIG_FILE, WEIGHTS_FILE, read_adapter
from gpu_workers.engine.plain_model import PlainModel
from gpu_workers.engine.products import Dense, lay_out_plainly
from tentalis.core.learning.preflight_rules import ask_quantised
from tentalis.kept_models import MANIFEST

FORMATS = ("peft", "merged", "gguf", "ollama")
AUTO, FLOAT32 = "auto", "float32"
CONVERTER = "convert_lora_to_gguf.py"
CONVERTER_PATIENCE_S = 600
OLLAMA_CONVERTS = {"llama": "Llama", "mistral": "Mistral", "gemma2": "Gemma 2"}
"""Kinds of base model whose safetensors adapters Ollama turns into its own form. Source: `convert.go` of 0.33."""
_NOT_WEIGHTS = ("*.json", "*.txt", "*.model", "*.jinja", "*.md")


class ExportError(ValueError):
    """It cannot be exported so; the message says what was wanted and what was found."""


def export(
    adapter: Path,
    *,
    form: str,
    out: Path,
    base: Path | None = None,
    converter: Path | None = None,
    ollama_model: str = "",
    dtype: str = AUTO,
) -> Path:
    """Write an adapter in another form.

    Args:
        base: directory of the model it was trained on; None: where its manifest says that it was trained.
        ollama_model: what Ollama calls that model, for `ollama`; "": it imports the directory.
        out: a directory that is not there yet; for `gguf` the file's.
        converter: llama.cpp's `convert_lora_to_gguf.py`.
        dtype: of merged weights; "auto" is the base's own, into which the adapter is rounded, "float32" keeps it whole.
    Returns:
        What was written.
    Raises:
        ExportError: it cannot be; nothing is left behind.
        EngineError: the base or the adapter is not what it must be.
    """
    if out.exists():
        raise ExportError(f"{out} is there already: wanted a new place")
    staging = out.with_name(out.name + ".part")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        match form:
            case "peft":
                shutil.copytree(adapter, staging)
            case "merged":
                _merge(adapter, base or _find_base(adapter), staging, dtype)
            case "gguf":
                _convert(adapter, base or _find_base(adapter), staging, converter)
            case "ollama":
                _write_for_ollama(adapter, base or _find_base(adapter), staging, converter, ollama_model)
            case _:
                raise ExportError(f"format must be one of {', '.join(FORMATS)}, found {form!r}")
        staging.rename(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return out


def _merge(adapter: Path, base: Path, staging: Path, dtype: str) -> None:
    config = read_config(base)
    if (answer := ask_quantised(config)).passed is False:
        raise ExportError(f"{answer.gate}: {answer.words}")
    _check_base(adapter, base)
    shape = plain_shape(config)
    if shape is None:
        raise ExportError(
            f"a {config['model_type']} model of this kind is not merged here: wanted one of {', '.join(FAMILIES)}"
        )
    whole = read_weights(base)
    adaptable = PlainModel(shape, whole, lay_out=lay_out_plainly(Dense)).adaptable
    pairs = read_adapter(adapter, adaptable, base_sha256=None).pairs
    staging.mkdir()
    for pattern in _NOT_WEIGHTS:
        for file in base.glob(pattern):
            if "safetensors.index" not in file.name and file.name != MANIFEST:  # whose files these are no more
                shutil.copyfile(file, staging / file.name)
    kinds = {name: one.dtype for path in weight_files(base) for name, one in load_file(path).items()}
    if dtype == FLOAT32:
        kinds = dict.fromkeys(kinds, torch.float32)
        told = {name: value for name, value in config.items() if name != "torch_dtype"} | {"dtype": FLOAT32}
        (staging / "config.json").write_text(json.dumps(told, indent=2), encoding="utf-8")
    merged = {
        name: (weight + pairs[name].delta() if name in pairs else weight).to(kinds[name]).contiguous()
        for name, weight in whole.items()
    }
    for name, weight in merged.items():
        if not bool(torch.isfinite(weight).all()):
            raise ExportError(f"{name} is not finite in {kinds[name]} once the adapter is added")
    save_file(merged, staging / "model.safetensors", {"format": "pt"})


def _place_base(name: str) -> Path:
    return base_directory() if name == "desk" else Path(name).expanduser()


def _find_base(adapter: Path) -> Path:
    """Where its manifest says that it was trained. Raises ExportError where nothing is there, or nothing is said."""
    named = _read_manifest(adapter).get("base_model")
    if not named:
        raise ExportError("it does not say which base model it was trained on: give that model's directory as --base")
    if not (base := _place_base(named)).is_dir():
        raise ExportError(f"it was trained on {named}, which is not there: give that model's directory as --base")
    return base


def _check_base(adapter: Path, base: Path) -> None:
    """Raises ExportError for another base than the one it was trained on, if its manifest knows that one's hash."""
    manifest = _read_manifest(adapter)
    if (wanted := manifest.get("base_sha256")) and wanted != (found := hash_files(weight_files(base))):
        raise ExportError(
            f"the base model must hash to {wanted}, as {manifest.get('base_model')} did when it was trained on it; "
            f"{base} hashes to {found}: give the directory of that model as --base"
        )


def _read_manifest(adapter: Path) -> Mapping[str, str]:
    """{} where it has none: another program's adapter."""
    try:
        manifest: Mapping[str, str] = json.loads((adapter / "manifest.json").read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ExportError(f"{adapter / 'manifest.json'} cannot be read: {error}") from error
    return manifest


def _convert(adapter: Path, base: Path, staging: Path, converter: Path | None) -> None:
    if converter is None or not converter.is_file():
        raise ExportError(
            f"GGUF adapters are written by llama.cpp's {CONVERTER}, which no package registry holds: "
            f"give its path as the converter, found {converter or 'none'}"
        )
    _check_base(adapter, base)
    staging.mkdir()
    target = staging / "adapter.gguf"
    argv = [sys.executable, str(converter), "--base", str(base), "--outfile", str(target), str(adapter)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=CONVERTER_PATIENCE_S, check=False)
    if done.returncode != 0 or not target.is_file():
        raise ExportError(f"{converter.name} ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def _write_for_ollama(adapter: Path, base: Path, staging: Path, converter: Path | None, model: str) -> None:
    """A Modelfile, and the adapter as safetensors where Ollama reads that, else as GGUF."""
    kind = str(read_config(base).get("model_type"))
    if converter is None and kind not in OLLAMA_CONVERTS:
        raise ExportError(
            f"Ollama reads safetensors adapters of {', '.join(OLLAMA_CONVERTS.values())} bases alone, found {kind}: "
            f"give llama.cpp's {CONVERTER} as the converter, or export it merged and have Ollama import that model"
        )
    if any(sign.isspace() for sign in model):
        raise ExportError(f"the model's name in Ollama must be one word like llama3.2:1b, found {model!r}")
    if converter is not None:
        _convert(adapter, base, staging, converter)
        place = "./adapter.gguf"
    else:
        _check_base(adapter, base)
        (staging / "adapter").mkdir(parents=True)
        for name in (CONFIG_FILE, WEIGHTS_FILE):
            shutil.copyfile(adapter / name, staging / "adapter" / name)
        place = "./adapter"
    (staging / "Modelfile").write_text(f"FROM {model or base.resolve()}\nADAPTER {place}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 written, 1 refused."""
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.exporting", description="An adapter for others.")
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--format", choices=FORMATS, default="peft")
    parser.add_argument("--base", help="desk, or the directory of the model it was trained on; default: as it says")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--converter", type=Path, help=f"path to llama.cpp's {CONVERTER}")
    parser.add_argument("--ollama-model", default="", help="what Ollama calls the base, like llama3.2:1b")
    parser.add_argument("--dtype", choices=(AUTO, FLOAT32), default=AUTO, help="of merged weights; auto: the base's")
    given = parser.parse_args(argv)
    try:
        written = export(
            given.adapter,
            form=given.format,
            base=_place_base(given.base) if given.base else None,
            out=given.out,
            converter=given.converter,
            ollama_model=given.ollama_model,
            dtype=given.dtype,
        )
    except (ExportError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{written}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
