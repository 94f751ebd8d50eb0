"""Look at a comparison several times while it grows, at one stated error level, and stop where it will hardly change.

Every look has an interval of its own, wider than one look alone would want: whatever is said at whichever look, better,
worse or good enough, is wrong with at most the planned error in that direction.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

GRID = 401
"""Points on which what is left after a look is carried to the next: the boundary is right to its third digit."""
TAIL = 8.0
LEAST_GROWTH = 1.02
"""By which information is taken to grow from look to look at least: where it grows by less, the look is a little
stricter than it need be."""
MIXTURE_STD = 0.1
"""Differences that are looked for without a plan are of this size."""
_NORMAL = NormalDist()


def spend_error(share: float, error: float) -> float:
    """How much of the planned error may be spent when this share of the planned items is measured.

    Args:
        share: in (0, 1].
        error: one-sided, of all looks together.
    Returns:
        error * ln(1 + (e - 1) * share): nearly as much at the first look as at the last, so that what is clear stops
        there.
    Source:
        Lan and DeMets 1983, "Discrete sequential boundaries for clinical trials", the function that comes close to
        Pocock's. O'Brien and Fleming's spends next to nothing before half of the items: measured on outcomes as the
        gate sees them it takes half as many again, and finds 4 to 6 points more of those that are 3 to 6 points worse
        and still within a margin of ten (ADR 80).
    """
    return error * math.log1p((math.e - 1) * share)


def find_look_error(shares: tuple[float, ...], error: float, information: tuple[float, ...] = ()) -> float:
    """The one-sided error at which the last of these looks may be judged, so that all together spend what is allowed.

    Args:
        shares: of the planned items that were measured at each look so far, rising, the last one at most 1. They may
            be chosen as one goes.
        error: one-sided, in (0, 0.5).
        information: of each look, rising, in any unit: two looks are as much alike as the root of its ratio says. ():
            the shares.
    Raises:
        ValueError: no look, shares that do not rise within (0, 1], or information of other looks or that does not rise.
    Source:
        Armitage, McPherson and Rowe 1969: what has not crossed a boundary is carried from look to look by numerical
        integration; a sum of n differences is nearly normal with independent increments. Intervals at these levels
        hold at all looks at once: Jennison and Turnbull 1989, "Interim analyses: the repeated confidence interval
        approach". How much is spent by when is one scale and what is known by then another: Lan and DeMets 1989,
        "Group sequential procedures: calendar versus information time".
    """
    if not shares or not all(0.0 < share <= 1.0 for share in shares) or list(shares) != sorted(set(shares)):
        raise ValueError(f"looks want shares of the items that rise within (0, 1], found {shares}")
    information = information or shares
    if len(information) != len(shares) or information[0] <= 0 or list(information) != sorted(set(information)):
        raise ValueError(f"{len(shares)} looks want as much information each, rising from above 0, found {information}")
    if not 0.0 < error < 0.5:
        raise ValueError(f"error must lie in (0, 0.5), found {error}")
    return 1 - _NORMAL.cdf(_carry(shares, information, error).bound / math.sqrt(information[-1]))


class _Left(NamedTuple):
    """What has not crossed a boundary yet.

    Args:
        places, mass: (GRID,) sums of differences, whose variance is the information, and their probability.
        bound: that the sum must pass at the last look.
    """

    places: np.ndarray
    mass: np.ndarray
    bound: float


@lru_cache(maxsize=2048)
def _carry(shares: tuple[float, ...], information: tuple[float, ...], error: float) -> _Left:
    if not shares:
        return _Left(np.zeros(1), np.ones(1), 0.0)
    before = _carry(shares[:-1], information[:-1], error)
    spent, known = (shares[-2], information[-2]) if len(shares) > 1 else (0.0, 0.0)
    deviation, reach = math.sqrt(information[-1] - known), TAIL * math.sqrt(information[-1])
    wanted = spend_error(shares[-1], error) - (spend_error(spent, error) if spent else 0.0)
    bound = _find_bound(before.places, before.mass, deviation, wanted, reach=reach)
    places = np.linspace(-reach, bound, GRID)
    density = np.exp(-0.5 * ((places[:, None] - before.places[None, :]) / deviation) ** 2) @ before.mass
    weights = np.full(GRID, (places[1] - places[0]) / (deviation * math.sqrt(2 * math.pi)))
    weights[[0, -1]] /= 2
    return _Left(places, density * weights, bound)


def _find_bound(places: np.ndarray, mass: np.ndarray, deviation: float, wanted: float, *, reach: float) -> float:
    """The value within `reach` of 0 that a step of this deviation from what is left passes with the wanted chance."""
    low, high = -reach, reach
    for _ in range(40):
        middle = (low + high) / 2
        beyond = [math.erfc((middle - place) / (deviation * math.sqrt(2))) / 2 for place in places.tolist()]
        if float(np.dot(mass, beyond)) > wanted:
            low = middle
        else:
            high = middle
    return high


def find_valid_reach(variance: float, *, alpha: float) -> float:
    """Half the width of an interval that holds at every look at once, however many there are: for what is watched as it
    comes, without a number of items that is planned.

    Args:
        variance: of the estimate that it is put around.
        alpha: chance that it ever misses the true difference, two-sided.
    Source:
        Mixture sequential probability ratio test: Johari, Pekelis, Walsh 2015, "Always valid inference",
        arXiv:1512.04922, with a normal mixture of standard deviation `MIXTURE_STD` around no difference. Theirs knows
        the variance; ours is estimated.
    """
    mixture = MIXTURE_STD**2
    total = variance + mixture
    return math.sqrt(2 * variance * total / mixture * (math.log(1 / alpha) + 0.5 * math.log(total / variance)))


def find_valid_p(difference: float, *, variance: float) -> float:
    """The chance that a difference ever, at any look, lies so far from none where there is none: the `alpha` at which
    `find_valid_reach` just reaches it, in (0, 1].

    Args:
        variance: of the estimate.
    """
    mixture = MIXTURE_STD**2
    total = variance + mixture
    log_p = 0.5 * math.log(total / variance) - mixture * difference**2 / (2 * variance * total)
    return math.exp(min(log_p, 0.0))


class Looks:
    """The looks at one growing comparison."""

    def __init__(self, planned: int, *, confidence: float) -> None:
        """Have no look yet.

        Args:
            planned: items it has at most.
            confidence: of a two-sided interval that is looked at once; each of its ends errs with half of the rest.
        """
        self.planned, self.error = planned, (1 - confidence) / 2
        self.shares: tuple[float, ...] = ()
        self.information: tuple[float, ...] = ()

    def look(self, items: int, weights: Sequence[float] = ()) -> float:
        """The confidence of the interval at a look at so many items; the same number again is the same look.

        Args:
            weights: how much each of them counts, on one scale for all looks: a weighted mean at one look is as much
                like that at a later one as their sums of squares are. (): all count 1.
        """
        share = min(items / self.planned, 1.0)
        if not self.shares or share > self.shares[-1]:
            known = math.fsum(weight * weight for weight in weights) / self.planned if weights else share
            least = LEAST_GROWTH * self.information[-1] if self.information else 0.0
            self.shares, self.information = (*self.shares, share), (*self.information, max(known, least))
        return 1 - 2 * find_look_error(self.shares, self.error, self.information)


def foresee(estimate: float, *, error: float, error_then: float, bar: float) -> float:
    """The chance that an estimate lies above a bar when all planned items are measured.

    Args:
        error: its standard error now; error_then: with all items.
    Returns:
        In [0, 1]; 0 or 1 where nothing more will be measured.
    Source:
        Predictive probability with a flat prior, as Spiegelhalter, Freedman and Blackburn 1986, "Monitoring clinical
        trials: conditional or predictive power?": the final estimate is normal around the present one with variance
        error ** 2 - error_then ** 2. Stopping at a small chance makes findings rarer, never commoner.
    """
    spread = math.sqrt(max(error**2 - error_then**2, 0.0))
    if spread == 0.0:
        return float(estimate > bar)
    return _NORMAL.cdf((estimate - bar) / spread)
