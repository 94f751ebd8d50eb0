"""What the operator of a cluster says about it: sizes, places and addresses. Checked whole, refused in words."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from tentalis.core.learning.recipes import RecipeError

ATTENTIONS = ("flash_attention_2", "sdpa", "eager")
SYNCS = ("nccl", "gloo")


class ClusterOptionsError(RecipeError):
    """An option is not what it must be, or the options do not fit together; the message says wanted and found."""


class UnsupportedRecipeError(RecipeError):
    """OpenRLHF cannot do what the recipe asks; the message names the field and who can."""


def _size(default: int, low: int, high: int) -> Any:
    return dataclasses.field(default=default, metadata={"range": (low, high)})


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Sizes are per run.

    Args:
        actor_gpus: GPUs that train, one a process; the reference model has as many.
        engines, tensor_parallel: vLLM engines and GPUs of each.
        colocate: everything on the same GPUs, which take turns; else each has its own.
        zero_stage: DeepSpeed's. 3 and reinforcement learning of an adapter do not go together.
        micro_batch: samples a GPU holds at once.
        samples_per_prompt: answers a task, which are compared with each other.
        prompts_per_step: tasks a rollout; fewer where the batch holds fewer.
        episodes: passes over the batch's tasks.
        max_tokens: of prompt and answer together; max_new_tokens: of an answer, tools' results included.
        gpu_memory: share of a GPU's memory that vLLM takes.
        save_every: rollouts between checkpoints; 0 writes none.
        stops: texts of one token each that end a turn for a tool.
        teacher_url: server in vLLM's dialect that scores answers under a hint; teacher_model: its name there.
        reward_url: where answers are rewarded, for a run started by hand; the platform sends its own.
    """

    actor_gpus: int = _size(1, 1, 4096)
    engines: int = _size(1, 1, 1024)
    tensor_parallel: int = _size(1, 1, 64)
    colocate: bool = False
    zero_stage: int = _size(2, 0, 3)
    micro_batch: int = _size(4, 1, 4096)
    samples_per_prompt: int = _size(8, 1, 512)
    prompts_per_step: int = _size(16, 1, 65_536)
    episodes: int = _size(1, 1, 1000)
    max_tokens: int = _size(2048, 2, 1_048_576)
    max_new_tokens: int = _size(1024, 1, 1_048_576)
    gpu_memory: float = 0.8
    save_every: int = _size(10, 0, 1_000_000)
    attention: str = "flash_attention_2"
    sync: str = "nccl"
    stops: tuple[str, ...] = ()
    teacher_url: str = ""
    teacher_model: str = ""
    reward_url: str = ""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            _check(item, getattr(self, item.name))
        if not (math.isfinite(self.gpu_memory) and 0.0 < self.gpu_memory <= 1.0):
            raise ClusterOptionsError(f"options.gpu_memory must lie in (0, 1], found {self.gpu_memory}")
        for name, allowed in (("attention", ATTENTIONS), ("sync", SYNCS)):
            if (found := getattr(self, name)) not in allowed:
                raise ClusterOptionsError(f"options.{name} must be one of {', '.join(allowed)}; found {found!r}")
        if self.max_new_tokens >= self.max_tokens:
            raise ClusterOptionsError(
                f"options.max_new_tokens must leave room for the prompt within max_tokens {self.max_tokens}, "
                f"found {self.max_new_tokens}"
            )
        for name in ("teacher_url", "reward_url"):
            if (url := getattr(self, name)) and urlsplit(url).scheme not in ("http", "https"):
                raise ClusterOptionsError(f"options.{name} must be an http(s) address, found {url!r}")
        stops: Any = self.stops
        if not all(isinstance(stop, str) and stop for stop in stops):
            raise ClusterOptionsError(f"options.stops must be texts, found {stops!r}")
        if bool(self.teacher_url) != bool(self.teacher_model):
            raise ClusterOptionsError("options.teacher_url and options.teacher_model come together, found one of them")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises ClusterOptionsError naming an unknown option, or one that is not what it must be."""
        known = [item.name for item in dataclasses.fields(cls)]
        if unknown := sorted(set(map(str, data)) - set(known)):
            raise ClusterOptionsError(f"there is no option {', '.join(unknown)}; there are {', '.join(known)}")
        values = dict(data)
        if isinstance(values.get("stops"), list):
            values["stops"] = tuple(values["stops"])
        return cls(**values)


def _check(item: "dataclasses.Field[Any]", value: Any) -> None:
    kinds: tuple[type, ...] = (int, float) if isinstance(item.default, float) else (type(item.default),)
    if not isinstance(value, kinds) or (isinstance(value, bool) and not isinstance(item.default, bool)):
        raise ClusterOptionsError(f"options.{item.name} must be of type {type(item.default).__name__}, found {value!r}")
    if "range" in item.metadata:
        low, high = item.metadata["range"]
        if not low <= value <= high:
            raise ClusterOptionsError(f"options.{item.name} must lie in {low}..{high}, found {value}")
