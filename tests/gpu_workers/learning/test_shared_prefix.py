import random
from collections.abc import Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.plain_decoder import PlainDecoder
from gpu_workers.engine.checkpoint import plain_shape, read_config, read_weights
from gpu_workers.learning.packing import PackedBatch, PackedRow, pack_rows
from gpu_workers.learning.shared_prefix import SharedBatch, share_prefixes
from tests.gpu_workers.hugging_face import read_by_hugging_face
from tests.gpu_workers.learning.training_factory import tiny_model

pytestmark = pytest.mark.torch
BASE = load_base(str(tiny_model()))
MODULES = BASE.find_linears(("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"))


def make_rows(seed: int) -> list[PackedRow]:
    rng = random.Random(seed)

    def draw(size: int) -> list[int]:
        return [rng.randrange(4, 32) for _ in range(size)]

    return [
        PackedRow(draw(rng.randint(1, 9)), [draw(rng.randint(1, 7)) for _ in range(rng.randint(1, 4))])
        for _ in range(3)
    ]


def predict(batch: PackedBatch | SharedBatch, changes: Mapping[str, LowRank]) -> Tensor:
    """Logits of the batch's completion tokens."""
    base = BASE if isinstance(batch, SharedBatch) else read_by_hugging_face(BASE)
    return torch.nn.functional.linear(base.read(batch, changes), base.decoder.head)


def make_changes(seed: int) -> dict[str, LowRank]:
    torch.manual_seed(seed)
    return {
        name: LowRank(
            torch.randn(4, weight.shape[1]).requires_grad_(),
            torch.randn(weight.shape[0], 4).mul(0.1).requires_grad_(),
            2.0,
        )
        for name, weight in MODULES.items()
    }


def gradients(logits: Tensor, changes: dict[str, LowRank]) -> list[Tensor]:
    leaves = [leaf for change in changes.values() for leaf in (change.a, change.b)]
    return list(torch.autograd.grad(logits.log_softmax(-1)[:, 5].sum(), leaves))


@pytest.mark.parametrize("seed", range(3))
def test_shared_prefixes_give_the_logits_and_gradients_of_hugging_face(seed: int) -> None:
    rows, changes = make_rows(seed), make_changes(seed)
    shared, packed = share_prefixes(rows), pack_rows(rows)
    assert torch.equal(shared.targets, packed.targets)
    mine, theirs = predict(shared, changes), predict(packed, changes)
    assert torch.allclose(mine, theirs, atol=2e-5)
    for one, other in zip(gradients(mine, changes), gradients(theirs, changes), strict=True):
        assert torch.allclose(one, other, atol=1e-3, rtol=1e-4)


def test_low_rank_products_and_merged_weights_are_the_same_function() -> None:
    batch, changes = share_prefixes(make_rows(7)), make_changes(7)
    shape = plain_shape(read_config(BASE.directory))
    assert shape is not None
    weights = read_weights(BASE.directory, shape=shape)
    merged, apart = (PlainDecoder(shape, weights, merge_up_to=limit)(batch, changes) for limit in (2**18, 0))
    assert torch.allclose(apart, merged, atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_neither_other_rows_nor_their_order_nor_padding_change_a_logit(seed: int, rng: random.Random) -> None:
    rows = make_rows(seed)
    alone = [predict(share_prefixes([row]), {}) for row in rows]
    order = rng.sample(range(3), 3)
    together = predict(share_prefixes([rows[index] for index in order]), {})
    assert torch.allclose(torch.cat([alone[index] for index in order]), together, atol=1e-5)


def test_an_empty_completion_or_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        share_prefixes([])
    with pytest.raises(ValueError, match="row 0 wants a prompt and completions"):
        share_prefixes([PackedRow([1], [[]])])
