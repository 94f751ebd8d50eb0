"""What large models need: bfloat16 (the same adapter within its noise, kept in float32), and batches that fit."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.adapter_files import start_adapter
from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.micro_batches import (
    MOST_TOKENS,
    PART_TOKENS,
    find_budget,
    find_part,
    pack_bundles,
    pack_items,
)
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.learning.packing import PackedRow
from gpu_workers.runner import run
from tentalis.core.sizes import DecoderShape
from tests.gpu_workers.engine.conftest import make_model
from tests.gpu_workers.hugging_face import read_by_hugging_face
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec, tiny_model

pytestmark = pytest.mark.torch
ROWS = [PackedRow([5, 6, 7], [[8, 9, 1], [10, 11, 12, 1]]), PackedRow([4, 5], [[20, 21, 1]])]


def read(precision: str) -> tuple[Tensor, Sequence[Tensor]]:
    """Log-probs of the rows, and their gradients by the adapter's tensors."""
    base = load_base(str(tiny_model()), precision=precision)
    linears = base.find_linears(RECIPE.target_modules)
    optimizer = Optimizer(start_adapter(linears, rank=4, seed=0), RECIPE, base.device)
    found = base.score(base.lay_out(ROWS), optimizer.changes(linears, RECIPE.lora_scale)).logprobs
    names = [name for name in optimizer.weights if "lora_B" in name]  # B starts at 0, so A has no gradient yet
    return found.detach(), torch.autograd.grad(found.sum(), [optimizer.weights[name] for name in names])


def test_it_reads_and_learns_what_single_precision_does_within_its_noise() -> None:
    (coarse, by_coarse), (fine, by_fine) = read("bfloat16"), read("float32")
    assert coarse.dtype == torch.float32
    assert 0 < (coarse - fine).abs().max() < 0.05
    mine, theirs = (torch.cat([one.flatten() for one in gradients]) for gradients in (by_coarse, by_fine))
    assert mine.dtype == torch.float32
    assert torch.cosine_similarity(mine, theirs, dim=0) > 0.999


def test_what_is_published_is_float32_and_tells_right_from_wrong(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, precision="bfloat16", w_rl=1.0, w_opd=0.0, epochs=4)
    result = run(make_spec(tmp_path, make_rollouts(), recipe=recipe), lambda _: None)
    assert result.ok, result.error_message
    tensors = load_file(path_from_uri(result.adapter_uri) / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    first, last = result.metrics[0], result.metrics[-1]
    assert first["max_ratio"] == pytest.approx(1.0, abs=0.05)  # the answers were scored in float32
    assert last["loss_rl"] < first["loss_rl"]


def test_a_micro_batch_is_as_large_as_its_activations_fit() -> None:
    base = load_base(str(tiny_model()))
    assert base.activation_bytes == 2 * (4 * 16 + 3 * (4 + 2) * 4 + 4 * 32) * 4
    assert find_budget(base) == MOST_TOKENS
    shape = DecoderShape("Qwen2.5-7B", 28, 3584, 28, 4, 128, 18_944, 152_064, is_tied=False)
    head = torch.empty(152_064, 1, device="meta", dtype=torch.bfloat16)
    large: Any = SimpleNamespace(head=head, is_plain=True)
    seven_billion = dataclasses.replace(base, shape=shape, decoder=large)
    assert seven_billion.activation_bytes == 28 * (6 * 3584 + 3 * (28 + 4) * 128 + 4 * 18_944) * 2
    assert find_budget(seven_billion) == seven_billion.room // seven_billion.activation_bytes


def test_answers_to_one_prompt_stand_in_rows_that_a_sliding_window_holds(tmp_path: Path) -> None:
    """One behind the other they would be further apart than they are: each row holds as many as fit."""
    model = make_model("gemma3")
    model.config.sliding_window = 12
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_model()).save_pretrained(tmp_path)
    base = read_by_hugging_face(load_base(str(tmp_path)))
    items = [([2, 3, 4, 5, 6], [7, 8, 9 + member]) for member in range(6)] + [([3, 4], [8] * 6), ([3, 4], [9] * 6)]
    [whole] = pack_bundles(items, [range(len(items))], base)
    for batch, members in [*pack_items(items, base), *whole]:
        assert batch.token_ids.shape[-1] <= 12
        alone = [base.score(base.lay_out([PackedRow(items[one][0], [items[one][1]])]), {}) for one in members]
        together = base.score(batch, {}).logprobs
        torch.testing.assert_close(together, torch.cat([one.logprobs for one in alone]), atol=1e-5, rtol=1e-4)
    too_long = base.lay_out([PackedRow([2] * 9, [[3] * 4])])
    with pytest.raises(BaseModelError, match="13 tokens do not fit the sliding window of 12"):
        base.score(too_long, {})


def test_a_processor_reads_no_more_at_once_than_makes_it_quicker() -> None:
    """Unless a prompt is so long that it is dear to read again for every few of its completions."""
    base = dataclasses.replace(load_base(str(tiny_model())))
    base.__dict__["activation_bytes"] = 2**21
    assert find_part(base) == PART_TOKENS < find_budget(base)
    few = [([number, 5], [8] * 100) for number in range(40)]
    assert all(batch.token_ids.numel() <= PART_TOKENS for batch, _ in pack_items(few, base))
    for size, parts in ((10, 4), (200, 1)):
        items = [([7] * size, [8] * 200) for _ in range(8)]
        assert len(pack_items(items, base)) == parts
    (whole,) = pack_bundles([([7] * 10, [8] * 200) for _ in range(8)], [range(8)], base)
    assert len(whole) == 1, "a loss of them all at once wants them all at once"


groups = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=6), min_size=1, max_size=4)


@settings(deadline=None)
@given(sizes=groups, room=st.integers(1, 60), across=st.booleans())
def test_no_group_of_long_answers_outgrows_a_micro_batch(sizes: list[list[int]], room: int, across: bool) -> None:
    """Only an answer that is too long by itself does; answers whose loss is of all of them are in one part."""
    base = dataclasses.replace(load_base(str(tiny_model())))
    base.__dict__["activation_bytes"] = base.room // room
    budget = find_budget(base)
    items = [([4 + group] * (group + 1), [9] * size) for group, of in enumerate(sizes) for size in of]
    parts = pack_items(items, base)
    assert sorted(member for _, members in parts for member in members) == list(range(len(items)))
    for batch, members in parts:
        assert [len(items[member][1]) for member in members] == list(batch.sizes)
        assert batch.token_ids.numel() <= budget or len(members) == 1
    ends = list(itertools.accumulate(map(len, sizes)))
    bundles: list[Sequence[int]] = [range(end - len(of), end) for of, end in zip(sizes, ends, strict=True)]
    if across:
        bundles = [*bundles, [0, len(items) - 1]]  # one attempt with an answer to the first prompt and one to the last
    found = pack_bundles(items, bundles, base)
    assert sorted(member for part in found for _, members in part for member in members) == list(range(len(items)))
    for part in found:
        mine = {member for _, members in part for member in members}
        assert all(mine.issuperset(bundle) or mine.isdisjoint(bundle) for bundle in bundles)
        assert len(part) == 1 or not any(mine > set(bundle) and not across for bundle in bundles)
        assert all(batch.token_ids.numel() <= budget or len(members) == 1 for batch, members in part)
