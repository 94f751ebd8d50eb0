"""How good a ranking is by what is known to be relevant: the measures of retrieval, each in [0, 1]."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

MEASURES: Final = ("ndcg", "recall", "precision", "hit", "mrr", "map")


def measure_ranking(ranking: Sequence[str], gains: Mapping[str, float], *, k: int) -> dict[str, float]:
    """Every measure at k.

    Args:
        ranking: the best first. What stands in it again counts nothing, and takes its place.
        gains: what each document is worth, above 0 where it is relevant; at least one is.
    Returns:
        recall, precision, hit, the reciprocal rank of the first relevant one (mrr), average precision over the first k
        (map, divided by as many as could stand there), and ndcg with linear gains (Järvelin and Kekäläinen, 2002).
    """
    relevant = {document for document, gain in gains.items() if gain > 0}
    seen: set[str] = set()
    places, gained = [], 0.0
    for place, document in enumerate(ranking[:k], 1):
        if document in relevant and document not in seen:
            places.append(place)
            gained += gains[document] / math.log2(place + 1)
        seen.add(document)
    best = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:k]
    ideal = sum(gain / math.log2(place + 1) for place, gain in enumerate(best, 1))
    found = len(places)
    return {
        "recall": found / len(relevant),
        "precision": found / k,
        "hit": float(found > 0),
        "mrr": 1 / places[0] if places else 0.0,
        "map": sum(number / place for number, place in enumerate(places, 1)) / min(len(relevant), k),
        "ndcg": min(1.0, gained / ideal),
    }
