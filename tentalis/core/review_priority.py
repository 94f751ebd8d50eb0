"""How much is learned from judging a task, and what that makes of its place in the queue."""

HEAD_START_H = 24.0
"""A review of priority 1 stands where one of priority 0 stands that was opened so many hours before."""


def find_priority(*, score: float | None, vote_spread: float | None, attempt_spread: float | None) -> float:
    """Priority p = (u + d) / 2: the mean of uncertainty and disagreement.

    u = 1 - 2 |score - 0.5|: 1 for a score of a half, 0 at either end, 1 where nobody could score it.
    d = max(vote_spread, attempt_spread): scorers that contradict each other, or attempts of which some are good and
    some bad, which is where a group teaches; 0 where there is neither.

    Args:
        score: the task's combined score, in [0, 1].
        vote_spread: the widest max - min of what scorers, or the votes of one, said of one attempt, in [0, 1].
        attempt_spread: max - min of the attempts' combined scores, in [0, 1].
    Returns:
        In [0, 1].
    Raises:
        ValueError: an argument out of [0, 1].
    Source:
        Margin sampling and query by committee (Settles, Active Learning Literature Survey, 2009, sec. 3.1-3.2). That
        they are averaged with equal weights is ours.
    """
    for name, value in (("score", score), ("vote_spread", vote_spread), ("attempt_spread", attempt_spread)):
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"{name}: wanted a number from 0 to 1, found {value!r}")
    uncertainty = 1.0 if score is None else 1.0 - 2.0 * abs(score - 0.5)
    disagreement = max(vote_spread or 0.0, attempt_spread or 0.0)
    return (uncertainty + disagreement) / 2
