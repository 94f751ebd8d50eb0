"""What one voice may weigh in a batch: whoever judged most of it does not decide it alone, where others judged too."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

_ROUNDS, _CLOSE = 200, 1e-3


def share_voices(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Voice -> its share of all weight, in [0, 1].

    Args:
        parts: of each rollout, voice -> weight that its judgement gives the rollout.
    """
    total = math.fsum(value for part in parts for value in part.values())
    masses: dict[str, float] = defaultdict(float)
    for part in parts:
        for voice, value in part.items():
            masses[voice] += value
    return {voice: mass / total for voice, mass in masses.items()} if total > 0 else {}


def cap_voices(parts: Sequence[Mapping[str, float]], *, most_share: float, fixed: frozenset[str]) -> list[float]:
    """Factors in (0, 1] on the rollouts' weights, so that no voice has more than its share of them.

    A voice cannot have less than an equal one: of n voices none is held under 1 / n. One alone stays as it is. What
    several judged together goes down with the loudest of them.

    Args:
        parts: of each rollout, voice -> weight that its judgement gives the rollout.
        most_share: in (0, 1]; 1 changes nothing.
        fixed: voices that are never held down, such as what was verified; they count among all others.
    Returns:
        (N,) shares come within a thousandth of the cap.
    """
    voices = {voice for part in parts for voice, value in part.items() if value > 0}
    cap = max(most_share, 1 / len(voices)) if voices else 1.0
    held = dict.fromkeys(voices - fixed, 1.0)
    factors = [1.0] * len(parts)
    for _ in range(_ROUNDS if cap < 1 else 0):
        scaled = [{one: value * by for one, value in part.items()} for part, by in zip(parts, factors, strict=True)]
        shares = share_voices(scaled)
        loud = {voice: cap / shares[voice] for voice in held if shares.get(voice, 0.0) > cap * (1 + _CLOSE)}
        if not loud:
            break
        for voice, by in loud.items():
            held[voice] *= by
        factors = [
            min((held.get(voice, 1.0) for voice, value in part.items() if value > 0), default=1.0) for part in parts
        ]
    return factors
