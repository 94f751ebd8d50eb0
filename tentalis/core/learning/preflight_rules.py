"""Rules of when not to train and what training must not have done: preflight G1 to G13, each with its reason.

From the public negative results on LoRA from agents' experience, where every run transferred nothing: garbage pairs,
another format than at inference, eighteen examples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

IMITATING = frozenset({"reward_weighted_sft", "sft", "dpo", "ipo", "kto"})
"""Algorithms that copy answers, and so copy what is wrong with them."""

LEAST_SOLVED = 100
MOST_LOSS_RATIO = 5.0
LEAST_LENGTH_RATIO = 0.5
MOST_GRAD_NORM = 1_000.0
MOST_SKILLS_LOST = 0.02
MOST_NAMED = 5
LARGE_PARAMETERS = 100_000_000
MOST_LARGE_RATE = 1e-3
"""Above it adapters of large models diverge; the built-in model's rate is four times that."""


@dataclass(frozen=True, kw_only=True)
class GateAnswer:
    """What one gate says.

    Args:
        gate: G1 to G13.
        passed: None where it could not be asked, which `words` says why.
        found, wanted: what it measured and what was allowed; None where neither is a number.
    """

    gate: str
    passed: bool | None
    words: str
    found: float | None = None
    wanted: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ask_solved(algorithm: str, solved: int, *, least: int = LEAST_SOLVED) -> GateAnswer:
    """G1: imitation and preferences want enough distinct tasks solved.

    Args:
        solved: distinct tasks of the line's ledger with at least one good attempt.
    """
    if algorithm not in IMITATING:
        return GateAnswer(gate="G1", passed=True, words=f"{algorithm} imitates nothing, it needs no solved tasks")
    words = f"{solved} distinct tasks are solved, {algorithm} wants {least}"
    return GateAnswer(gate="G1", passed=solved >= least, words=words, found=solved, wanted=least)


def ask_replay(asked: int, replayed: int, *, why_not: str = "") -> GateAnswer:
    """G2: the training text is, token by token, what the model saw.

    Args:
        asked, replayed: prompts that were spelt out and read again by the server's tokenizer, and how many came back
            the same.
        why_not: why none was asked.
    """
    if why_not:
        return GateAnswer(gate="G2", passed=None, words=f"not asked: {why_not}")
    words = f"{replayed} of {asked} prompts read out and in again are the very tokens that were answered"
    return GateAnswer(gate="G2", passed=asked > 0 and replayed == asked, words=words, found=replayed, wanted=asked)


def ask_split(shared: int) -> GateAnswer:
    """G3: tasks are held out, not rows.

    Args:
        shared: tasks of which something is in this batch and in another one of the same line and kind.
    """
    words = "no task is split over two batches" if not shared else f"{shared} tasks are in another batch too"
    return GateAnswer(gate="G3", passed=shared == 0, words=words, found=shared, wanted=0)


def ask_losses(summary: Mapping[str, Any], *, most: float = MOST_LOSS_RATIO) -> GateAnswer:
    """G4: what was not trained on is not lost far more on. Reads `val_loss` and `train_loss` of the summary."""
    validation, training = summary.get("val_loss"), summary.get("train_loss")
    if validation is None or training is None:
        return GateAnswer(gate="G4", passed=None, words="not asked: the trainer told no validation loss")
    ratio = abs(validation) / max(abs(training), 1e-9)
    words = f"validation loss {validation:.3g} on {training:.3g} in training: {ratio:.1f} times, {most:g} are allowed"
    return GateAnswer(gate="G4", passed=ratio <= most, words=words, found=ratio, wanted=most)


def ask_finishing(
    before_tokens: float | None, after_tokens: float | None, *, least: float = LEAST_LENGTH_RATIO
) -> GateAnswer:
    """G5: it did not learn to be done fast.

    Args:
        before_tokens, after_tokens: mean length of answers to the same tasks, of what served and of what was trained.
    """
    if not before_tokens or after_tokens is None:
        return GateAnswer(gate="G5", passed=None, words="not asked: nobody measured how long its answers are")
    ratio = after_tokens / before_tokens
    words = f"answers of {after_tokens:.1f} tokens where {before_tokens:.1f} were: {ratio:.0%}, {least:.0%} are wanted"
    return GateAnswer(gate="G5", passed=ratio >= least, words=words, found=ratio, wanted=least)


def ask_environment(starts: Mapping[str, Sequence[str]], *, is_stateless: bool) -> GateAnswer:
    """G6: every attempt at a task started from the same clean place.

    Args:
        starts: task -> hashes of what each of its attempts started from.
        is_stateless: the environments keep nothing, so that there is nothing to hash.
    """
    if is_stateless:
        return GateAnswer(gate="G6", passed=True, words="its environments keep nothing between attempts")
    unknown = sum(not all(hashes) or not hashes for hashes in starts.values())
    dirty = sum(len(set(hashes)) > 1 for hashes in starts.values())
    if unknown:
        words = f"{unknown} of {len(starts)} tasks do not say what their attempts started from"
    elif dirty:
        words = f"{dirty} of {len(starts)} tasks had attempts that started from different places"
    else:
        words = f"the attempts at each of {len(starts)} tasks started from the same place"
    return GateAnswer(gate="G6", passed=not (unknown or dirty), words=words, found=unknown + dirty, wanted=0)


def ask_finite(metrics: Sequence[Mapping[str, Any]], *, most_norm: float = MOST_GRAD_NORM) -> GateAnswer:
    """G7: loss and gradient norm of every update are finite, the norm below `most_norm` before it was clipped."""
    if not metrics:
        return GateAnswer(gate="G7", passed=None, words="not asked: the trainer told no update")
    for number, metric in enumerate(metrics, start=1):
        for name in ("loss", "grad_norm"):
            value = metric.get(name)
            if value is not None and not math.isfinite(value):
                return GateAnswer(gate="G7", passed=False, words=f"{name} of update {number} is {value}")
    worst = max(metric.get("grad_norm") or 0.0 for metric in metrics)
    words = f"loss and gradients are finite, the largest norm is {worst:.3g}, {most_norm:g} is allowed"
    return GateAnswer(gate="G7", passed=worst <= most_norm, words=words, found=worst, wanted=most_norm)


def ask_leak(
    held_out: int, measured: int, answers: int, *, what: str = "attempts", tasks: Sequence[int] = ()
) -> GateAnswer:
    """G8: nothing that is measured on is trained on.

    Args:
        held_out: answers on tasks a world holds out; measured: in whose words, or whose conversation's, a task that is
            measured on occurs, see `leaks.KeptPrompts`.
        what: the answers are, in words; tasks: ids of theirs.
    """
    found = max(held_out, measured)
    words = f"none of {answers} {what} is on a task that is measured on"
    if found:
        words = f"{held_out} of {answers} {what} are on held-out tasks, {measured} hold one that is measured on"
        if tasks:
            more = len(tasks) - MOST_NAMED
            named = ", ".join(map(str, tasks[:MOST_NAMED]))
            words += f" ({'task' if len(tasks) == 1 else 'tasks'} {named}{f' and {more} more' if more > 0 else ''})"
    return GateAnswer(gate="G8", passed=not found, words=words, found=found, wanted=0)


def ask_skills(lost: float | None, high: float | None, *, most: float = MOST_SKILLS_LOST) -> GateAnswer:
    """G9: what the base model could do already is kept.

    Args:
        lost: candidate minus the base model or what serves, whichever does worse, on the capability panel, as a share.
        high: upper end of its interval.
    """
    if lost is None or high is None:
        return GateAnswer(gate="G9", passed=None, words="not asked: nobody measured what the base model could do")
    words = (
        f"{100 * lost:+.1f} points on what the base model could do, at best {100 * high:+.1f}; "
        f"{-100 * most:.1f} are allowed"
    )
    return GateAnswer(gate="G9", passed=high >= -most, words=words.replace("-", "−"), found=lost, wanted=-most)


def ask_quantised(config: Mapping[str, Any] | None) -> GateAnswer:
    """G10: an adapter is never merged into a quantised base.

    Args:
        config: the base's config.json; None where it is the built-in model or cannot be read from here.
    """
    method = (config or {}).get("quantization_config")
    if not method:
        return GateAnswer(gate="G10", passed=True, words="the base model is not quantised")
    name = method.get("quant_method", "some way") if isinstance(method, Mapping) else str(method)
    words = f"the base model is quantised ({name}): what is merged into it would not be what was trained"
    return GateAnswer(gate="G10", passed=False, words=words)


def ask_base(fault: str, text: str) -> GateAnswer:
    """G11: the base weights are here, and are the model that answered.

    Args:
        fault: why not; "" where nothing speaks against it.
        text: what was seen of it.
    """
    return GateAnswer(gate="G11", passed=not fault, words=fault or text)


def ask_learning_rate(learning_rate: float, parameters: int | None) -> GateAnswer:
    """G12: a small model's learning rate never reaches a large one.

    Args:
        parameters: numbers in the base model; None where nobody knows, which is taken for many.
    """
    if parameters is not None and parameters < LARGE_PARAMETERS:
        return GateAnswer(gate="G12", passed=True, words=f"a model of {parameters:,} parameters takes large steps")
    size = "of unknown size" if parameters is None else f"of {parameters:,} parameters"
    words = f"learning rate {learning_rate:g} on a model {size}: at most {MOST_LARGE_RATE:g}"
    return GateAnswer(
        gate="G12", passed=learning_rate <= MOST_LARGE_RATE, words=words, found=learning_rate, wanted=MOST_LARGE_RATE
    )


def ask_worlds(refusals: Sequence[str], standings: Sequence[str]) -> GateAnswer:
    """G13: where its attempts were made, right and wrong can be told apart, and that was looked at as it is now.

    Args:
        refusals: of each environment that may not train, why. standings: what is known of each of them.
    """
    return GateAnswer(gate="G13", passed=not refusals, words="; ".join(refusals or standings) or "it has no attempts")


def find_refusal(answers: Sequence[GateAnswer]) -> str:
    """Why not, in words; "" where no gate objects."""
    return "; ".join(f"{one.gate}: {one.words}" for one in answers if one.passed is False)
