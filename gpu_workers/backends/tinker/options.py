"""What a run at Tinker needs besides its recipe: the spec's `options`."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_workers.backends.errors import TrainingError
from tentalis.core.checked import Checked, FieldError, number, text

DAY_S = 86_400


class TinkerOptionsError(FieldError, TrainingError):
    """A setting or an option of runs at Tinker is missing or not what it must be; the message names it."""


@dataclass(frozen=True, kw_only=True)
class TinkerOptions(Checked):
    """Options of a run.

    Args:
        model: the service's name of the worker's base model, like Qwen/Qwen3-8B. Its tokenizer.json and config.json
            lie in the worker's base directory; its weights need not.
        checkpoint_every: updates between two saved states that a stopped run can go on from; 0: none.
        checkpoint_days: for how long the service keeps those.
        keep_days: for how long it keeps the run's last state and the weights it can serve; 0: for ever.
    """

    NOUN: ClassVar[str] = "options"
    PATH: ClassVar[str] = "options."
    ERROR: ClassVar[type[FieldError]] = TinkerOptionsError

    model: str = text("", 4096)
    checkpoint_every: int = number(1, 0, 10_000)
    checkpoint_days: int = number(7, 1, 3650)
    keep_days: int = number(0, 0, 3650)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            wanted = "the service's name of the base model, like Qwen/Qwen3-8B; TENTALIS_TINKER_OPTIONS sets it"
            raise self.refuse("model", wanted=wanted, found=self.model)

    @property
    def checkpoint_s(self) -> int:
        return self.checkpoint_days * DAY_S

    @property
    def keep_s(self) -> int | None:
        """None: for ever."""
        return self.keep_days * DAY_S or None
