"""How large a run's updates are, beside its learning rate."""

import math

from tentalis.core.learning.recipes import Recipe


def rate_share(recipe: Recipe, *, number: int, updates: int, made: int) -> float:
    """What of the learning rate an update has, in (0, 1].

    It rises in equal parts over the first `warmup_updates` that an adapter is trained for, run after run, since Adam
    knows nothing yet of a fresh one; and falls over the updates of each run, never to nothing: at update k of n a share
    (k - 1) / n of the way to 0 is behind it.

    Args:
        number: of the update in its run, from 1; updates: of the run; made: of the adapter before this one.
    Source:
        Cosine: SGDR, arXiv:1608.03983, without restarts.
    """
    behind = (number - 1) / updates
    falls = {"constant": 1.0, "linear": 1.0 - behind, "cosine": 0.5 * (1.0 + math.cos(math.pi * behind))}
    return falls[recipe.schedule] * min(1.0, (made + 1) / max(1, recipe.warmup_updates))
