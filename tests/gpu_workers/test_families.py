"""The trainer's own forward over the families it knows is Hugging Face's: log-probs and the gradient of every low-rank
number, each answer read alone by Hugging Face's module, token by token behind its prompt, its windows with it."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.adapter_files import LoraTensors, publish_adapter
from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.hugging_face_decoder import HuggingFaceDecoder
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.plain_decoder import PlainDecoder
from gpu_workers.exporting import export
from gpu_workers.learning import segments, shared_prefix
from gpu_workers.learning.packing import PackedRow
from gpu_workers.learning.shared_prefix import share_prefixes
from gpu_workers.runner import run
from tentalis.core.learning.recipes import ALL_LINEAR
from tentalis.core.sizes import SINGLE_BYTES
from tests.gpu_workers.engine.conftest import FAMILIES, VOCABULARY, make_model
from tests.gpu_workers.hugging_face import module_of
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec, tiny_model

pytestmark = pytest.mark.torch


@cache
def directory_of(family: str) -> Path:
    directory = Path(mkdtemp(prefix=f"{family}-"))
    make_model(family).save_pretrained(directory)
    AutoTokenizer.from_pretrained(tiny_model()).save_pretrained(directory)
    return directory


def make_rows() -> list[PackedRow]:
    """Longer than the windows of the families that have some."""
    rng = random.Random(3)

    def draw(size: int) -> list[int]:
        return [rng.randrange(4, VOCABULARY) for _ in range(size)]

    return [PackedRow(draw(9), [draw(7), draw(11)]), PackedRow(draw(2), [draw(3), draw(8), draw(1)])]


def make_changes(base: BaseModel) -> dict[str, LowRank]:
    generator = torch.Generator().manual_seed(7)
    return {
        name: LowRank(
            (torch.randn(4, weight.shape[1], generator=generator) * 0.2).requires_grad_(),
            (torch.randn(weight.shape[0], 4, generator=generator) * 0.05).requires_grad_(),
            2.0,
        )
        for name, weight in base.find_linears(ALL_LINEAR).items()
    }


def find_gradient(logprobs: Tensor, changes: Mapping[str, LowRank]) -> Tensor:
    """By all low-rank numbers, end to end, of a sum in which every token weighs differently."""
    weights = torch.linspace(-1, 1, len(logprobs))
    leaves = [leaf for change in changes.values() for leaf in (change.a, change.b)]
    return torch.cat([one.flatten() for one in torch.autograd.grad((weights * logprobs).sum(), leaves)])


def count_saved(base: BaseModel, layers: int, tokens: int) -> int:
    """Bytes that the decoder keeps for the backward pass, of its first layer so often one behind the other."""
    assert isinstance(base.decoder, PlainDecoder)
    shape, weights = base.decoder._shape, base.decoder._weights
    own = {name for name in weights if ".layers." not in name}

    def repeat(found: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name.replace(".0.", f".{index}."): one
            for index in range(layers)
            for name, one in found.items()
            if name in own or ".layers.0." in name
        }

    shape = replace(shape, layers=layers, ropes=shape.ropes[:1] * layers, windows=(None,) * layers)
    batch = share_prefixes([PackedRow([5] * 4, [[6] * tokens])])
    there = {one.untyped_storage().data_ptr() for one in weights.values()}
    saved: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        saved.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        PlainDecoder(shape, repeat(weights), merge_up_to=0)(batch, repeat(make_changes(base)))
    return sum(one.untyped_storage().nbytes() for place, one in saved.items() if place not in there)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_token_keeps_of_a_layer_is_what_is_counted(
    family: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_prefix, "MOST_BIAS", 0)
    base = load_base(str(directory_of(family)), precision=precision)
    at = {(layers, tokens): count_saved(base, layers, tokens) for layers in (2, 3) for tokens in (20, 60)}
    kept = (at[3, 60] - at[3, 20] - at[2, 60] + at[2, 20]) / (60 - 20) / base.number_bytes
    low_rank, singles = 9 * 4, (base.shape.norms + 3 * base.shape.heads) * SINGLE_BYTES / base.number_bytes
    assert 0 <= kept - base.layer_numbers <= low_rank + singles


def read_alone(module: Any, changes: Mapping[str, LowRank]) -> Tensor:
    """Log-probs of the rows' answers by Hugging Face's own forward: a weight is W + scale * B A there."""
    found = []
    names = {f"{name}.weight": change.merge(module.get_submodule(name).weight) for name, change in changes.items()}
    for row in make_rows():
        for answer in row.completions:
            ids = torch.tensor([[*row.prompt, *answer]])
            logits = torch.func.functional_call(module, names, (), {"input_ids": ids, "use_cache": False}).logits
            logprobs = logits[0, len(row.prompt) - 1 : -1].log_softmax(-1)
            found.append(logprobs.gather(-1, torch.tensor(answer)[:, None])[:, 0])
    return torch.cat(found)


@pytest.mark.parametrize("way", ["blocks", "segments", "recomputed", "merged weights"])
@pytest.mark.parametrize("family", FAMILIES)
def test_log_probs_and_gradients_are_those_of_hugging_face(
    family: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = load_base(str(directory_of(family)))
    assert isinstance(base.decoder, PlainDecoder)
    base.decoder._merge_up_to = 2**18 if way == "merged weights" else 0
    if way == "segments":
        monkeypatch.setattr(shared_prefix, "MOST_BIAS", 0)
        monkeypatch.setattr(segments, "BLOCK", 4)
    read, of = [], PlainDecoder._read_layer

    def read_layer(decoder: PlainDecoder, index: int, *told: Any) -> tuple[Tensor, Tensor]:
        read.append(index)
        return of(decoder, index, *told)

    monkeypatch.setattr(PlainDecoder, "_read_layer", read_layer)
    if way == "recomputed":
        base = replace(base)
        base.__dict__["activation_bytes"] = 2**60
    changes = make_changes(base)
    found = base.score(base.lay_out(make_rows()), changes).logprobs
    wanted = read_alone(module_of(base), changes)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=2e-5)
    mine, theirs = find_gradient(found, changes), find_gradient(wanted, changes)
    layers = list(range(base.shape.layers))
    assert read == (layers + layers[::-1] if way == "recomputed" else layers)
    assert theirs.norm() > 0.1
    assert float((mine - theirs).norm() / theirs.norm()) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_in_half_precision_it_learns_the_same_within_its_noise(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for precision, most_bias in (("float32", 2**24), ("bfloat16", 2**24), ("bfloat16", 0)):
        monkeypatch.setattr(shared_prefix, "MOST_BIAS", most_bias)
        base = load_base(str(directory_of(family)), precision=precision)
        changes = make_changes(base)
        logprobs = base.score(base.lay_out(make_rows()), changes).logprobs
        assert logprobs.dtype == torch.float32
        found.append((logprobs.detach(), find_gradient(logprobs, changes)))
    (fine, by_fine), *coarse = found
    for logprobs, gradient in coarse:
        assert (logprobs - fine).abs().mean() < 0.1
        assert torch.cosine_similarity(gradient, by_fine, dim=0) > 0.98


@pytest.mark.parametrize("family", FAMILIES)
def test_peft_and_the_merged_model_give_the_log_probs_that_were_trained(family: str, tmp_path: Path) -> None:
    base = load_base(str(directory_of(family)))
    changes = make_changes(base)
    weights = {}
    for name, change in changes.items():
        weights[f"{name}.lora_A.weight"], weights[f"{name}.lora_B.weight"] = change.a.detach(), change.b.detach()
    told = {
        "worker": "tester", "base_model": str(base.directory), "base_sha256": base.sha256, "parent_sha256": "",
        "run_id": 1, "attempt": 1, "recipe_hash": "", "rollouts_sha256": "", "rank": 4, "alpha": 8.0,
        "target_modules": sorted(ALL_LINEAR),
    }  # fmt: skip
    adapter, _ = publish_adapter(LoraTensors(weights, {}), told, parent=tmp_path)
    merged = load_base(str(export(adapter, form="merged", base=base.directory, out=tmp_path / "merged")))
    by_peft: Any = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base.directory), str(adapter))
    with torch.no_grad():
        wanted = base.score(base.lay_out(make_rows()), changes).logprobs
        for found in (
            merged.score(merged.lay_out(make_rows()), {}).logprobs,
            read_alone(module_of(merged), {}),
            read_alone(by_peft, {}),
        ):
            torch.testing.assert_close(found, wanted, atol=1e-3, rtol=0)
        assert (read_alone(module_of(base), {}) - wanted).abs().max() > 0.01


OTHERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "qwen3_moe": (
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 16},
        ["k_proj", "o_proj", "q_proj", "v_proj"],
    ),
    "phi3": ({"pad_token_id": 0}, ["o_proj", "qkv_proj"]),
}
"""Families that the trainer's own forward does not know: what their config says besides, and what is trained."""


@pytest.mark.parametrize("family", OTHERS)
def test_experts_and_fused_projections_are_trained_in_their_attention_alone(family: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    settings, wanted = OTHERS[family]
    config = AutoConfig.for_model(
        family, vocab_size=32, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, eos_token_id=1, bos_token_id=None, **settings,
    )  # fmt: skip
    directory = tmp_path / family
    model = AutoModelForCausalLM.from_config(config)
    for one in (model, AutoTokenizer.from_pretrained(tiny_model())):
        one.save_pretrained(directory)
    base = load_base(str(directory))
    assert isinstance(base.decoder, HuggingFaceDecoder)
    rollouts = [replace(one, logprobs=[-3.4] * len(one.token_ids)) for one in make_rollouts(hinted_messages=None)]
    result = run(make_spec(tmp_path, rollouts, base_model=str(directory), recipe=RECIPE), lambda _: None)
    assert result.ok, result.error_message
    assert any("attention" in note for note in result.notes)
    adapter = path_from_uri(result.adapter_uri)
    assert json.loads((adapter / "adapter_config.json").read_text())["target_modules"] == wanted
    assert json.loads((adapter / "manifest.json").read_text())["recipe_hash"] == RECIPE.hash
    by_peft: Any = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(directory), str(adapter))
    tensors = load_file(adapter / "adapter_model.safetensors")
    changes = {
        name.removeprefix("base_model.model.").removesuffix(".lora_A.weight"): LowRank(
            values, tensors[name.replace("lora_A", "lora_B")], RECIPE.lora_scale
        )
        for name, values in tensors.items()
        if "lora_A" in name
    }
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    with torch.no_grad():
        found = base.score(base.lay_out([PackedRow([5, 6], [[7, 8, 9]])]), changes).logprobs
        told = by_peft(input_ids=ids).logits[0, 1:-1].log_softmax(-1).gather(-1, ids[0, 2:, None])[:, 0]
    torch.testing.assert_close(found, told, atol=1e-4, rtol=0)


def test_a_module_that_is_not_there_is_refused_with_those_that_are() -> None:
    base = load_base(str(directory_of("qwen3")))
    with pytest.raises(BaseModelError, match="no linear module named qkv_proj; it has down_proj, gate_proj, k_proj"):
        base.choose_modules(("qkv_proj",))
    assert base.choose_modules(ALL_LINEAR) == ALL_LINEAR


@pytest.mark.parametrize("modules", [("q_proj", "v_proj", "down_proj"), ("k_proj", "o_proj", "up_proj")])
def test_modules_that_read_the_same_input_need_not_all_be_changed(modules: tuple[str, ...]) -> None:
    base = load_base(str(directory_of("qwen2")))
    assert isinstance(base.decoder, PlainDecoder)
    base.decoder._merge_up_to = 0
    changes = {name: change for name, change in make_changes(base).items() if name.rpartition(".")[2] in modules}
    found, wanted = base.score(base.lay_out(make_rows()), changes).logprobs, read_alone(module_of(base), changes)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=2e-5)
    mine, theirs = find_gradient(found, changes), find_gradient(wanted, changes)
    assert float((mine - theirs).norm() / theirs.norm()) < 1e-5
