"""What checks found, as if the judges among those they asked that are below their bar had said nothing."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from apps.judges.models import JudgeProbe
from apps.judges.selectors import JudgeKey, find_fallen, say_below

SETTLING = (0.0, 1.0)


def name_asked(part: Mapping[str, Any]) -> frozenset[str]:
    """What settled a part of what checks found, the model among it where one was asked (`Graders.name`).

    Args:
        part: as a verification keeps it; of one with parts of its own, these are not looked at.
    """
    if part.get("share") is None:
        return frozenset()
    return frozenset(part.get("grader", "").removeprefix("judge ").split(", "))


def withhold(part: Mapping[str, Any], models: Collection[str], why: str) -> dict[str, Any]:
    """A part of what checks found without the word of some models: what they settled is unscored, for this reason.

    The others' words stand. What is made of several is as good as it was where another part settles it (`join_all`,
    `join_any`): wrong in full, or right in full where one is enough. Nobody is asked once it is settled, so a part that
    says as much as the whole settled it itself, and without it nobody knows.

    Args:
        part: as a verification keeps it; the whole is {"share": its outcome, "parts": its checks}.
    """
    given = part.get("parts", ())
    parts = [withhold(one, models, why) for one in given]
    told = {**part, "parts": parts} if parts else dict(part)
    before = [one.get("share") for one, now in zip(given, parts, strict=True) if now.get("share") is None]
    lost = [share for share in before if share is not None]
    is_settled = part.get("share") in SETTLING and part.get("share") not in lost
    if (lost and not is_settled) or (not parts and not name_asked(part).isdisjoint(models)):
        told |= {"share": None, "words": why}
    return told


class Withheld(NamedTuple):
    """What checks found without the word of judges that fell.

    Args:
        outcome: what it comes to, as it was; None: nobody knows any more.
        checks: as a verification keeps them. words: which judge that is.
    """

    outcome: float | None
    checks: Sequence[Mapping[str, Any]]
    words: str


def withhold_fallen(
    below: Mapping[JudgeKey, JudgeProbe],
    judges: Iterable[Mapping[str, Any]],
    *,
    outcome: float | None,
    checks: Sequence[Mapping[str, Any]],
) -> Withheld | None:
    """What checks found, without those of the judges they asked that are below their bar; None where none of them is.

    Args:
        below: as `find_below` has them. judges: `checked_by` of an attempt's `score_details`.
        outcome, checks: as its verification has them.
    """
    probes = {one["model"]: probe for one in judges if (probe := find_fallen(below, [one])) is not None}
    if not probes:
        return None
    words = say_below(next(iter(probes.values())))
    whole = withhold({"share": outcome, "parts": checks}, probes, words)
    return Withheld(whole["share"], whole["parts"], words)
