"""What is asked of the engine and what comes back: options, jobs, samples."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpu_workers.engine.errors import EngineError

if TYPE_CHECKING:
    from gpu_workers.engine.models import LoadedModel

FinishReason = Literal["stop", "length"]
TopLogprobs = list[tuple[int, float]]


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How to continue a prompt.

    Args:
        max_tokens: new tokens at most; 0 only reads the prompt.
        temperature: 0 is greedy.
        top_k: 0 keeps all.
        seed: choice i of the job draws from the stream of (seed, i) at each absolute position; the same seed gives the
            same tokens whatever else is running, up to ties of rounding.
        presence_penalty, frequency_penalty: taken from the logit of a token that the answer has, once and as often as
            it has it.
        repetition_penalty: divides the logit of a token that prompt or answer have, and multiplies one below 0.
            Told log-probs are those of the logits so changed.
        top_logprobs: alternatives to report beside each token; None for none.
        prompt_logprobs: the same for prompt tokens; 0 reports the prompt's own tokens only.
        keeps_stop: leave the stop string or stop token in the text.
        grammar: what the answer keeps to, see `grammar.write_grammar`; "": anything. Log-probs stay those of the whole
            distribution, not of what the grammar left of it (vLLM tells the latter).
    """

    n: int = 1
    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int
    stops: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignores_eos: bool = False
    keeps_stop: bool = False
    skips_special: bool = True
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    streams: bool = False
    grammar: str = ""

    @property
    def penalises(self) -> bool:
        return bool(self.presence_penalty or self.frequency_penalty) or self.repetition_penalty != 1


@dataclass(frozen=True)
class Sample:
    """One finished answer.

    Args:
        token_ids: (T,) everything the model drew, the end or stop token included.
        logprobs: (T,) float32, natural log, at temperature 1 before any filter.
        stop_reason: the stop string or stop token id; None for the end token and for "length".
        top: per token, alternatives as (id, logprob), most likely first; None when not asked for.
    """

    text: str
    token_ids: list[int]
    logprobs: NDArray[np.float32]
    finish_reason: FinishReason
    stop_reason: int | str | None = None
    top: list[TopLogprobs] | None = None


@dataclass(frozen=True)
class PromptScore:
    """Log-probs of a prompt's own tokens.

    Args:
        logprobs: (P - start,) of tokens start..P-1.
        ranks: (P - start,) 1 for the most likely; None where nobody told.
        top: per token, alternatives.
    """

    logprobs: NDArray[np.float32]
    ranks: NDArray[np.int64] | None
    top: list[TopLogprobs]
    start: int = 1


@dataclass(frozen=True)
class Delta:
    """News of one streamed choice."""

    choice: int
    text: str
    token_ids: list[int]
    logprobs: list[float]
    top: list[TopLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None


@dataclass(eq=False)
class Job:
    """A request inside the engine, bound to the weights it was admitted with.

    Args:
        samples: (prompts x n), prompt-major; None until finished.
        is_cancelled: set from any thread; the engine then drops the job's rows.
        read_states: given each prompt's place and its final hidden states (T, D), in the engine's thread.
        score_starts: of each prompt, the first token whose log-prob is wanted, where `prompt_logprobs` asks for them;
            0 and 1 are all that have one. What stands before it may be known already.
    """

    loaded: "LoadedModel"
    prompts: Sequence[Sequence[int]]
    options: SamplingOptions
    samples: list[Sample | None] = field(init=False)
    prompt_scores: list[PromptScore | None] = field(init=False)
    error: EngineError | None = None
    is_cancelled: bool = False
    read_states: Callable[[int, Tensor], None] | None = None
    score_starts: Sequence[int] = ()
    created_s: float = field(default_factory=time.monotonic)
    unfinished: int = field(init=False)

    def __post_init__(self) -> None:
        self.unfinished = len(self.prompts) * self.options.n
        self.samples = [None] * self.unfinished
        self.prompt_scores = [None] * len(self.prompts)
        self.score_starts = [max(1, start) for start in self.score_starts] or [1] * len(self.prompts)

    def states_from(self, index: int) -> int:
        """The first token of a prompt whose final hidden state is wanted."""
        if self.read_states is not None:
            return 0
        return self.score_starts[index] - 1 if self.options.prompt_logprobs is not None else len(self.prompts[index])

    @property
    def is_over(self) -> bool:
        return self.is_cancelled or self.error is not None or self.unfinished == 0

    def finish_choice(self, choice: int, sample: Sample) -> None:
        self.samples[choice] = sample
        self.unfinished -= 1

    def finished_samples(self) -> list[Sample]:
        """Raises the job's error, if it has one."""
        if self.error is not None:
            raise self.error
        return [sample for sample in self.samples if sample is not None]
