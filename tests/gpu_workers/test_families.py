"""The trainer's own forward over the families it knows is Hugging Face's: log-probs and the gradient of every low-rank
number, each answer read alone by Hugging Face's module, token by token behind its prompt, its windows with it."""

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
import torch
from torch import Tensor
from transformers import AutoTokenizer

from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.learning import segments, shared_prefix
from gpu_workers.learning.packing import PackedRow
from tentalis.core.learning.recipes import ALL_LINEAR
from tests.gpu_workers.engine.conftest import FAMILIES, VOCABULARY, make_model
from tests.gpu_workers.learning.training_factory import tiny_model

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


def read_alone(base: BaseModel, changes: Mapping[str, LowRank]) -> Tensor:
    """Log-probs of the rows' answers by Hugging Face's own forward: a weight is W + scale * B A there."""
    found = []
    names = {f"{name}.weight": change.merge(base.model.get_submodule(name).weight) for name, change in changes.items()}
    for row in make_rows():
        for answer in row.completions:
            ids = torch.tensor([[*row.prompt, *answer]])
            logits = torch.func.functional_call(base.model, names, (), {"input_ids": ids, "use_cache": False}).logits
            logprobs = logits[0, len(row.prompt) - 1 : -1].log_softmax(-1)
            found.append(logprobs.gather(-1, torch.tensor(answer)[:, None])[:, 0])
    return torch.cat(found)


@pytest.mark.parametrize("way", ["blocks", "segments", "recomputed", "merged weights"])
@pytest.mark.parametrize("family", FAMILIES)
def test_log_probs_and_gradients_are_those_of_hugging_face(
    family: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = load_base(str(directory_of(family)))
    assert base.decoder is not None
    base.decoder._merge_up_to = 2**18 if way == "merged weights" else 0
    if way == "segments":
        monkeypatch.setattr(shared_prefix, "MOST_BIAS", 0)
        monkeypatch.setattr(segments, "BLOCK", 4)
    if way == "recomputed":
        base = replace(base)
        base.__dict__["activation_bytes"] = 2**60
    changes = make_changes(base)
    found = base.score(base.lay_out(make_rows()), changes).logprobs
    wanted = read_alone(base, changes)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=2e-5)
    mine, theirs = find_gradient(found, changes), find_gradient(wanted, changes)
    assert theirs.norm() > 0.1
    assert float((mine - theirs).norm() / theirs.norm()) < 1e-5
