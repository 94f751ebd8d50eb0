"""Monitors: quiet while all is well, and each says in words what it saw when it is not."""

import math
import random
from typing import Any

import pytest

from tentalis.core.learning.collapse import AnswerProfile
from tentalis.core.learning.monitors import (
    BatchFacts,
    describe_batch,
    watch_batch,
    watch_hints,
    watch_logprobs,
    watch_traffic,
    watch_update,
)

WELL = {
    "loss": 0.07,
    "grad_norm": 0.1,
    "entropy": 0.07,
    "kl": 0.003,
    "kl_base": 0.2,
    "displaced": 0.01,
    "clip_fraction": 0.02,
    "max_ratio": 1.4,
    "mean_length_tokens": 16.9,
}


def test_a_run_as_the_desk_makes_it_raises_no_alarm() -> None:
    assert watch_update([WELL, WELL | {"entropy": 0.06, "max_ratio": 1.8}]) == ()
    assert watch_update([]) == ()
    assert [watch_update([{"share_chosen": share}]) for share in (0.5 - 1e-12, 4 / 7)] == [(), ()]


@pytest.mark.parametrize(
    ("changes", "detector", "words"),
    [
        ({"entropy": 0.01}, "entropy_ratio", "entropy 0.010 nats a token where it began at 0.070"),
        ({"entropy": 0.2}, "entropy_ratio", "entropy 0.200"),
        ({"mean_length_tokens": 5.0}, "length_drift", "answers of 5.0 tokens where they were 16.9"),
        ({"clip_fraction": 0.4}, "clip_fraction", "40% of tokens were clipped"),
        ({"max_ratio": 1234.0}, "max_ratio", "1.23e+03 times as likely"),
        ({"kl": 0.9}, "divergence", "0.90 nats a token"),
        ({"displaced": 0.22}, "displacement", "22% of rewarded answers are less than half as likely"),
        ({"kl_base": 9.0}, "base_divergence", "9.00 nats a token from the base model"),
        ({"loss": math.nan}, "not_finite", "loss is nan"),
        ({"share_chosen": 0.0}, "one_side", "it learns from bad answers alone: no good one is in the batch"),
        ({"share_chosen": 1.0}, "one_side", "it learns from good answers alone"),
        ({"share_chosen": 0.4}, "side_weights", "good answers weigh 0.67 times what bad ones do, 1 to 1.33 is wanted"),
        ({"share_chosen": 0.75}, "side_weights", "good answers weigh 3.00 times"),
    ],
)
def test_what_goes_wrong_is_told(changes: dict[str, Any], detector: str, words: str) -> None:
    (alarm,) = watch_update([WELL, WELL | changes], samples_anew=True)
    assert alarm.detector == detector
    assert words in alarm.words


def test_lengths_of_stored_attempts_are_not_watched() -> None:
    assert watch_update([WELL, WELL | {"mean_length_tokens": 5.0}]) == ()


def test_what_the_trainer_does_not_tell_is_not_watched() -> None:
    assert watch_update([{"loss": 1.0}, {"loss": 2.0, "max_ratio": None}]) == ()


def test_a_batch_that_is_too_old_or_paid_for_other_things_is_told() -> None:
    assert watch_batch(BatchFacts(rollouts=100, reward=0.6, outcome=0.5, audited=100), sequences=100, stale=10) == ()
    facts = BatchFacts(rollouts=100, reward=0.9, outcome=0.5, audited=60)
    stale, gap = watch_batch(facts, sequences=150, stale=40)
    assert (stale.detector, gap.detector) == ("staleness", "proxy_gap")
    assert (stale.found, stale.words) == (40 / 150, "40 of 150 sequences were too old")
    assert "0.90 where 0.50 is verified" in gap.words
    assert watch_batch(BatchFacts(rollouts=9, reward=1.0, outcome=0.0, audited=9), sequences=9, stale=0) == ()


def test_hints_that_the_teacher_shows_not_to_read_are_told() -> None:
    """Not while few pairs leave it open, nor of a backend that does not compare."""
    numbers = {"hinted_pairs": 310.0, "hinted_pair_accuracy": 0.49, "hinted_pair_low": 0.43, "hinted_pair_high": 0.55}
    (alarm,) = watch_hints(numbers)
    assert (alarm.detector, alarm.found, alarm.allowed) == ("unread_hints", 0.49, 0.7)
    assert "in 49% of 310 pairs, in at most 55% by their interval" in alarm.words
    assert watch_hints(numbers | {"hinted_pairs": 9.0, "hinted_pair_high": 0.78}) == watch_hints({}) == ()


def make_profile(answers: int = 100, **changes: float) -> AnswerProfile:
    values: dict[str, float] = {
        "broken_tag_rate": 0.01,
        "missing_end_rate": 0.0,
        "entropy_nats": 0.2,
        "length_tokens": 17.0,
        "self_overlap": 0.05,
    }
    return AnswerProfile(answers=answers, **values | changes)


def test_live_answers_are_compared_with_the_panel_once_there_are_enough() -> None:
    assert watch_traffic(make_profile(), make_profile()) == ()
    (alarm,) = watch_traffic(make_profile(broken_tag_rate=0.2), make_profile())
    assert alarm.detector == "broken_tags"
    assert watch_traffic(make_profile(answers=10, broken_tag_rate=0.9), make_profile()) == ()


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_what_may_be_noise_of_few_live_answers_is_no_alarm_however_often_it_is_looked_at(rate: float) -> None:
    """By any detector: each with the whole error for itself, 7 of the 60 alarmed at a half."""
    panel, rng = make_profile(300, missing_end_rate=rate, broken_tag_rate=rate), random.Random(3)
    alarmed = 0
    for _ in range(60):
        answers = [(rng.random() < rate, rng.random() < rate) for _ in range(1_200)]
        windows = (answers[max(upto - 60, 0) : upto] for upto in range(40, 1_201, 5))
        rates = ([sum(column) / len(one) for column in zip(*one, strict=True)] for one in windows)
        live = (make_profile(60, missing_end_rate=ends, broken_tag_rate=tags) for ends, tags in rates)
        alarmed += any(watch_traffic(one, panel) for one in live)
    assert alarmed <= 3
    assert watch_traffic(make_profile(60, missing_end_rate=rate + 0.3), panel)


def test_logprobs_of_another_model_are_told() -> None:
    assert watch_logprobs([[-0.5, -0.1]], [[-0.50001, -0.1]]) == ()
    (alarm,) = watch_logprobs([[-0.5, -0.1]], [[-0.7, -0.3]])
    assert "0.2000 nats" in alarm.words
    assert watch_logprobs([], []) == ()


def test_a_batch_counts_only_what_has_both_a_reward_and_a_truth() -> None:
    batch = describe_batch([1.0, None, 0.5], [1.0, 1.0, None], held_out=1)
    assert (batch.rollouts, batch.audited, batch.held_out, batch.agreement) == (3, 1, 1, None)
    rng = random.Random(1)
    truth = [float(rng.random() < 0.5) for _ in range(200)]
    assert describe_batch(truth, truth, held_out=0).agreement == 1.0
    assert describe_batch([1 - one for one in truth], truth, held_out=0).agreement == 0.0
