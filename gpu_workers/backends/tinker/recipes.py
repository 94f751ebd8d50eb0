"""Which recipes Tinker can do, and what each of their fields is to it. What it cannot do is refused here, in words.

Every field of a recipe is in exactly one of `TAKEN`, `REFUSED` and `OTHERWISE`; a test says so.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpu_workers.backends.errors import TrainingError
from tentalis.core.learning.recipes import CLIPPED, PREFERENCES, Recipe

ATTENTION = frozenset({"q_proj", "k_proj", "v_proj", "o_proj"})
MLP = frozenset({"gate_proj", "up_proj", "down_proj"})

TAKEN = frozenset(
    {
        "algorithm", "lora_rank", "target_modules", "learning_rate", "beta1", "beta2", "weight_decay", "minibatches",
        "epochs", "clip_low", "clip_high", "singles", "std_floor", "importance_cap", "answer_tokens",
        "overlong_buffer", "overlong_penalty", "max_grad_norm", "w_rl", "w_opd", "step_mix", "opd_mode", "opd_clip",
        "opd_least_share", "max_staleness", "sft_temperature", "sft_weight_max", "held_out_share", "cut_answers_teach",
        "most_voice_share",
    }
)  # fmt: skip
"""Recipe fields that mean the same as in the standalone backend."""

REFUSED = frozenset({"dual_clip", "kl_coef", "entropy_coef", "teacher", "schedule", "warmup_updates"})
"""Recipe fields that must be off."""

OTHERWISE: Mapping[str, str] = MappingProxyType(
    {
        "sequence_clip_low": "GSPO is the standalone backend's",
        "sequence_clip_high": "GSPO is the standalone backend's",
        "lora_alpha": "the service scales adapters its own way; one that is brought home is re-scaled to this",
        "opd_top_k": "it distils token by token alone",
        "opd_hints": "it distils token by token alone",
        "opd_top_k_clip": "it distils token by token alone",
        "refill": "it is about filling a batch",
        **dict.fromkeys(
            (
                "rehearsal_texts",
                "beta",
                "nll_coef",
                "kto_desirable",
                "kto_undesirable",
                "least_pair_accuracy",
                "most_logprob_drop",
                "most_length_drift",
            ),
            "it learns from rollouts alone",
        ),
        "precision": "the service chooses it",
        "schema": "it is ours",
    }
)
"""Recipe fields that mean nothing to it, and why."""


class RecipeNotForTinkerError(TrainingError):
    """The recipe asks for what the service cannot do; the message names the field and who can."""


class Modules(NamedTuple):
    """Which kinds of modules get low-rank tensors there."""

    attention: bool
    mlp: bool


def require_possible(recipe: Recipe) -> None:
    """Raises RecipeNotForTinkerError where the service cannot be what the recipe asks."""
    for name, wanted, can in (
        ("dual_clip", None, "its losses have one clip"),
        ("kl_coef", 0, "its losses have no reference policy"),
        ("entropy_coef", 0, "it does not tell entropies"),
        ("schedule", "constant", "each update has the one learning rate"),
        ("warmup_updates", 0, "each update has the one learning rate"),
    ):
        if (found := getattr(recipe, name)) != wanted:
            shown = "null" if wanted is None else wanted
            raise RecipeNotForTinkerError(
                f"recipe.{name} must be {shown} with Tinker, found {found}: {can}; the standalone backend does it"
            )
    if recipe.uses_teacher and recipe.opd_mode != "logprobs":
        raise RecipeNotForTinkerError(
            f"recipe.opd_mode must be logprobs or lightweight with Tinker, found {recipe.opd_mode}: its losses see one "
            "token a position; the standalone backend distils the likeliest ones"
        )
    if recipe.uses_teacher and recipe.teacher != "base":
        raise RecipeNotForTinkerError(
            f"recipe.teacher must be 'base' with Tinker, found {recipe.teacher!r}: a model on this box cannot be asked "
            "from there"
        )
    if recipe.algorithm == "gspo":
        raise RecipeNotForTinkerError(
            "recipe.algorithm must not be gspo with Tinker, whose losses take a ratio a token here; the standalone "
            "backend does it"
        )
    if recipe.algorithm in PREFERENCES:
        raise RecipeNotForTinkerError(
            f"recipe.algorithm must learn from rewards with Tinker, found {recipe.algorithm}, which learns from "
            f"{'judged answers' if recipe.algorithm == 'kto' else recipe.learns_from}; the standalone backend does it"
        )
    find_modules(recipe)


def find_modules(recipe: Recipe) -> Modules:
    """Raises RecipeNotForTinkerError: it takes all of attention, all of the MLP, or both."""
    asked = set(recipe.target_modules)
    if asked not in (ATTENTION, MLP, ATTENTION | MLP):
        raise RecipeNotForTinkerError(
            f"recipe.target_modules must be all of attention ({', '.join(sorted(ATTENTION))}), all of the MLP "
            f"({', '.join(sorted(MLP))}) or both with Tinker, found {', '.join(sorted(asked))}"
        )
    return Modules(attention=asked >= ATTENTION, mlp=asked >= MLP)


def is_clipped(recipe: Recipe) -> bool:
    """Whether the reward's loss is the clipped surrogate, which is also the hint's."""
    return recipe.algorithm in CLIPPED
