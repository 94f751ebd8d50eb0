"""Which settings stand together, under which words: on the settings page, and where a run shows its recipe."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from django.utils.translation import gettext_lazy as _

from apps.console.words_settings import Words
from tentalis.core.learning.recipes import ALGORITHMS, CLIPPED, PREFERENCES


class Fields(NamedTuple):
    """Fields under a title; "" where they need none. What is seldom set is folded away while nobody set it."""

    title: Words
    names: Sequence[str]
    is_seldom: bool = False


ON_POLICY = frozenset(ALGORITHMS) - PREFERENCES
WRITTEN_PAIRS = frozenset({"dpo", "ipo"})
USED_BY: Mapping[str, tuple[str, frozenset[str]]] = {
    **dict.fromkeys(("clip_low", "clip_high"), ("algorithm", CLIPPED | {"cispo", "gspo"})),
    **dict.fromkeys(("sequence_clip_low", "sequence_clip_high"), ("algorithm", frozenset({"gspo"}))),
    **dict.fromkeys(("dual_clip", "importance_cap"), ("algorithm", CLIPPED)),
    **dict.fromkeys(("singles", "std_floor", "step_mix", "max_staleness", "w_rl", "w_opd"), ("algorithm", ON_POLICY)),
    **dict.fromkeys(("opd_mode", "teacher", "opd_clip", "opd_least_share"), ("algorithm", ON_POLICY)),
    **dict.fromkeys(("overlong_buffer", "overlong_penalty", "cut_answers_teach"), ("algorithm", ON_POLICY)),
    **dict.fromkeys(("opd_top_k", "opd_hints", "opd_top_k_clip"), ("opd_mode", frozenset({"top_k"}))),
    "refill": ("algorithm", frozenset({"dapo"})),
    "most_voice_share": ("algorithm", ON_POLICY | {"kto"}),
    **dict.fromkeys(("beta", "least_pair_accuracy"), ("algorithm", WRITTEN_PAIRS | {"kto"})),
    "nll_coef": ("algorithm", WRITTEN_PAIRS),
    **dict.fromkeys(("kto_desirable", "kto_undesirable"), ("algorithm", frozenset({"kto"}))),
    **dict.fromkeys(("sft_temperature", "sft_weight_max"), ("algorithm", frozenset({"reward_weighted_sft"}))),
    "rehearsal_texts": ("algorithm", frozenset({"sft"})),
    **dict.fromkeys(("held_out_share", "most_logprob_drop", "most_length_drift"), ("algorithm", PREFERENCES)),
}
"""Field of a recipe -> the choice that decides whether it is used, and for which values of it."""

GROUPS: Mapping[str, Sequence[Fields]] = {
    "gate_policy": (
        Fields(
            _("Statistics"),
            ("margin", "second_margin", "anchor_margin", "confidence", "power", "anchor_patience"),
        ),
        Fields(
            _("Held-out tasks"),
            (
                "panel_size",
                "panel_lifetime",
                "fresh_size",
                "confirm_size",
                "sweep_size",
                "skills_size",
                "skills_margin",
            ),
        ),
        Fields(_("Side by side, where no check says what is right"), ("blind_pairs", "people_per_pair")),
        Fields(_("What answers look like"), ("length_drift", "base_distance_nats"), is_seldom=True),
        Fields(
            _("What no reward sees"),
            ("capability_pairs", "text_margin_nats", "reasoning_margin", "alignment_margin"),
            is_seldom=True,
        ),
        Fields(_("Canary"), ("canary_percent",)),
        Fields(
            _("Limits that refuse a run"),
            ("least_solved", "most_loss_ratio", "least_length_ratio", "most_grad_norm"),
            is_seldom=True,
        ),
    ),
    "recipe": (
        Fields(
            _("Objective"),
            ("algorithm", "w_rl", "w_opd", "opd_mode", "step_mix", "singles", "max_staleness"),
        ),
        Fields(
            _("Updates"),
            (
                *("learning_rate", "minibatches", "epochs", "max_grad_norm"),
                *("clip_low", "clip_high", "sequence_clip_low", "sequence_clip_high", "dual_clip"),
                *("importance_cap", "kl_coef", "entropy_coef"),
            ),
        ),
        Fields(_("Adapter (LoRA)"), ("lora_rank", "lora_alpha", "target_modules", "precision"), True),
        Fields(_("Optimiser"), ("schedule", "warmup_updates", "beta1", "beta2", "weight_decay", "std_floor"), True),
        Fields(
            _("Hints and voices"),
            ("teacher", "opd_clip", "opd_least_share", "opd_top_k", "opd_hints", "opd_top_k_clip", "most_voice_share"),
            True,
        ),
        Fields(
            _("Long answers"),
            ("answer_tokens", "cut_answers_teach", "overlong_buffer", "overlong_penalty", "refill"),
            True,
        ),
        Fields(_("Preferences: DPO, IPO, KTO"), ("beta", "nll_coef", "kto_desirable", "kto_undesirable"), True),
        Fields(_("Imitation (SFT)"), ("rehearsal_texts", "sft_temperature", "sft_weight_max"), True),
        Fields(
            _("Validation of preferences and imitation"),
            ("held_out_share", "least_pair_accuracy", "most_logprob_drop", "most_length_drift"),
            True,
        ),
    ),
    "training_policy": (
        Fields(
            _("Hours and idle time"),
            ("timezone", "hours", "calendar", "calendar_file", "calendar_means", "pauses_outside", "quiet_s"),
        ),
        Fields(_("Quotas"), ("gpu_s_per_day", "runs_per_day", "share")),
        Fields(_("After somebody was forgotten"), ("serves_until_rebuilt",)),
    ),
}


def group_names(section: str, names: Iterable[str]) -> list[Fields]:
    """The names in their groups; what no group names stands last, under no words."""
    left = dict.fromkeys(names)
    found: list[Fields] = []
    for group in GROUPS.get(section, ()):
        if present := [name for name in group.names if name in left]:
            found.append(group._replace(names=present))
            for name in present:
                del left[name]
    return [*found, Fields("", list(left))] if left else found
