"""From a logit to a probability."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def sigmoid(logits: ArrayLike) -> NDArray[np.float64]:
    """1 / (1 + e^-x) of each, in (0, 1), for any x without overflow: beyond 36 it is 1 in double precision."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -700.0, 36.0))))


def cross_entropy(logits: NDArray[np.float64], truths: NDArray[np.float64]) -> float:
    """-sum_i [y_i log p_i + (1 - y_i) log(1 - p_i)], p_i = sigmoid(logit_i), without overflow."""
    return float(np.sum(np.logaddexp(0.0, logits) - truths * logits))
