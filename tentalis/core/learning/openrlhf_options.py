"""What the operator of a cluster says about it: sizes, places and addresses. Checked whole, refused in words."""

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from tentalis.core.checked import Checked, FieldError, Text, choice, flag, number, several, text
from tentalis.core.learning.recipes import RecipeError

ATTENTIONS = ("flash_attention_2", "sdpa", "eager")
SYNCS = ("nccl", "gloo")


class ClusterOptionsError(RecipeError):
    """An option is not what it must be, or the options do not fit together; the message says wanted and found."""


class UnsupportedRecipeError(RecipeError):
    """OpenRLHF cannot do what the recipe asks; the message names the field and who can."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Checked):
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

    NOUN: ClassVar[str] = "options"
    PATH: ClassVar[str] = "options."
    ERROR: ClassVar[type[FieldError]] = ClusterOptionsError

    actor_gpus: int = number(1, 1, 4096)
    engines: int = number(1, 1, 1024)
    tensor_parallel: int = number(1, 1, 64)
    colocate: bool = flag(False)
    zero_stage: int = number(2, 0, 3)
    micro_batch: int = number(4, 1, 4096)
    samples_per_prompt: int = number(8, 1, 512)
    prompts_per_step: int = number(16, 1, 65_536)
    episodes: int = number(1, 1, 1000)
    max_tokens: int = number(2048, 2, 1_048_576)
    max_new_tokens: int = number(1024, 1, 1_048_576)
    gpu_memory: float = number(0.8, 0.0, 1.0, above=True)
    save_every: int = number(10, 0, 1_000_000)
    attention: str = choice("flash_attention_2", ATTENTIONS)
    sync: str = choice("nccl", SYNCS)
    stops: tuple[str, ...] = several((), Text(200, 1), most=100)
    teacher_url: str = text("", 4096)
    teacher_model: str = text("", 4096)
    reward_url: str = text("", 4096)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_new_tokens >= self.max_tokens:
            wanted = f"room for the prompt within max_tokens {self.max_tokens}"
            raise self.refuse("max_new_tokens", wanted=wanted, found=self.max_new_tokens)
        for name in ("teacher_url", "reward_url"):
            if (url := getattr(self, name)) and urlsplit(url).scheme not in ("http", "https"):
                raise self.refuse(name, wanted="an http(s) address", found=url)
        if bool(self.teacher_url) != bool(self.teacher_model):
            raise ClusterOptionsError("options.teacher_url and options.teacher_model come together, found one of them")
