"""What runs, verdicts, manifests and settings call things, in words: one table for every page that lists such facts."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext as now_in_words
from django.utils.translation import gettext_lazy as _

from apps.console.selectors.metrics import WORDS
from apps.console.words_settings import CHOICE_WORDS, FIELD_WORDS
from apps.evals.models import Item
from apps.worlds.registry import WORLDS, find_world

Words = str | Promise


class Named(NamedTuple):
    """A fact's name as people read it, and the unit of its value; "" where it has none."""

    label: Words
    unit: Words = ""


FACTS: Mapping[str, Named] = {
    # recipe: units beside the labels that the settings page has
    "beta1": Named(_("AdamW beta 1")),
    "beta2": Named(_("AdamW beta 2")),
    "max_staleness": Named(_("Maximum staleness"), _("versions")),
    "opd_clip": Named(_("Hint advantage clip"), _("nats")),
    "schema": Named(_("Format")),
    # the run in a few numbers
    "rollouts": Named(_("Attempts"), _("attempts")),
    "rollouts_learned": Named(_("Attempts learned from"), _("attempts")),
    "rollouts_hinted": Named(_("Attempts with a hint"), _("attempts")),
    "rollouts_held_out": Named(_("Attempts held out"), _("attempts")),
    "examples": Named(_("Examples"), _("examples")),
    "examples_learned": Named(_("Examples learned from"), _("examples")),
    "examples_held_out": Named(_("Examples held out"), _("examples")),
    "tasks_learned": Named(_("Tasks learned from"), _("tasks")),
    "tasks_held_out": Named(_("Tasks held out"), _("tasks")),
    "texts_rehearsed": Named(_("Texts of its own it rehearsed"), _("texts")),
    "weight_chosen": Named(_("Weight of a good answer")),
    "weight_rejected": Named(_("Weight of a bad answer")),
    "share_chosen": Named(_("Weight of all good answers"), _("of all")),
    "train_loss": Named(_("Loss on what it learned from")),
    "val_loss": Named(_("Loss on what was held out")),
    "held_out_pairs": Named(_("Held-out pairs"), _("pairs")),
    "held_out_pair_accuracy": Named(_("Held-out pairs ordered right")),
    "held_out_pair_low": Named(_("Held-out pairs ordered right, at least (95 %)")),
    "held_out_pair_high": Named(_("Held-out pairs ordered right, at most (95 %)")),
    "held_out_margin": Named(_("Gain of the better held-out answers on the others"), _("nats")),
    "held_out_margin_p": Named(_("Chance of such gains where nothing was learned (p)")),
    "hinted_pairs": Named(_("Pairs of hinted attempts at one task"), _("pairs")),
    "hinted_pair_accuracy": Named(_("Pairs whose better attempt the hinted teacher likes more")),
    "hinted_pair_low": Named(_("Such pairs, at least (95 %)")),
    "hinted_pair_high": Named(_("Such pairs, at most (95 %)")),
    "hinted_margin": Named(_("By how much the hinted teacher likes the better attempts more"), _("nats a token")),
    "hinted_margin_p": Named(_("Chance of that where it cannot read hints (p)")),
    "chosen_logprob_change": Named(_("Gain of held-out good answers"), _("nats a token")),
    "length_before_tokens": Named(_("Length of answers before"), _("tokens")),
    "length_shown_tokens": Named(_("Length of the answers that were imitated"), _("tokens")),
    "length_after_tokens": Named(_("Length of answers after"), _("tokens")),
    "length_drift": Named(_("Length of answers changed by"), _("of itself")),
    "updates": Named(_("Updates"), _("updates")),
    "reward": Named(_("Mean reward")),
    "reward_std": Named(_("Standard deviation of the reward")),
    "groups": Named(_("Groups of attempts at one task"), _("groups")),
    "groups_without_signal": Named(_("Groups without signal"), _("groups")),
    "staleness": Named(_("Staleness"), _("versions")),
    "staleness_max": Named(_("Largest staleness"), _("versions")),
    "auc": Named(_("AUC on held-out steps (0.5 is chance)")),
    "steps": Named(_("Steps"), _("steps")),
    "wall_s": Named(_("Time it took"), _("s")),
    "train_seconds": Named(_("Time it took"), _("s")),
    "clip_fraction": Named(_("Clipped tokens"), _("of all")),
    "max_ratio": Named(_("Largest ratio")),
    # a verdict
    "asked": Named(_("Tasks tried")),
    "kept": Named(_("on the panel")),
    "drawn": Named(_("drawn anew")),
    "looks": Named(_("looked at"), _("times")),
    "planned": Named(_("at most")),
    "noise_std": Named(_("Spread of a repeated measurement")),
    "panel": Named(_("Held-out tasks")),
    "sampled accuracy": Named(_("Fully right")),
    "pairs won": Named(_("Pairs of answers won")),
    "evidence": Named(_("Evidence")),
    "human_pairs": Named(_("pairs judged by people")),
    "judge_error": Named(_("of which the judge got wrong"), _("of all")),
    "missing_pairs": Named(_("Pairs that people have yet to compare")),
    "step scores": Named(_("Steps right")),
    "items": Named(_("compared"), _("items")),
    "effective_items": Named(_("weighing as"), _("items of equal weight")),
    "candidate": Named(_("this adapter")),
    "reference": Named(_("the one it is compared with")),
    "difference": Named(_("Difference")),
    "low": Named(_("interval from")),
    "high": Named(_("interval to")),
    "std": Named(_("spread")),
    "confidence": Named(_("Confidence")),
    "metric": Named(_("Measured by")),
    "outcome": Named(_("Outcome")),
    "alarms": Named(_("Alarms")),
    # a manifest
    "worker": Named(_("Worker")),
    "base_model": Named(_("Base model")),
    "base_sha256": Named(_("Digest of the base model")),
    "parent_sha256": Named(_("Digest of the one it continues")),
    "run_id": Named(_("Run")),
    "attempt": Named(_("Try")),
    "recipe_hash": Named(_("Digest of the recipe")),
    "rollouts_sha256": Named(_("Digest of what it learned from")),
    "rank": Named(_("LoRA rank")),
    "alpha": Named(_("LoRA alpha")),
    "files": Named(_("File")),
    "size_bytes": Named(_("size"), _("bytes")),
    "sha256": Named(_("digest")),
    "versions": Named(_("Version of")),
    # what a model was asked with
    "model": Named(_("Model")),
    "temperature": Named(_("Temperature")),
    "top_p": Named(_("Top-p")),
    "top_k": Named(_("Top-k")),
    "max_tokens": Named(_("Longest answer"), _("tokens")),
    "max_completion_tokens": Named(_("Longest answer"), _("tokens")),
    "max_output_tokens": Named(_("Longest answer"), _("tokens")),
    "n": Named(_("Answers asked for"), _("answers")),
    "stop": Named(_("Stop at")),
    "stop_sequences": Named(_("Stop at")),
    "seed": Named(_("Seed")),
    "stream": Named(_("Streamed")),
    "logprobs": Named(_("Log-probs asked for")),
    "top_logprobs": Named(_("Alternatives asked for")),
    "tool_choice": Named(_("Tool choice")),
    "parallel_tool_calls": Named(_("Parallel tool calls")),
    "response_format": Named(_("Response format")),
    "reasoning_effort": Named(_("Reasoning effort")),
    "presence_penalty": Named(_("Presence penalty")),
    "frequency_penalty": Named(_("Frequency penalty")),
    # reviews
    "text": Named(_("Comment")),
    "score": Named(_("Score")),
    "before": Named(_("Reviews up to")),
    "accuracy": Named(_("Fully right")),
}
NAMES = {"torch": "PyTorch", "peft": "PEFT", "transformers": "Transformers", "python": "Python", "tentalis": "Tentalis"}
# whose keys are names of their own, never words of ours
OWN_NAMES = frozenset({"files", "versions"})

REWARD_SOURCES: Mapping[str, Words] = {
    "human": _("a person's feedback"),
    "verified": _("verified"),
    "imported": _("imported with the work"),
    "outside": _("an app, for its user"),
    "implicit": _("the next message"),
    "ai": _("an AI manager's feedback"),
    "scorers": _("the scorers"),
}
SIGNALS: Mapping[str, Words] = {
    "thanked": _("Thanked"),
    "accepted": _("Accepted"),
    "corrected": _("Corrected"),
    "told": _("Gave the right answer"),
    "asked_again": _("Asked again"),
    "gave_up": _("Gave up"),
    "tool_failed": _("A tool failed"),
    "judged": _("Judged by a model"),
}
TURN_ENDS: Mapping[str, Words] = {
    "next": _("ended by the next message"),
    "done": _("ended with the session"),
    "idle": _("ended by the session timeout"),
}
HINT_SOURCES: Mapping[str, Words] = {
    "grammar": _("read from the comment"),
    "edited answer": _("from the corrected answer"),
    "reviewer": _("written by the reviewer"),
}


def name_fact(name: str) -> Named:
    """The words of a fact; of one nobody has described, its own name, readably."""
    if name in FACTS:
        return FACTS[name]
    if name in FIELD_WORDS:
        return Named(FIELD_WORDS[name][0])
    if name in WORDS:
        return Named(WORDS[name].label, WORDS[name].unit)
    if name.startswith("refused_"):
        return Named(_("Not learned from: %(reason)s") % {"reason": name.removeprefix("refused_").replace("_", " ")})
    said = NAMES.get(name, name.replace("_", " "))
    return Named(said[:1].upper() + said[1:])


def say_item_set(name: str, tasksets: Mapping[str, Sequence[str]] = MappingProxyType({})) -> str:
    """`rates@1/held_out` as "rates@1, held out", a gate's panel by what is on it; any other set by its name.

    Args:
        tasksets: by environment, those that the items of a project's own panel may be of.
    """
    taskset, _slash, split = name.rpartition("/")
    if "@" in taskset and split in Item.Split.values:
        return f"{taskset}, {Item.Split(split).label.lower()}"
    match name.split("/"):  # as `apps.evals.panels` names them
        case ["own", environment, _hash, *_fresh] if environment in WORLDS:
            if len(own := tasksets.get(environment, ())) == 1:
                return now_in_words("held-out items of %(taskset)s") % {"taskset": own[0]}
            return now_in_words("own held-out items, %(world)s") % {"world": find_world(environment).label}
        case [environment, size, draw] if environment in WORLDS and size.isdecimal() and draw.isdecimal():
            told = {"size": size, "world": find_world(environment).label, "draw": int(draw) + 1}
            return now_in_words("%(size)s made-up tasks, %(world)s, draw %(draw)s") % told
    return name


def name_choice(name: str, value: Any) -> Words:
    """A choice's words, where the settings page has some; else the value."""
    return CHOICE_WORDS[value] if name in FIELD_WORDS and value in CHOICE_WORDS else str(value)
