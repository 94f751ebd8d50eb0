"""AdamW over an adapter's tensors."""

import math
from collections.abc import Iterable

import torch

from gpu_workers.backends.adapter_files import LoraTensors, weight_names
from gpu_workers.backends.errors import DivergedError
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.ranks import add_up_gradients
from tentalis.core.learning.recipes import Recipe


class Optimizer:
    """AdamW over an adapter's tensors, its state carried from run to run."""

    def __init__(self, tensors: LoraTensors, recipe: Recipe, device: torch.device) -> None:
        self.weights = {
            name: tensor.to(device, torch.float32).clone().requires_grad_() for name, tensor in tensors.weights.items()
        }
        self._adamw = torch.optim.AdamW(
            self.weights.values(),
            lr=recipe.learning_rate,
            betas=(recipe.beta1, recipe.beta2),
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        self._max_norm, self._rate = recipe.max_grad_norm, recipe.learning_rate
        for name, weight in self.weights.items():
            state = {
                kind: tensors.moments[f"{name}.{kind}"].to(device).clone()
                for kind in ("exp_avg", "exp_avg_sq", "step")
                if f"{name}.{kind}" in tensors.moments
            }
            if state:
                self._adamw.state[weight] = state

    def changes(self, modules: Iterable[str], scale: float) -> dict[str, LowRank]:
        """Module -> its change of the base's weight, differentiable in A and B."""
        names = {module: weight_names(module) for module in modules}
        return {module: LowRank(self.weights[a], self.weights[b], scale) for module, (a, b) in names.items()}

    @property
    def updates_made(self) -> int:
        """Of these tensors so far, by this run and those before it."""
        return next((int(state["step"]) for state in self._adamw.state.values()), 0)

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
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights.values(), self._max_norm))
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise DivergedError(f"loss and gradient norm must be finite, found {loss} and {norm}")
        for group in self._adamw.param_groups:
            group["lr"] = share * self._rate
        self._adamw.step()
        self._adamw.zero_grad(set_to_none=True)
        return norm

    def tensors(self) -> LoraTensors:
        """Weights and moments as they stand."""
        moments = {
            f"{name}.{kind}": value
            for name, weight in self.weights.items()
            for kind, value in self._adamw.state[weight].items()
        }
        return LoraTensors({name: weight.detach() for name, weight in self.weights.items()}, moments)
