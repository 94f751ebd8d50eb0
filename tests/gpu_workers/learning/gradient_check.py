"""A check that any policy loss must pass: its gradient moves every counted token the right way."""

from collections.abc import Callable

import torch
from torch import Tensor

LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(logprobs, old_logprobs, advantages, counts), each (B, T) -> scalar loss."""


def gradient_of(loss: Tensor, leaf: Tensor) -> Tensor:
    """d loss / d leaf, of the leaf's shape."""
    (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def assert_loss_learns(loss_function: LossFunction) -> None:
    """Raise AssertionError unless a gradient step makes good tokens likelier, bad ones less likely, others the same.

    The advantages sum to zero, as a group's do, and the policy is still the one that sampled: that is where a loss that
    averages before it multiplies has no gradient at all.
    """
    old = torch.log(torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.1, 0.6]]))
    advantages = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]])
    counts = torch.tensor([[True, True, False], [True, False, True]])
    logprobs = old.clone().requires_grad_()
    gradient = gradient_of(loss_function(logprobs, old, advantages, counts), logprobs)
    pulls = torch.where(counts, -gradient * advantages, 0.0)
    assert bool((pulls[counts] > 0).all()), f"the gradient does not follow the advantages: {gradient.tolist()}"
    assert bool((gradient[~counts] == 0).all()), f"a token that does not count has a gradient: {gradient.tolist()}"
