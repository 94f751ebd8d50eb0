"""The step scorer's head: features by hand, a fit that learns, and what it refuses."""

import pytest
import torch

from gpu_workers.learning.reward_head import Head, fit_head, read_features

pytestmark = pytest.mark.torch

FIT = {"hidden": 8, "steps": 200, "batch": 64, "learning_rate": 1e-2, "weight_decay": 0.0}


def test_a_step_is_seen_by_its_last_state_the_answer_so_far_and_itself() -> None:
    states = torch.tensor([[9.0], [1.0], [3.0], [5.0], [100.0]])  # one prompt token, answer 1 3 5 100
    found = read_features(states, 1, [(0, 1), (1, 3)])
    assert found.tolist() == [[1.0, 1.0, 1.0], [5.0, 3.0, 4.0]]
    assert read_features(states, 1, []).shape == (0, 3)


def test_what_comes_behind_a_step_does_not_change_how_it_is_seen() -> None:
    states = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    longer = torch.cat([states, torch.full((3, 4), 7.0)])
    assert torch.equal(read_features(states, 2, [(1, 5)]), read_features(longer, 2, [(1, 5)]))


@pytest.mark.parametrize("span", [(0, 0), (2, 1), (0, 5), (-1, 2)])
def test_a_span_outside_the_answer_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.4"):
        read_features(torch.zeros(5, 2), 1, [span])


def make_steps(count: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    features = torch.randn(count, 6, generator=torch.Generator().manual_seed(1))
    return features, (features[:, 0] * features[:, 1] > 0).float()  # no line parts them: it takes both layers


def test_a_head_learns_what_no_single_layer_could() -> None:
    features, labels = make_steps()
    head = fit_head(features[:300], labels[:300], torch.ones(300), **FIT | {"steps": 600}, seed=0)  # type: ignore[arg-type]
    right = (head.logits(features[300:]) > 0) == (labels[300:] > 0.5)
    assert float(right.float().mean()) > 0.85


def test_the_same_seed_gives_the_same_head_and_labels_nobody_trusts_teach_nothing() -> None:
    features, labels = make_steps()
    weights = torch.ones(400)
    weights[200:] = 0.0
    flipped = labels.clone()
    flipped[200:] = 1.0 - flipped[200:]
    first = fit_head(features, labels, weights, **FIT, seed=3)  # type: ignore[arg-type]
    again = fit_head(features, flipped, weights, **FIT, seed=3)  # type: ignore[arg-type]
    other = fit_head(features, labels, weights, **FIT, seed=4)  # type: ignore[arg-type]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.hidden_weight, other.hidden_weight)


def test_nothing_or_one_kind_of_step_is_refused_in_words() -> None:
    features, labels = make_steps(20)
    with pytest.raises(ValueError, match="none of them trusted"):
        fit_head(features, labels, torch.zeros(20), **FIT, seed=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="found 20 good ones only"):
        fit_head(features, torch.ones(20), torch.ones(20), **FIT, seed=0)  # type: ignore[arg-type]


def test_a_head_comes_back_from_its_tensors_and_a_broken_one_does_not() -> None:
    features, labels = make_steps()
    head = fit_head(features, labels, torch.ones(400), **FIT, seed=0)  # type: ignore[arg-type]
    tensors = head.to_tensors()
    assert torch.equal(Head.from_tensors(tensors).logits(features), head.logits(features))
    with pytest.raises(ValueError, match=r"out\.bias"):
        Head.from_tensors({name: value for name, value in tensors.items() if name != "out.bias"})
    with pytest.raises(ValueError, match="mean is not finite"):
        Head.from_tensors(tensors | {"mean": torch.full((6,), torch.nan)})
    with pytest.raises(ValueError, match="must have shape"):
        Head.from_tensors(tensors | {"scale": torch.ones(5)})
