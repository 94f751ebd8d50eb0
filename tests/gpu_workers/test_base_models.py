"""A base model is read from its files: what the trainer's own forward computes with and nothing else, whatever wrote
them; and one that cannot be trained is named before anything starts."""

import dataclasses
import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.hugging_face_decoder import HuggingFaceDecoder
from gpu_workers.backends.plain_decoder import PlainDecoder
from gpu_workers.engine.checkpoint import FAMILIES as MODEL_TYPES
from gpu_workers.engine.checkpoint import plain_shape, read_config
from gpu_workers.learning.packing import PackedRow
from tests.gpu_workers.engine.conftest import FAMILIES, make_model
from tests.gpu_workers.engine.test_unreadable_models import Harm, change_config, drop_weight, halve, point_at_shards
from tests.gpu_workers.hugging_face import module_of
from tests.gpu_workers.learning.training_factory import tiny_model

pytestmark = pytest.mark.torch
ROWS = [PackedRow([5, 6, 7], [[8, 9, 1], [10, 11, 12, 1]])]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model(), tmp_path / "model"))


def drop_from_config(name: str) -> Harm:
    def drop(there: Path) -> None:
        config = read_config(there)
        del config[name]
        (there / "config.json").write_text(json.dumps(config))

    return drop


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (halve, "model.safetensors is no whole safetensors file"),
        (point_at_shards, "cannot read .*model-2.safetensors"),
        (drop_weight, "the weights lack model.layers.1.mlp.up_proj.weight"),
        (
            change_config(vocab_size=31),
            r"tokens.weight must have shape \(31, 16\) by the config, found \(32, 16\)",
        ),
        (change_config(intermediate_size=30), r"gate_proj.weight must have shape \(30, 16\) by the config, found \(32"),
        (drop_from_config("max_position_embeddings"), "config.json names no max_position_embeddings"),
        (drop_from_config("vocab_size"), "config.json names no vocab_size"),
        (drop_from_config("model_type"), "names no model_type"),
        (lambda there: (there / "config.json").unlink(), "cannot read .*config.json"),
        (lambda there: (there / "tokenizer.json").unlink(), "holds no tokenizer.json"),
        (change_config(quantization_config={"quant_method": "gptq", "bits": 4}), "quantised by gptq"),
        (change_config(model_type="nothing-known"), "cannot read the model"),
    ],
)
def test_what_a_directory_lacks_is_named(directory: Path, harm: Harm, words: str) -> None:
    harm(directory)
    with pytest.raises(BaseModelError, match=f"cannot load the model at {directory}.*{words}"):
        load_base(str(directory))


def split_weights(there: Path) -> None:
    whole = AutoModelForCausalLM.from_pretrained(there)
    (there / "model.safetensors").unlink()
    whole.save_pretrained(there, max_shard_size="6KB")
    assert len(list(there.glob("*.safetensors"))) > 1


def keep_more(there: Path) -> None:
    """A head beside the embedding that is the head, and what old writers kept of the turns."""
    weights = load_file(there / "model.safetensors")
    weights |= {"lm_head.weight": torch.ones(32, 16), "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}
    save_file(weights, there / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("change", [split_weights, keep_more])
def test_shards_and_tensors_that_nobody_asks_for_change_nothing(
    directory: Path, change: Callable[[Path], None]
) -> None:
    wanted = load_base(str(tiny_model()))
    change(directory)
    found = load_base(str(directory))
    assert found.sha256 != wanted.sha256
    assert found.decoder.weight_numbers == wanted.decoder.weight_numbers
    scores = [base.score(base.lay_out(ROWS), {}).logprobs for base in (found, wanted)]
    assert torch.equal(*scores)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_is_read_as_hugging_face_reads_it(family: str, tmp_path: Path) -> None:
    make_model(family).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert plain_shape(read_config(tmp_path)) == plain_shape(config.to_dict())


def test_its_linear_modules_stand_in_the_order_of_hugging_face() -> None:
    """An adapter is drawn in it: in another order the same seed would start another adapter."""
    base = load_base(str(tiny_model()))
    assert isinstance(base.decoder, PlainDecoder)
    reference = HuggingFaceDecoder(module_of(base))
    assert list(base.decoder.linears) == list(reference.linears)
    assert base.decoder.weight_numbers == reference.weight_numbers
    assert base.shape == dataclasses.replace(reference.shape, name=base.shape.name)


def make_other(family: str, **told: Any) -> Any:
    """A random model of a family that the trainer's own forward does not know, its weights large enough to matter."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2, **told,
    )  # fmt: skip
    model: Any = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    with torch.no_grad():
        for one in model.parameters():
            if one.dim() > 1:
                one.mul_(5)
    return model


@pytest.mark.parametrize(
    ("family", "told", "widest"),
    [
        ("phi3", {"sliding_window": 24}, 24),
        ("phi3", {"sliding_window": None}, math.inf),
        ("starcoder2", {"sliding_window": 24}, 24),
        ("mixtral", {"sliding_window": 24, "num_local_experts": 2}, 24),
        ("qwen2_moe", {"sliding_window": 24, "use_sliding_window": False}, math.inf),
    ],
)
def test_a_window_is_found_where_no_layer_is_named_for_it(family: str, told: Mapping[str, Any], widest: float) -> None:
    decoder = HuggingFaceDecoder(make_other(family, **told))
    assert decoder.widest_row == widest
    longer = decoder.lay_out([PackedRow(range(3, 23), [range(30, 45)])])
    if widest < math.inf:
        with pytest.raises(BaseModelError, match="35 tokens do not fit the sliding window of 24"):
            decoder(longer, {})


HANDED_ON: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "falcon_h1": {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_state": 8, "mamba_d_head": 8},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"],
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_d_state": 8,
        "num_local_experts": 0,
    },
    "qwen3_5_text": {
        "layer_types": ["linear_attention", "full_attention"],
        "head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    },
}
"""Families with convolutions or recurrent layers, and what their config says besides."""


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", HANDED_ON)
def test_answers_to_a_prompt_do_not_read_each_other_where_states_are_handed_on(
    family: str, precision: torch.dtype
) -> None:
    decoder = HuggingFaceDecoder(make_other(family, **HANDED_ON[family]).to(precision))
    assert decoder.widest_row == 0, "a batch is put together of rows with one answer"
    rows = [PackedRow(range(3, 15), [range(30, 45), range(40, 60)]), PackedRow([5, 6], [[7, 8, 9]])]
    batch = decoder.lay_out(rows)
    assert (batch.token_ids.shape[0], batch.sizes) == (3, (15, 20, 3))
    if precision == torch.float32:
        with torch.no_grad():
            found = torch.split(decoder(batch, {}), list(batch.sizes))
            alone = [(row.prompt, answer) for row in rows for answer in row.completions]
            for states, (prompt, answer) in zip(found, alone, strict=True):
                ids = torch.tensor([[*prompt, *answer]])
                wanted = decoder.module.base_model(input_ids=ids).last_hidden_state[0, len(prompt) - 1 : -1]
                torch.testing.assert_close(states, wanted, atol=1e-4, rtol=1e-4)


def test_who_takes_no_attention_mask_is_refused_in_words() -> None:
    with pytest.raises(BaseModelError, match="MambaForCausalLM does not read rows"):
        HuggingFaceDecoder(make_other("mamba", state_size=4))


def test_who_changes_its_logits_behind_the_head_is_refused(directory: Path) -> None:
    assert "gemma2" not in MODEL_TYPES
    config = AutoConfig.for_model(
        "gemma2", vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=4, max_position_embeddings=64, final_logit_softcapping=0.01,
    )  # fmt: skip
    (directory / "model.safetensors").unlink()
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    with pytest.raises(BaseModelError, match="Gemma2ForCausalLM changes its logits after the head"):
        load_base(str(directory))
