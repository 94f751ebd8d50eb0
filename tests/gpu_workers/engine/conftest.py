"""Tiny random models of several architectures on disk, and PEFT adapters for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
)

from gpu_workers.desk import base_directory
from gpu_workers.engine import Engine

VOCABULARY = 600
_HEADS: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
_LLAMA_3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_GEMMA_ROPES = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0},
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("qwen2", {**_HEADS, "tie_word_embeddings": True}),
    "llama": (
        "llama",
        {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 8, "tie_word_embeddings": False},
    ),
    "llama3": (
        "llama",
        {
            **_HEADS,
            "rope_parameters": {**_LLAMA_3, "original_max_position_embeddings": 16},
            "tie_word_embeddings": True,
        },
    ),
    "qwen3": ("qwen3", {**_HEADS, "head_dim": 16, "tie_word_embeddings": False}),
    "mistral": ("mistral", {**_HEADS, "sliding_window": 6}),
    "smollm3": ("smollm3", {**_HEADS, "num_hidden_layers": 4, "tie_word_embeddings": True}),
    "gemma3": (
        "gemma3_text",
        {
            **_HEADS,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "query_pre_attn_scalar": 8,
            "num_hidden_layers": 3,
            "sliding_window": 5,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": _GEMMA_ROPES,
        },
    ),
}
"""By architecture: Hugging Face's model_type, and its config."""


def make_model(architecture: str) -> PreTrainedModel:
    """A random model whose weights are large enough that mistakes show."""
    torch.manual_seed(5)
    shared: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
    sizes: dict[str, Any] = {
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "intermediate_size": 80,
        "max_position_embeddings": 128,
    }
    if architecture in FAMILIES:
        model_type, own = FAMILIES[architecture]
        settings = shared | sizes | own
    else:
        model_type, settings = architecture, shared | {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 128}
    model: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **settings))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 or name.endswith("bias"):
                parameter.normal_(0, 0.05 if architecture == "gemma3" else 0.25)
            elif "norm" in name and architecture not in ("qwen2", "llama", "gpt2"):
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.train(False)
    return model


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Directory of a tiny model by architecture: one of FAMILIES, or gpt2."""
    root = tmp_path_factory.mktemp("models")

    def find(architecture: str) -> Path:
        directory = root / architecture
        if not directory.exists():
            make_model(architecture).save_pretrained(directory)
            AutoTokenizer.from_pretrained(base_directory()).save_pretrained(directory)
        return directory

    return find


@pytest.fixture(scope="session")
def write_adapter(model_directory: Callable[[str], Path]) -> Callable[..., Path]:
    """Write a random PEFT adapter for a tiny model; the same seed gives the same adapter."""

    def write(directory: Path, architecture: str = "qwen2", seed: int = 0, **settings: object) -> Path:
        torch.manual_seed(seed)
        modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        config = {"r": 4, "lora_alpha": 8, "target_modules": modules, "lora_dropout": 0.0} | settings
        peft_model = get_peft_model(make_model(architecture), LoraConfig(task_type="CAUSAL_LM", **config))
        with torch.no_grad():
            for name, parameter in peft_model.named_parameters():
                if "lora_" in name:
                    torch.manual_seed(seed + len(name))
                    parameter.normal_(0, 0.2)
        peft_model.save_pretrained(str(directory))
        return directory

    return write


@pytest.fixture(scope="session")
def write_overflowing_adapter(write_adapter: Callable[..., Path]) -> Callable[[Path], Path]:
    """Write an adapter of finite numbers whose values are not."""

    def write(directory: Path) -> Path:
        file = write_adapter(directory, seed=2) / "adapter_model.safetensors"
        scaled = {name: tensor * (3e38 if ".v_proj.lora_A" in name else 0) for name, tensor in load_file(file).items()}
        save_file({name: tensor.clamp(-3e38, 3e38) for name, tensor in scaled.items()}, file)
        return directory

    return write


@pytest.fixture
def engine(model_directory: Callable[[str], Path]) -> Engine:
    """An in-process engine over the tiny Qwen2."""
    return Engine("tiny", model_directory("qwen2"))
