"""Alarms while a run trains, of what its batch taught, and while an adapter serves, each threshold with its reason.

A monitor compares what is seen now with what was seen when all was well: a run with its own first update, live answers
with the panel the adapter was let in by. Whoever calls decides what an alarm leads to.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tentalis.core.learning.collapse import Alarm, AnswerProfile, CollapseLimits, find_alarms
from tentalis.core.scoring.ranking import GOOD_FROM, area_under_curve

LEAST_AUDITED = 30


@dataclass(frozen=True, kw_only=True)
class MonitorLimits:
    """How far a run, and live traffic, may go.

    Args:
        least_entropy_ratio: of an update's entropy to the first one's. Learning sharpens, but below a quarter nothing
            is explored any more: groups agree and advantages are zero.
        most_entropy_ratio: upwards the policy falls apart; on the desk an over-scaled adapter is at 1.3 and more.
        most_clip_fraction: share of tokens whose ratio was clipped. Above three in ten most of the gradient is gone and
            the data is too old or the step too large (the desk trains at .01 to .15).
        most_ratio: largest probability ratio of a token. With stored behaviour log-probs and one epoch it stays below
            2 on the desk, and at 17 where a reward was hacked.
        most_divergence: nats a token between the behaviour and the present policy (k3): above half a nat an update has
            left what its data can say anything about.
        most_base_divergence: the same against the frozen base model.
        most_displaced: by how much the share may grow, over the first update's, of rewarded answers that are less than
            half as likely as when they were drawn: the run unlearns what it is rewarded for, though its loss falls.
            Many passes with wide clipping do so on the desk, at .2 and more while right answers vanish; where it learns
            it stays at .01 and less. At the first update it is what the server's and the trainer's kernels differ by.
        least_share_chosen, most_share_chosen: of the weight of all answers, that of the good ones (KTO). Good over
            bad from 1 to 4/3 is what its paper found to work.
        most_length_drift: of the mean length of answers sampled in training, relative to the first update: what is paid
            by length drifts.
        most_stale: share of a batch's sequences that was too old to train on: more means that serving and
            training have parted.
        least_hinted_order: share of pairs of attempts at a task whose better one the teacher must like more under its
            hints: half is chance, and a model that reads them (the desk's) is at .98.
        most_proxy_gap: mean reward over mean verified outcome of the same attempts: a reward so far above is earned by
            other things than being right.
        most_logprob_drift: nats a token between the log-probs that were served and those recomputed under that name;
            one server's kernels differ by 1e-5, another adapter by far more than .02.
        least_answers: live answers before anything is said of them.
    Source:
        Displacement: likelihood of right answers falling under GRPO, from the penalties on wrong ones that share tokens
        with them, arXiv:2505.18830; under DPO, arXiv:2410.08847. The bar is ours. KTO's range: arXiv:2402.01306v1,
        section 4.2.
    """

    least_entropy_ratio: float = 0.25
    most_entropy_ratio: float = 1.5
    most_clip_fraction: float = 0.3
    most_ratio: float = 20.0
    most_divergence: float = 0.5
    most_base_divergence: float = 5.0
    most_displaced: float = 0.1
    least_share_chosen: float = 1 / 2
    most_share_chosen: float = 4 / 7
    most_length_drift: float = 0.5
    most_stale: float = 0.25
    least_hinted_order: float = 0.7
    most_proxy_gap: float = 0.25
    most_logprob_drift: float = 0.02
    least_answers: int = 40


LIMITS = MonitorLimits()


def watch_update(metrics: Sequence[Mapping[str, Any]], *, samples_anew: bool = False) -> tuple[Alarm, ...]:
    """What the newest update of a run says against its first.

    Args:
        metrics: of every update so far, oldest first, under the trainer's names; what it does not tell is not watched.
        samples_anew: the trainer samples answers for every update. Else their lengths are those of the stored attempts
            that were dealt to it, and say nothing of what is trained.
    """
    if not metrics:
        return ()
    first, last = metrics[0], metrics[-1]
    found = [
        Alarm(detector="not_finite", found=0.0, allowed=0.0, words=f"{name} is {value}")
        for name in ("loss", "grad_norm", "entropy")
        if (value := _number(last, name, finite=False)) is not None and not math.isfinite(value)
    ]
    if (before := _number(first, "entropy")) and (now := _number(last, "entropy")) is not None:
        ratio, words = now / before, f"entropy {now:.3f} nats a token where it began at {before:.3f}"
        found += _below("entropy_ratio", ratio, LIMITS.least_entropy_ratio, words)
        found += _above("entropy_ratio", ratio, LIMITS.most_entropy_ratio, words)
    before, now = _number(first, "mean_length_tokens"), _number(last, "mean_length_tokens")
    if samples_anew and before and now is not None:
        drift, words = now / before - 1, f"answers of {now:.1f} tokens where they were {before:.1f}"
        found += _above("length_drift", abs(drift), LIMITS.most_length_drift, words)
    if (before := _number(first, "displaced")) is not None and (now := _number(last, "displaced")) is not None:
        words = f"{now:.0%} of rewarded answers are less than half as likely as when they were drawn"
        found += _above("displacement", now - before, LIMITS.most_displaced, words)
    if (share := _number(last, "share_chosen")) is not None:
        found += _watch_sides(share)
    named: Sequence[tuple[str, str, float, Callable[[float], str]]] = (
        ("clip_fraction", "clip_fraction", LIMITS.most_clip_fraction, "{:.0%} of tokens were clipped".format),
        ("max_ratio", "max_ratio", LIMITS.most_ratio, "a token became {:.3g} times as likely".format),
        ("divergence", "kl", LIMITS.most_divergence, "{:.2f} nats a token from the policy that answered".format),
        ("base_divergence", "kl_base", LIMITS.most_base_divergence, "{:.2f} nats a token from the base model".format),
    )
    for detector, name, most, say in named:
        if (value := _number(last, name)) is not None:
            found += _above(detector, value, most, say(value))
    return tuple(found)


def _watch_sides(share: float) -> list[Alarm]:
    """What is to be said of how much KTO's good answers weigh among all. Args: share: in [0, 1]."""
    least, most = LIMITS.least_share_chosen, LIMITS.most_share_chosen
    if share in (0.0, 1.0):
        missing, there = ("good", "bad") if share == 0.0 else ("bad", "good")
        words = f"it learns from {there} answers alone: no {missing} one is in the batch, and nothing holds against it"
        return [Alarm(detector="one_side", found=share, allowed=least if share == 0.0 else most, words=words)]
    words = f"good answers weigh {share / (1 - share):.2f} times what bad ones do, 1 to 1.33 is wanted"
    slack = 1e-6  # of rounding: both sides weigh the same unless the recipe says otherwise
    return _below("side_weights", share, least - slack, words) + _above("side_weights", share, most + slack, words)


@dataclass(frozen=True, kw_only=True)
class BatchFacts:
    """What an adapter was taught with, as the ledger knows it.

    Args:
        rollouts: how many.
        held_out: of those, how many on tasks that nothing may be trained on.
        audited: how many have both a reward and a verified outcome.
        reward, outcome: their means, in [0, 1]; 0 without any.
        agreement: chance that of a right and a wrong attempt the right one has the higher reward (AUC); None where not
            at least `LEAST_AUDITED` of each were audited.
        reach: how far the run may move one number of the adapter (`Recipe.reach`); None where nobody knows.
    """

    rollouts: int
    held_out: int = 0
    audited: int = 0
    reward: float = 0.0
    outcome: float = 0.0
    agreement: float | None = None
    reach: float | None = None


def describe_batch(rewards: Sequence[float | None], outcomes: Sequence[float | None], *, held_out: int) -> BatchFacts:
    """Sum a batch up.

    Args:
        rewards, outcomes: (R,) what each rollout earned, and what a verifier or an auditor made of it; None: nothing.
    """
    both = [
        (mine, truth) for mine, truth in zip(rewards, outcomes, strict=True) if mine is not None and truth is not None
    ]
    rewarded, truths = [mine for mine, _ in both], [truth for _, truth in both]
    right = sum(truth >= GOOD_FROM for truth in truths)
    return BatchFacts(
        rollouts=len(rewards),
        held_out=held_out,
        audited=len(both),
        reward=fmean(rewarded) if both else 0.0,
        outcome=fmean(truths) if both else 0.0,
        agreement=area_under_curve(rewarded, truths) if min(right, len(both) - right) >= LEAST_AUDITED else None,
    )


def watch_batch(facts: BatchFacts, *, sequences: int, stale: int) -> tuple[Alarm, ...]:
    """What a batch says of the line: too old, or paid for other things than being right.

    Args:
        sequences: of tokens that its trainer was given, of which a rollout may be several. stale: of those, how many
            were refused for their age.
    """
    found = []
    if sequences:
        words = f"{stale} of {sequences} sequences were too old"
        found += _above("staleness", stale / sequences, LIMITS.most_stale, words)
    if facts.audited >= LIMITS.least_answers:
        means = f"a mean reward of {facts.reward:.2f} where {facts.outcome:.2f} is verified"
        words = f"{means}, on {facts.audited} attempts"
        found += _above("proxy_gap", facts.reward - facts.outcome, LIMITS.most_proxy_gap, words)
    return tuple(found)


def watch_hints(summary: Mapping[str, Any]) -> tuple[Alarm, ...]:
    """What a run's teacher says of the hints it was given: whether it can read them.

    Args:
        summary: of the run; of a backend that does not compare attempts under their hints it tells nothing.
    """
    found, high, pairs = (_number(summary, f"hinted_{name}") for name in ("pair_accuracy", "pair_high", "pairs"))
    if found is None or high is None or pairs is None or high > LIMITS.least_hinted_order:
        return ()
    words = f"under its hints the teacher likes the better of two answers more in {found:.0%} of {pairs:.0f} pairs, "
    words += f"in at most {high:.0%} by their interval: it does not read them well, or they say something else"
    return (Alarm(detector="unread_hints", found=found, allowed=LIMITS.least_hinted_order, words=words),)


def watch_traffic(live: AnswerProfile, panel: AnswerProfile) -> tuple[Alarm, ...]:
    """What live answers look like beside those on the panel that the adapter was let in by; () while they are few.

    Nothing more can be measured of them and they are looked at again and again by several detectors, so what may be
    noise is no alarm, by an interval that reaches further than one look's (`MEAN_REACH`, `RATE_REACH`).

    Args:
        live: of answers to as many tasks: several to one task are alike, and would pass for more than they are.
    """
    if live.answers < LIMITS.least_answers:
        return ()
    return tuple(one for one in find_alarms(live, panel, limits=LIVE_COLLAPSE) if not _may_be_live_noise(one))


def _may_be_live_noise(alarm: Alarm) -> bool:
    reach = RATE_REACH if alarm.detector in RATES else MEAN_REACH
    return alarm.low is not None and alarm.found - reach * (alarm.found - alarm.low) <= alarm.allowed


RATES = frozenset({"broken_tags", "missing_end"})
MEAN_REACH, RATE_REACH = 1.5, 1.9
"""Of canaries like their panel some 5 in 100 at most raise an alarm within 1,200 answers, looked at sixty at a time
after each, by all detectors together (ADR 185): the rates, which come near their bars by chance, have most of that."""


LIVE_COLLAPSE = CollapseLimits(
    broken_tags_over_base=0.05,
    missing_end_over_base=0.05,
    entropy_jump=0.5,
    length_drift=0.5,
    self_overlap_over_base=0.15,
    repeated_words_over_base=0.15,
)
"""Wider than the gate's: live tasks are others than the panel's, and fewer."""


def watch_logprobs(served: Sequence[Sequence[float]], recomputed: Sequence[Sequence[float]]) -> tuple[Alarm, ...]:
    """Whether the log-probs that were served are this adapter's.

    Args:
        served, recomputed: (answers, tokens) in nats, of the same tokens.
    """
    gaps = [
        abs(a - b) for mine, theirs in zip(served, recomputed, strict=True) for a, b in zip(mine, theirs, strict=True)
    ]
    if not gaps:
        return ()
    mean = math.fsum(gaps) / len(gaps)
    words = f"served log-probs are {mean:.4f} nats a token from those recomputed: another model answered"
    return tuple(_above("logprob_drift", mean, LIMITS.most_logprob_drift, words))


def _number(metrics: Mapping[str, Any], name: str, *, finite: bool = True) -> float | None:
    value = metrics.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or (finite and not math.isfinite(value)):
        return None
    return float(value)


def _above(detector: str, value: float, most: float, words: str) -> list[Alarm]:
    return [Alarm(detector=detector, found=value, allowed=most, words=words)] if value > most else []


def _below(detector: str, value: float, least: float, words: str) -> list[Alarm]:
    return [Alarm(detector=detector, found=value, allowed=least, words=words)] if value < least else []
