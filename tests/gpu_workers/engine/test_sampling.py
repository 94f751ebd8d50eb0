"""Tokens of a large vocabulary: drawn as their probabilities say, told exactly, whatever is filtered."""

import math

import pytest
import torch
from torch import Tensor

from gpu_workers.engine import sampling
from gpu_workers.engine.sampling import Knobs, sample_tokens

SIZE = 20_011  # no whole number of blocks
PLAIN = Knobs(temperature=None, top_k=None, top_p=None, is_greedy=None)


def make_logits(rows: int, *, scale: float = 3.0) -> Tensor:
    return torch.randn(rows, SIZE, generator=torch.Generator().manual_seed(5)) * scale


def draw(logits: Tensor, uniforms: Tensor, knobs: Knobs) -> tuple[Tensor, Tensor]:
    """Tokens and log-probs (B, V)."""
    tokens, scores, totals = sample_tokens(logits, uniforms, knobs)
    return tokens, scores - totals[:, None]


@pytest.mark.parametrize("temperature", [None, 0.7])
def test_what_is_told_is_the_log_softmax(temperature: float | None) -> None:
    logits = make_logits(3)
    knobs = PLAIN if temperature is None else PLAIN._replace(temperature=torch.full((3,), temperature))
    told = draw(logits, torch.tensor([0.0, 0.4, 0.99]), knobs)[1]
    assert torch.allclose(told, (logits.double() / (temperature or 1)).log_softmax(-1).float(), atol=1e-5)


def test_draws_follow_the_probabilities() -> None:
    """Evenly spaced numbers fall on each token as often as it weighs: the sums over blocks of it, within their step."""
    logits, count = make_logits(1)[0], 2_000
    uniforms = (torch.arange(count) + 0.5) / count
    drawn = draw(logits.expand(count, -1), uniforms, PLAIN)[0]
    bins = torch.arange(SIZE) // 97
    found = torch.zeros(int(bins[-1]) + 1).index_add_(0, bins[drawn], torch.ones(count)) / count
    wanted = torch.zeros_like(found).index_add_(0, bins, logits.softmax(-1))
    assert float((found.cumsum(0) - wanted.cumsum(0)).abs().max()) < 2 / count


def test_it_draws_what_a_small_vocabularys_path_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, uniforms = make_logits(64, scale=1.0), torch.linspace(0, 0.999, 64)
    mine = draw(logits, uniforms, PLAIN)[0]
    monkeypatch.setattr(sampling, "LARGE_VOCABULARY", SIZE)
    theirs = draw(logits, uniforms, PLAIN)[0]
    assert int((mine - theirs).abs().max()) <= 2, "a neighbour at most, where float32 sums round otherwise"


@pytest.mark.parametrize(("top_k", "top_p"), [(7, 1.0), (SIZE, 0.3), (SIZE, 0.9), (400, 0.5), (1, 1.0)])
def test_a_filter_keeps_the_likeliest_and_no_others(top_k: int, top_p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, uniforms = make_logits(1)[0].expand(200, -1), torch.linspace(0, 1 - 2**-23, 200)
    knobs = PLAIN._replace(top_k=torch.full((200,), top_k), top_p=torch.full((200,), top_p))
    mine = set(draw(logits, uniforms, knobs)[0].tolist())
    monkeypatch.setattr(sampling, "LARGE_VOCABULARY", SIZE)
    one = Knobs(temperature=None, top_k=torch.tensor([top_k]), top_p=torch.tensor([top_p]), is_greedy=None)
    kept = sampling._filter_probabilities(logits[:1].softmax(-1), one)
    assert mine <= set(kept[0].nonzero()[:, 0].tolist())
    assert int(logits[0].argmax()) in mine
    assert len(mine) >= min(top_k, 5)


def test_what_is_ruled_out_is_never_drawn_and_greedy_takes_the_best() -> None:
    logits = torch.full((2, SIZE), -math.inf)
    logits[0, [3, SIZE - 1]] = torch.tensor([0.0, -1.0])
    logits[1, 11] = 2.0
    uniforms = torch.tensor([1 - 2**-23, 1 - 2**-23])
    tokens, told = draw(logits, uniforms, PLAIN)
    assert tokens.tolist() == [SIZE - 1, 11]
    assert told[1, 11] == 0
    greedy = PLAIN._replace(is_greedy=torch.tensor([True, False]))
    assert draw(logits, uniforms, greedy)[0].tolist() == [3, 11]


def test_a_row_that_is_no_number_tells_so() -> None:
    logits = make_logits(2)
    logits[0, 5] = math.nan
    tokens, told = draw(logits, torch.tensor([0.5, 0.5]), PLAIN)
    assert math.isnan(float(told[0, tokens[0]]))
    assert math.isfinite(float(told[1, tokens[1]]))
