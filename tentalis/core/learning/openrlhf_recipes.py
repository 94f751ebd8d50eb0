"""Which recipes OpenRLHF can do, and what each of their fields is to it. What it cannot do is refused here, in words.

Every field of a recipe is in exactly one of `TAKEN` and `NOT_ITS_OWN`; a test says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError, UnsupportedRecipeError
from tentalis.core.learning.recipes import Recipe

ESTIMATORS: Mapping[str, str] = MappingProxyType(
    {"grpo": "group_norm", "dapo": "group_norm", "dr_grpo": "dr_grpo", "reinforce_pp": "reinforce_baseline"}
)
"""Our algorithm -> its advantage estimator. Its dr_grpo leaves the std out as ours does, and divides an update by the
tokens it has; its group_norm takes the sample's std, ours the population's."""

TAKEN = frozenset(
    {
        "algorithm", "lora_rank", "lora_alpha", "target_modules", "learning_rate", "beta1", "beta2", "weight_decay",
        "minibatches", "epochs", "clip_low", "clip_high", "dual_clip", "kl_coef", "entropy_coef", "importance_cap",
        "answer_tokens", "overlong_buffer", "overlong_penalty", "max_grad_norm", "w_rl", "w_opd", "step_mix",
        "opd_mode", "opd_clip", "opd_least_share", "teacher", "beta", "nll_coef", "schedule", "warmup_updates",
        "cut_answers_teach",
    }
)  # fmt: skip
"""Recipe fields that become flags or the plug-in's settings, or are refused where they cannot."""

NOT_ITS_OWN: Mapping[str, str] = MappingProxyType(
    {
        "sequence_clip_low": "GSPO is the standalone backend's",
        "sequence_clip_high": "GSPO is the standalone backend's",
        "std_floor": "its group_norm adds 1e-9 to the group's std",
        "singles": "every task is tried several times",
        "most_voice_share": "it makes its rollouts itself, and no reviewer judges them",
        "refill": "tasks whose rewards agree are replaced while the batch lasts",
        "opd_top_k": "it distils token by token alone",
        "opd_hints": "it distils token by token alone",
        "opd_top_k_clip": "it distils token by token alone",
        "max_staleness": "it makes its rollouts itself, from the policy it trains",
        "rehearsal_texts": "it imitates what it is given, and nothing beside",
        "sft_temperature": "it cannot weigh demonstrations",
        "sft_weight_max": "it cannot weigh demonstrations",
        **dict.fromkeys(
            (
                "kto_desirable",
                "kto_undesirable",
                "held_out_share",
                "least_pair_accuracy",
                "most_logprob_drop",
                "most_length_drift",
            ),
            "what it trained is held against our gate alone; KTO is the standalone backend's",
        ),
        "precision": "it trains in bfloat16 where there is a GPU",
        "schema": "it is ours",
    }
)
"""Recipe fields that mean nothing to it, and why."""


def _require_its_own(recipe: Recipe) -> None:
    """Raises UnsupportedRecipeError where the recipe changes what OpenRLHF is not told."""
    for name, wanted in (("schedule", "constant"), ("warmup_updates", 0), ("cut_answers_teach", True)):
        if (found := getattr(recipe, name)) != wanted:
            raise UnsupportedRecipeError(
                f"recipe.{name} must be {json.dumps(wanted)} with OpenRLHF, found {json.dumps(found)}; the standalone "
                "backend has it"
            )


def require_possible(recipe: Recipe) -> None:
    """Raises UnsupportedRecipeError where reinforcement learning by OpenRLHF cannot be what the recipe asks."""
    _require_its_own(recipe)
    if recipe.algorithm not in ESTIMATORS:
        raise UnsupportedRecipeError(
            f"recipe.algorithm: OpenRLHF does {', '.join(ESTIMATORS)}; found {recipe.algorithm}, which the standalone "
            "backend does"
        )
    if recipe.w_rl == 0:
        raise UnsupportedRecipeError(
            "recipe.w_rl must be more than 0 with OpenRLHF, whose updates start from rewards; the standalone backend "
            "learns from hints alone"
        )
    if recipe.step_mix > 0:
        raise UnsupportedRecipeError(
            f"recipe.step_mix must be 0 with OpenRLHF, which takes one reward an answer, found {recipe.step_mix}; "
            "the standalone backend rewards steps"
        )
    if recipe.uses_teacher and recipe.opd_mode != "logprobs":
        raise UnsupportedRecipeError(
            f"recipe.opd_mode must be logprobs or lightweight with OpenRLHF, found {recipe.opd_mode}; the standalone "
            "backend distils the likeliest tokens under several hints"
        )
    if recipe.dual_clip == 1.0:
        raise UnsupportedRecipeError(
            "recipe.dual_clip must be null or more than 1 with OpenRLHF, found 1.0; the standalone backend takes it"
        )
    if recipe.lora_alpha != int(recipe.lora_alpha):
        raise UnsupportedRecipeError(
            f"recipe.lora_alpha must be a whole number with OpenRLHF, found {recipe.lora_alpha}"
        )


STOCK = ("dpo", "ipo", "sft")
"""Our algorithms that its stock trainers do."""


def require_trainable(
    recipe: Recipe,
    options: ClusterOptions,
    *,
    tasks: int,
    weights: Sequence[float] = (),
    several: Sequence[int] = (),
) -> None:
    """See, before anything is queued, that OpenRLHF could train this; which records fit is seen by who reads them.

    Args:
        tasks: of the batch; weights: trust in its pairs or demonstrations; several: see `require_stock`.
    Raises:
        UnsupportedRecipeError, ClusterOptionsError: it could not; the message names the field and who can.
    """
    if recipe.learns_from != "rollouts":
        require_stock(recipe, weights, several=several)
        return
    require_possible(recipe)
    if recipe.uses_teacher:
        require_teacher(options)
    if tasks >= options.prompts_per_step:
        fit_sizes(recipe, options, prompts=tasks)


def require_teacher(options: ClusterOptions) -> None:
    """Raises ClusterOptionsError where there is nobody to ask under a hint."""
    if not options.teacher_url:
        raise ClusterOptionsError(
            "recipe.w_opd wants a teacher: options.teacher_url must name a server in vLLM's dialect, found nothing"
        )


def require_stock(recipe: Recipe, weights: Sequence[float], *, several: Sequence[int] = ()) -> None:
    """See that a stock trainer can do what the recipe asks with such records.

    Args:
        weights: trust in each; several: ids of the pairs a side of which is several sequences of tokens.
    Raises:
        UnsupportedRecipeError: it cannot.
    """
    _require_its_own(recipe)
    if recipe.algorithm not in STOCK:
        raise UnsupportedRecipeError(
            f"recipe.algorithm: OpenRLHF does {', '.join(STOCK)}; found {recipe.algorithm}, which the standalone "
            "backend does"
        )
    if len(set(weights)) > 1:
        raise UnsupportedRecipeError(
            f"OpenRLHF counts every record alike: wanted one trust, found {min(weights)} to {max(weights)}; the "
            "standalone backend weighs them"
        )
    if several:
        raise UnsupportedRecipeError(
            f"OpenRLHF compares two sequences of tokens: wanted pairs of attempts that are one each, found "
            f"{len(several)} with several (the first is pair {several[0]}); the standalone backend adds them up"
        )
    for name in ("kl_coef", "entropy_coef"):
        if value := getattr(recipe, name):
            raise UnsupportedRecipeError(
                f"recipe.{name} must be 0 for {recipe.algorithm} with OpenRLHF, found {value}; the standalone backend "
                "has it"
            )
    if recipe.lora_alpha != int(recipe.lora_alpha):
        raise UnsupportedRecipeError(
            f"recipe.lora_alpha must be a whole number with OpenRLHF, found {recipe.lora_alpha}"
        )


def require_head(recipe: HeadRecipe, options: ClusterOptions) -> None:
    """Raises ClusterOptionsError where a batch of a step scorer's recipe is not of whole micro-batches."""
    unit = options.micro_batch * options.actor_gpus
    if recipe.batch % unit:
        raise ClusterOptionsError(
            f"recipe.batch {recipe.batch} must be whole micro-batches ({options.micro_batch} on {options.actor_gpus} "
            f"GPUs each): wanted a multiple of {unit}"
        )


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How a run's tasks become rollouts and updates.

    Args:
        prompts: tasks a rollout; train_batch: answers an update; updates: of the whole run.
    """

    prompts: int
    train_batch: int
    updates: int


def fit_sizes(recipe: Recipe, options: ClusterOptions, *, prompts: int) -> Sizes:
    """The sizes that the cluster, the recipe and this many tasks agree on.

    Raises:
        ClusterOptionsError: they do not: the message says which numbers, and what would fit.
    """
    engine_gpus = options.engines * options.tensor_parallel
    if options.colocate and engine_gpus != options.actor_gpus:
        raise ClusterOptionsError(
            f"options.colocate wants as many GPUs for vLLM as for training: {options.actor_gpus} train, "
            f"{options.engines} engines of {options.tensor_parallel} are {engine_gpus}"
        )
    if options.zero_stage == 3:
        raise ClusterOptionsError(
            "options.zero_stage must be 0 to 2: the adapter's weights are sent to vLLM whole, found 3"
        )
    if options.samples_per_prompt < 2:
        raise ClusterOptionsError(
            "options.samples_per_prompt must be at least 2: answers are compared within their task, found 1"
        )
    if prompts < 1:
        raise ClusterOptionsError("a run wants at least one task, found none")
    if recipe.overlong_buffer and recipe.answer_tokens != options.max_new_tokens:
        raise ClusterOptionsError(
            f"recipe.overlong_buffer ends at answer_tokens {recipe.answer_tokens}, OpenRLHF's where an answer does: "
            f"options.max_new_tokens must be the same, found {options.max_new_tokens}"
        )
    step = min(options.prompts_per_step, prompts)
    samples = step * options.samples_per_prompt
    per_update, rest = divmod(samples, recipe.minibatches)
    unit = options.micro_batch * options.actor_gpus
    if rest or per_update % unit:
        raise ClusterOptionsError(
            f"{step} tasks of {options.samples_per_prompt} answers must make {recipe.minibatches} updates "
            f"(recipe.minibatches) of whole micro-batches ({options.micro_batch} on {options.actor_gpus} GPUs each): "
            f"wanted a multiple of {unit * recipe.minibatches} answers, found {samples}"
        )
    rollouts = prompts // step * options.episodes
    return Sizes(prompts=step, train_batch=per_update, updates=rollouts * recipe.minibatches * recipe.epochs)
