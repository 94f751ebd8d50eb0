"""From a logit to a probability."""

import math

_MOST_LOGIT = 36.0  # beyond it a probability is 1 in double precision
_LEAST_LOGIT = -700.0  # below it, 0


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-x), in (0, 1), for any x without overflow."""
    bounded = min(_MOST_LOGIT, max(_LEAST_LOGIT, logit))
    return 1.0 / (1.0 + math.exp(-bounded))
