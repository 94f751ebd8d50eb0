"""AdamW over an adapter's tensors."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from gpu_workers.backends.adapter_files import LoraTensors, weight_names
from gpu_workers.backends.errors import DivergedError
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.ranks import add_up_gradients
from tentalis.core.learning.recipes import Recipe

EPSILON = 1e-8
"""Added to AdamW's denominator: torch's default."""


class _Moments(NamedTuple):
    """AdamW's state of a weight: means of its gradient and of that squared, and how many steps it has made, ()."""

    exp_avg: Tensor
    exp_avg_sq: Tensor
    step: Tensor


class Optimizer:
    """AdamW over an adapter's tensors, its state carried from run to run.

    By torch's function and not by its `optim.AdamW`, which brings the compiler along: two seconds of every start.
    """

    def __init__(self, tensors: LoraTensors, recipe: Recipe, device: torch.device) -> None:
        self.weights = {
            name: tensor.to(device, torch.float32).clone().requires_grad_() for name, tensor in tensors.weights.items()
        }
        self._recipe = recipe
        self._moments = {
            name: _Moments(*(tensors.moments[f"{name}.{kind}"].to(device).clone() for kind in _Moments._fields))
            for name in self.weights
            if f"{name}.step" in tensors.moments
        }

    def changes(self, modules: Iterable[str], scale: float) -> dict[str, LowRank]:
        """Module -> its change of the base's weight, differentiable in A and B."""
        names = {module: weight_names(module) for module in modules}
        return {module: LowRank(self.weights[a], self.weights[b], scale) for module, (a, b) in names.items()}

    @property
    def updates_made(self) -> int:
        """Of these tensors so far, by this run and those before it."""
        return next((int(moments.step) for moments in self._moments.values()), 0)

    def step(self, loss: float, *, share: float = 1.0) -> float:
        """Apply the gradients gathered since the last step, by all processes that train together.

        Args:
            loss: of them all.
            share: of the recipe's learning rate.
        Returns:
            The gradients' global L2 norm before clipping.
        Raises:
            DivergedError: loss or norm is not finite; no weight has moved then.
        """
        add_up_gradients(list(self.weights.values()))
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights.values(), self._recipe.max_grad_norm))
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise DivergedError(f"loss and gradient norm must be finite, found {loss} and {norm}")
        self._move(share * self._recipe.learning_rate)
        return norm

    @torch.no_grad()
    def _move(self, rate: float) -> None:
        moving = {name: weight for name, weight in self.weights.items() if weight.grad is not None}
        for name, weight in moving.items():
            if name not in self._moments:
                still = torch.zeros((), dtype=weight.dtype, device=weight.device)
                self._moments[name] = _Moments(torch.zeros_like(weight), torch.zeros_like(weight), still)
        state = [self._moments[name] for name in moving]
        adamw(
            list(moving.values()),
            [weight.grad for weight in moving.values() if weight.grad is not None],
            [one.exp_avg for one in state],
            [one.exp_avg_sq for one in state],
            [],
            [one.step for one in state],
            fused=True,
            amsgrad=False,
            beta1=self._recipe.beta1,
            beta2=self._recipe.beta2,
            lr=rate,
            weight_decay=self._recipe.weight_decay,
            eps=EPSILON,
            maximize=False,
        )
        for weight in moving.values():
            weight.grad = None

    def tensors(self) -> LoraTensors:
        """Weights and moments as they stand."""
        moments = {
            f"{name}.{kind}": value for name, state in self._moments.items() for kind, value in state._asdict().items()
        }
        return LoraTensors({name: weight.detach() for name, weight in self.weights.items()}, moments)
