"""What several tries of an item say of k of them: is one right, are all right."""

from math import comb


def find_pass_at_k(*, right: int, tries: int, k: int) -> float:
    """The chance that of k tries at an item at least one is right, estimated without bias from so many tries.

    Args:
        right: tries that were right, of `tries`.
        k: 1 to `tries`.
    Returns:
        In [0, 1]: 1 - C(tries - right, k) / C(tries, k).
    Raises:
        ValueError: k is not among 1 to `tries`, or `right` not among 0 to `tries`.
    Source:
        Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.
    """
    _check(right, tries, k)
    return 1 - comb(tries - right, k) / comb(tries, k)


def find_pass_hat_k(*, right: int, tries: int, k: int) -> float:
    """The chance that all of k tries at an item are right, estimated without bias; written pass^k.

    Args:
        right: tries that were right, of `tries`.
        k: 1 to `tries`.
    Returns:
        In [0, 1]: C(right, k) / C(tries, k).
    Raises:
        ValueError: as `find_pass_at_k`.
    Source:
        Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains", section 4.
    """
    _check(right, tries, k)
    return comb(right, k) / comb(tries, k)


def _check(right: int, tries: int, k: int) -> None:
    if not 1 <= k <= tries:
        raise ValueError(f"k: wanted 1 to {tries}, found {k}")
    if not 0 <= right <= tries:
        raise ValueError(f"right: wanted 0 to {tries}, found {right}")
