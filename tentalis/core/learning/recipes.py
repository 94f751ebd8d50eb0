"""How a run learns: one frozen recipe, checked on arrival and stored whole with the run."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from tentalis.core.canon import content_hash
from tentalis.core.checked import Checked, FieldError, Text, choice, flag, number, several, text
from tentalis.core.contracts import ContractError

RECIPE_SCHEMA = "tentalis.recipe/1"

LEARNS_FROM: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("grpo", "dr_grpo", "dapo", "cispo", "gspo", "reinforce_pp", "reward_weighted_sft"), "rollouts")
    | {"dpo": "pairs", "ipo": "pairs", "kto": "rollouts", "sft": "demonstrations"}
)
"""Algorithm -> the kind of record it reads: rollouts, pairs or demonstrations. The trainer dispatches by it."""
ALGORITHMS = tuple(LEARNS_FROM)
CLIPPED = frozenset({"grpo", "dr_grpo", "dapo", "reinforce_pp"})
"""Algorithms whose loss is the clipped surrogate; they differ in their advantages and in what they divide by."""
PREFERENCES = frozenset({"dpo", "ipo", "kto", "sft"})
"""Algorithms that learn from answers whoever wrote them: no ratio, no advantage, no teacher, and no age."""
SERVED = "served:"
"""What `teacher` begins with where its name on a server follows."""
OPD_MODES = ("lightweight", "logprobs", "top_k")
SINGLES = ("batch", "off")
PRECISIONS = ("float32", "bfloat16")
SCHEDULES = ("constant", "linear", "cosine")
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class RecipeError(FieldError, ContractError):
    """A recipe field is not what it must be; the message names the field, what was wanted and what was found."""


@dataclass(frozen=True, kw_only=True)
class Recipe(Checked):
    """Everything that decides how a batch of rollouts changes an adapter.

    Args:
        algorithm: `grpo` clips the token ratio (DAPO's clip-higher; a mean over the tokens of every answer that was
            compared, whatever it is worth); `dr_grpo` is the same without dividing by the group's std, and divides by
            `answer_tokens` an answer instead of by the tokens it has; `dapo` is `grpo` on groups whose rewards differ
            alone, and a batch fills on until it holds enough of those; `cispo` clips the weight and never the gradient;
            `gspo` takes one ratio an answer, the mean of its tokens', and clips that, each answer counting alike;
            `reinforce_pp` takes the group's mean away and whitens over the batch; `reward_weighted_sft` imitates. `dpo`
            and `ipo` learn from pairs of answers, `kto` from single judged ones, `sft` imitates demonstrations.
        lora_rank, lora_alpha, target_modules: shape of the adapter; its scale is alpha / rank.
        precision: numbers that the frozen model and what flows through it are kept in; adapter, optimiser, log-probs
            and losses are float32 always.
        learning_rate, beta1, beta2, weight_decay: AdamW.
        schedule: how the learning rate falls over the updates of a run: `constant`, `linear` or `cosine`.
        warmup_updates: over so many updates of an adapter, from its first, the learning rate rises to what it is.
        minibatches: optimiser updates per pass over the batch; each sees a share of every group.
        epochs: passes over the batch.
        clip_low, clip_high: the token ratio is clipped to [1 - clip_low, 1 + clip_high].
        sequence_clip_low, sequence_clip_high: the same of `gspo`'s ratio of a whole answer, which moves far less.
        dual_clip: cap on the loss of a token with a negative advantage, as a multiple of |A|; None for no cap.
        singles: what an attempt is compared with that is alone at its task: `batch`, the others of the batch that are
            alone at theirs; `off`, nothing, so that its reward teaches nothing.
        std_floor: added to the std that advantages are divided by.
        kl_coef: weight of the k3 KL to the frozen base; 0 computes none.
        entropy_coef: weight of the entropy bonus.
        importance_cap: C of the truncated importance weights: the ratio is taken to the policy the run starts from, and
            each token counts min(pi_start / pi_behaviour, C); None: the ratio is taken to the behaviour policy itself.
        opd_least_share: the hint's mean is over the tokens of hinted answers, but over at least this share of all that
            count: a single hinted answer weighs no more than 1 / share of a rewarded one.
        answer_tokens: tokens an answer may have: what `dr_grpo` divides by, and where overlong shaping ends.
        cut_answers_teach: whether an answer teaches that ended where its length ran out; its reward is compared with
            the others' all the same.
        overlong_buffer: tokens before `answer_tokens` within which the reward falls by up to `overlong_penalty`; 0: no
            shaping.
        most_voice_share: share of a batch's weight that one reviewer's judgement may have at most, where several
            judged; 1: any. Of rollouts alone.
        refill: `dapo` batches take at most this many times their number of tasks while too few are informative.
        max_grad_norm: gradients are scaled down to this global L2 norm.
        w_rl, w_opd: weights of the reward's loss and of the hint's.
        step_mix: share s of the step advantage in (1 - s) * outcome + s * step.
        opd_mode: `logprobs` compares with a teacher that reads the hint, token by token; `top_k` does so on the
            behaviour policy's `opd_top_k` likeliest tokens, under the best of up to `opd_hints` hints; `lightweight`
            only stores the hint's text.
        opd_clip: the teacher's gap in nats is clipped to [-opd_clip, opd_clip]; opd_top_k_clip: the same for `top_k`.
        teacher: `base` is the frozen base model; `served:NAME` a model on the installation's teacher server; else the
            directory of a model; each with the base's tokenizer.
        max_staleness: a rollout older than this many adapter versions is refused.
        sft_temperature, sft_weight_max: weight of imitation is min(exp((r - mean) / temperature), max).
        rehearsal_texts: so many texts that the base model writes itself are imitated beside demonstrations, so that it
            forgets less of what is not shown; 0: none.
        beta: how strongly preferences hold the policy to the one the run starts from: DPO's and KTO's beta, IPO's tau.
        nll_coef: weight of the chosen answer's negative log-likelihood a token, beside DPO's and IPO's loss.
        kto_desirable, kto_undesirable: weight of KTO's good and bad answers, once both sides weigh the same.
        held_out_share: share of the tasks that preferences and demonstrations are checked on instead of learnt from.
        least_pair_accuracy: share of pairs of which more must be ordered right: what held-out pairs do not show to fall
            short of it is left to the gate; of preferences and single judgements alone.
        most_logprob_drop: nats a token that the held-out good answers may lose.
        most_length_drift: by how much the mean length of answers may change, relative.
    """

    NOUN: ClassVar[str] = "recipe"
    PATH: ClassVar[str] = "recipe."
    ERROR: ClassVar[type[FieldError]] = RecipeError

    algorithm: str = choice("grpo", ALGORITHMS)
    lora_rank: int = number(8, 1, 1024)
    lora_alpha: float = number(16.0, 0.0, 4096.0, above=True)
    target_modules: tuple[str, ...] = several(ALL_LINEAR, Text(200, 1), least=1, most=200)
    precision: str = choice("float32", PRECISIONS, is_later=True)
    learning_rate: float = number(4e-3, 0.0, 1.0, above=True)
    beta1: float = number(0.9, 0.0, 0.9999)
    beta2: float = number(0.95, 0.0, 0.99999)
    weight_decay: float = number(0.0, 0.0, 1.0)
    schedule: str = choice("constant", SCHEDULES, is_later=True)
    warmup_updates: int = number(0, 0, 100_000, is_later=True)
    minibatches: int = number(2, 1, 1024)
    epochs: int = number(1, 1, 100)
    clip_low: float = number(0.2, 0.0, 1.0, above=True)
    clip_high: float = number(0.28, 0.0, 10.0, above=True)
    sequence_clip_low: float = number(3e-4, 0.0, 1.0, above=True, is_later=True)
    sequence_clip_high: float = number(4e-4, 0.0, 10.0, above=True, is_later=True)
    dual_clip: float | None = number(None, 1.0, 100.0)
    singles: str = choice("batch", SINGLES)
    std_floor: float = number(1e-2, 0.0, 1.0, above=True)
    kl_coef: float = number(0.0, 0.0, 10.0)
    entropy_coef: float = number(0.0, 0.0, 1.0)
    importance_cap: float | None = number(None, 1.0, 1000.0, is_later=True)
    answer_tokens: int = number(44, 1, 1_000_000, is_later=True)
    cut_answers_teach: bool = flag(True, is_later=True)
    overlong_buffer: int = number(0, 0, 1_000_000, is_later=True)
    overlong_penalty: float = number(0.5, 0.0, 10.0, is_later=True)
    most_voice_share: float = number(1.0, 0.0, 1.0, above=True, is_later=True)
    refill: float = number(2.0, 1.0, 10.0, is_later=True)
    max_grad_norm: float = number(1.0, 0.0, 1000.0, above=True)
    w_rl: float = number(0.7, 0.0, 10.0)
    w_opd: float = number(0.3, 0.0, 10.0)
    step_mix: float = number(0.5, 0.0, 1.0)
    opd_mode: str = choice("logprobs", OPD_MODES)
    opd_clip: float = number(3.0, 0.0, 100.0, above=True)
    opd_least_share: float = number(0.25, 0.0, 1.0, is_later=True)
    opd_top_k: int = number(4, 1, 20, is_later=True)
    opd_hints: int = number(3, 1, 16, is_later=True)
    opd_top_k_clip: float = number(1.0, 0.0, 100.0, above=True, is_later=True)
    teacher: str = text("base", 4096, least=1)
    max_staleness: int = number(4, 0, 1000)
    sft_temperature: float = number(0.5, 0.0, 100.0, above=True)
    sft_weight_max: float = number(4.0, 0.0, 1000.0, above=True)
    rehearsal_texts: int = number(0, 0, 100_000, is_later=True)
    beta: float = number(0.1, 0.0, 10.0, above=True, is_later=True)
    nll_coef: float = number(0.2, 0.0, 10.0, is_later=True)
    kto_desirable: float = number(1.0, 0.0, 100.0, above=True, is_later=True)
    kto_undesirable: float = number(1.0, 0.0, 100.0, above=True, is_later=True)
    held_out_share: float = number(0.1, 0.01, 0.5, is_later=True)
    least_pair_accuracy: float = number(0.6, 0.5, 1.0, is_later=True)
    most_logprob_drop: float = number(0.1, 0.0, 1.0, is_later=True)
    most_length_drift: float = number(0.2, 0.0, 1.0, is_later=True)
    schema: str = choice(RECIPE_SCHEMA, (RECIPE_SCHEMA,))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.teacher == SERVED:
            raise self.refuse("teacher", wanted="base, served:NAME or a model directory", found=self.teacher)
        if self.w_rl == 0 and self.w_opd == 0:
            raise RecipeError(
                "recipe.w_rl and recipe.w_opd are both 0: nothing could be learned; set one of them", field="w_rl"
            )
        if self.importance_cap is not None and self.algorithm not in CLIPPED:
            wanted = f"null for {self.algorithm}: it weighs a clipped loss ({', '.join(sorted(CLIPPED))})"
            raise self.refuse("importance_cap", wanted=wanted, found=self.importance_cap)
        if self.overlong_buffer >= self.answer_tokens:
            wanted = f"less than answer_tokens {self.answer_tokens}"
            raise self.refuse("overlong_buffer", wanted=wanted, found=self.overlong_buffer)

    @property
    def learns_from(self) -> str:
        """rollouts, pairs or demonstrations: what its records are."""
        return LEARNS_FROM[self.algorithm]

    @property
    def lora_scale(self) -> float:
        """What B A is multiplied by."""
        return self.lora_alpha / self.lora_rank

    @property
    def reach(self) -> float | None:
        """How far the optimiser may move one number of the adapter in a run, weight decay aside; None, any far, where
        beta1 squared is beta2 or more.

        Adam's step is the learning rate times m / sqrt(v). By Cauchy and Schwarz that is at most
        (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)), which gradients reach that grow by beta2 / beta1 a step.
        Kingma and Ba 2015 give the bound for a single gradient after none, which one run of larger ones exceeds.
        """
        rest = self.beta2 - self.beta1**2
        if rest <= 0.0:
            return None
        longest = (1.0 - self.beta1) / math.sqrt((1.0 - self.beta2) * rest / self.beta2)
        return self.learning_rate * max(1.0, longest) * self.minibatches * self.epochs

    @property
    def uses_teacher(self) -> bool:
        """Whether a hint becomes a loss: only with log-probs and a weight."""
        imitates = self.algorithm == "reward_weighted_sft" or self.algorithm in PREFERENCES
        return self.opd_mode != "lightweight" and self.w_opd > 0 and not imitates

    @property
    def stored_top_k(self) -> int:
        """How many of the likeliest tokens a rollout must carry at each position; 0: none."""
        return self.opd_top_k if self.uses_teacher and self.opd_mode == "top_k" else 0

    @property
    def hash(self) -> str:
        """Content hash of the whole recipe; two runs with the same one learned the same way.

        A recipe that was stored before a field existed keeps its hash: the field's default is no part of it.
        """
        later = {item.name: item.default for item in dataclasses.fields(self) if item.metadata.get("is_later")}
        whole = self.to_json().items()
        return content_hash({name: value for name, value in whole if name not in later or value != later[name]})


LEARNING_RATES: Sequence[tuple[int, float]] = (
    (1_000_000, 4e-3),
    (10_000_000, 1e-3),
    (100_000_000, 2e-4),
    (1_000_000_000, 5e-5),
)
"""Models of fewer parameters than this -> the learning rate to start with; larger ones take the careful `chat` one.

The first is measured on the built-in model; the others go down with size as those that are published for LoRA do.
"""


def choose_learning_rate(parameters: int | None) -> float:
    """Where to start with a model of this size; None: nobody knows it, and it is taken for large."""
    if parameters is not None:
        for most, rate in LEARNING_RATES:
            if parameters < most:
                return rate
    return RECIPES["chat"].learning_rate


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "desk": Recipe(),
        "desk-outcome": Recipe(w_rl=1.0, w_opd=0.0, step_mix=0.0),
        "desk-steps": Recipe(w_rl=1.0, w_opd=0.0),
        "desk-hints": Recipe(w_rl=0.0, w_opd=1.0),
        "desk-imitation": Recipe(algorithm="reward_weighted_sft", w_rl=1.0, w_opd=0.0, step_mix=0.0),
        "desk-dr-grpo": Recipe(algorithm="dr_grpo", w_rl=1.0, w_opd=0.0, step_mix=0.0),
        "desk-dapo": Recipe(algorithm="dapo", w_rl=1.0, w_opd=0.0, step_mix=0.0, overlong_buffer=8),
        "desk-cispo": Recipe(algorithm="cispo", w_rl=1.0, w_opd=0.0, step_mix=0.0),
        "desk-gspo": Recipe(algorithm="gspo", w_rl=1.0, w_opd=0.0, step_mix=0.0),
        "desk-reinforce-pp": Recipe(algorithm="reinforce_pp", w_rl=1.0, w_opd=0.0, step_mix=0.0),
        "desk-hybrid": Recipe(opd_mode="top_k"),
        "desk-dpo": Recipe(algorithm="dpo", held_out_share=0.25),
        "desk-ipo": Recipe(algorithm="ipo", held_out_share=0.25),
        "desk-kto": Recipe(algorithm="kto", beta=0.5, held_out_share=0.25),
        "desk-sft": Recipe(algorithm="sft"),
        "chat": Recipe(
            learning_rate=1e-5,
            lora_rank=16,
            lora_alpha=32.0,
            kl_coef=1e-3,
            beta2=0.99,
            answer_tokens=1024,
            importance_cap=2.0,
        ),
    }
)
"""Recipes by name. `desk` is the measured one; `chat` is a careful start for a model of ordinary size."""
