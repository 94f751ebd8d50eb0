"""Whether a teacher reads the hints it is given is told from the attempts that it compares under them."""

import random
from dataclasses import replace

import pytest

from gpu_workers.backends.plans import order_hinted
from gpu_workers.backends.training_example import TrainingExample
from tests.gpu_workers.learning.training_factory import make_rollouts

pytestmark = pytest.mark.torch


def test_a_teacher_that_reads_hints_likes_better_attempts_more_and_one_that_does_not_any() -> None:
    """Per sampled token and unit of trust: neither long answers nor trusted hints count for more."""
    rng = random.Random(0)
    rollouts = make_rollouts(groups=24, size=8)

    def give(liking: float, *, trust: float = 1.0) -> list[TrainingExample]:
        gaps = [rng.gauss(liking * (one.reward or 0.0), 1.0) - 2 for one in rollouts]
        return [
            TrainingExample(replace(one, hint_weight=trust), None, gaps=[trust * gap] * len(one.token_ids))
            for one, gap in zip(rollouts, gaps, strict=True)
        ]

    reads, reads_not, trusted_less = (order_hinted(given) for given in (give(2.0), give(0.0), give(2.0, trust=0.25)))
    assert reads is not None
    assert reads_not is not None
    assert trusted_less is not None
    assert (reads.pairs, reads.tasks) == (24 * 16, 24)
    assert reads.low > 0.8
    assert reads_not.low < 0.5 < reads_not.high < 0.7
    assert (reads.margin, trusted_less.margin) == pytest.approx((2, 2), abs=0.4)
    assert order_hinted(give(2.0, trust=0.0)) is order_hinted([TrainingExample(rollouts[0], None)]) is None
