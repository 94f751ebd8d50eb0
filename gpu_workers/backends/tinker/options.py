"""What a run at Tinker needs besides its recipe: the spec's `options`."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from gpu_workers.backends.errors import TrainingError

DAY_S = 86_400


class TinkerOptionsError(TrainingError):
    """A setting or an option of runs at Tinker is missing or not what it must be; the message names it."""


@dataclass(frozen=True, kw_only=True)
class TinkerOptions:
    """Options of a run.

    Args:
        model: the service's name of the worker's base model, like Qwen/Qwen3-8B. Its tokenizer.json and config.json
            lie in the worker's base directory; its weights need not.
        checkpoint_every: updates between two saved states that a stopped run can go on from; 0: none.
        checkpoint_days: for how long the service keeps those.
        keep_days: for how long it keeps the run's last state and the weights it can serve; 0: for ever.
    """

    model: str = ""
    checkpoint_every: int = 1
    checkpoint_days: int = 7
    keep_days: int = 0

    def __post_init__(self) -> None:
        model: object = self.model
        if not isinstance(model, str) or not model:
            raise TinkerOptionsError(
                f"options.model must name the service's base model, like Qwen/Qwen3-8B, found {model!r}; "
                "TENTALIS_TINKER_OPTIONS sets it"
            )
        for name, low, high in (("checkpoint_every", 0, 10_000), ("checkpoint_days", 1, 3650), ("keep_days", 0, 3650)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise TinkerOptionsError(f"options.{name} must be a whole number in {low}..{high}, found {value!r}")

    @property
    def checkpoint_s(self) -> int:
        return self.checkpoint_days * DAY_S

    @property
    def keep_s(self) -> int | None:
        """None: for ever."""
        return self.keep_days * DAY_S or None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises TinkerOptionsError naming an unknown option, or one that is not what it must be."""
        known = [item.name for item in dataclasses.fields(cls)]
        if unknown := sorted(set(map(str, data)) - set(known)):
            raise TinkerOptionsError(f"there is no option {', '.join(unknown)}; there are {', '.join(known)}")
        return cls(**data)
