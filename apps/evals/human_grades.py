"""People's grades of what was tried, beside the graders' own, and how far the two agree."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.base.texts import require_text
from apps.evals.models import Evaluation, HumanGrade, ItemTry, TryRecord
from tentalis.core.field_limits import MAX_COMMENT_CHARS
from tentalis.core.scoring.agreement import Agreement, bootstrap_interval, cohen_kappa
from tentalis.core.scoring.calibration import approves

DRAWS: Final = 400
MOST_COMPARED: Final = 2_000
"""Grades of a run that are compared: the newest."""
MOST_DIFFERING: Final = 100

Pair = tuple[bool, bool]
"""Whether the grader approves an answer, and whether a person does."""
Unit = tuple[Pair, ...]
"""All that was said of one try: what depends on each other is drawn together."""


class DifferingGrade(NamedTuple):
    """A person and a grader on two sides of a try."""

    item_try: ItemTry
    grade: HumanGrade


@dataclass(frozen=True)
class GraderAgreement:
    """One grader beside people, each of whom approves an answer from half on, or rejects it.

    Attributes:
        grader: name and version; "" where none is known.
        tries, grades: that were compared; a try that several people graded counts as often.
        agreed: share of them on one side, in [0, 1].
        kappa: Cohen's; interval: its 95 %, by bootstrap over tries; None where it is not defined.
    """

    grader: str
    tries: int
    grades: int
    agreed: float
    kappa: Agreement
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class HumanAgreement:
    """A run's grades beside people's.

    Attributes:
        graders: each that graded what people graded too.
        differing: where they are on two sides, the first `MOST_DIFFERING` in the order of the items; differ: how many.
        uncompared: people's grades of tries that have no outcome.
    """

    graders: Sequence[GraderAgreement]
    differing: Sequence[DifferingGrade]
    differ: int
    uncompared: int


NOBODY: Final = HumanAgreement((), (), 0, 0)
"""Of a run of which people graded nothing."""


def grade_try(*, item_try: ItemTry, value: float, by: User, text: str = "") -> HumanGrade:
    """Say how right a try's answer is; said again, it is changed.

    Args:
        value: from 0, wrong, to 1, right; text: a word on it.
    Raises:
        NotFoundError, NotAllowedError: `by` may not, or is no person.
        BadInputError: naming the field.
        ConflictError: there is no answer, or it was not kept.
    """
    evaluation = item_try.evaluation
    require_right(by, evaluation.project, Right.REVIEWS_WRITE)
    if by.is_agent:
        raise NotAllowedError(f"wanted a person to grade, found the agent {by.username}")
    if not 0 <= value <= 1:
        raise BadInputError.at("value", f"wanted a number from 0, wrong, to 1, right; found {value}")
    words = require_text("text", text, MAX_COMMENT_CHARS) if text.strip() else ""
    if obstacle := find_obstacle(item_try):
        raise ConflictError(obstacle)
    with transaction.atomic():
        mine = HumanGrade.objects.select_for_update().filter(item_try=item_try, author=by.handle)
        before = mine.values_list("value", flat=True).first()
        made, _is_new = HumanGrade.objects.update_or_create(
            item_try=item_try, author=by.handle, defaults={"value": value, "text": words}
        )
        payload = {"item_try": item_try.pk, "value": value, "before": before}
        record(Kind.EVAL_GRADED, subject=evaluation, by=by.handle, payload=payload)
    return made


def find_obstacle(item_try: ItemTry) -> str:
    """Why nobody can grade a try's answer, in words; "" where people can. A query where its record was not read."""
    record: TryRecord | None = getattr(item_try, "record", None)
    if record is not None:
        return "there is no answer to grade" if record.error else ""
    return "" if item_try.answer else "its answer was not kept: nobody can grade it"


def find_contradiction(item_try: ItemTry, grades: Sequence[HumanGrade] | None = None) -> HumanGrade | None:
    """The newest grade of a person that is on the other side than the try's own; None where there is none.

    Args:
        grades: what people say of it, oldest first, where it was read already.
    """
    if item_try.outcome is None:
        return None
    told = list(item_try.human_grades.all()) if grades is None else grades
    return next((one for one in reversed(told) if approves(one.value) != approves(item_try.outcome)), None)


def find_agreement(evaluation: Evaluation) -> HumanAgreement | None:
    """How far the run's graders and people agree; None where nobody graded any of it. One query."""
    rows = HumanGrade.objects.filter(item_try__evaluation=evaluation).select_related("item_try")
    grades = sorted(rows.order_by("-id")[:MOST_COMPARED], key=lambda row: (row.item_try.place, row.item_try.number))
    if not grades:
        return None
    found: dict[str, dict[int, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    differing, uncompared = [], 0
    for row in grades:
        if row.item_try.outcome is None:
            uncompared += 1
            continue
        pair = approves(row.item_try.outcome), approves(row.value)
        found[row.item_try.grader][row.item_try_id].append(pair)
        if pair[0] != pair[1]:
            differing.append(DifferingGrade(row.item_try, row))
    graders = [
        _compare(grader, tuple(tuple(pairs) for pairs in tries.values()), seed=evaluation.pk)
        for grader, tries in sorted(found.items())
    ]
    return HumanAgreement(graders, differing[:MOST_DIFFERING], len(differing), uncompared)


@lru_cache(maxsize=64)
def _compare(grader: str, units: tuple[Unit, ...], *, seed: int) -> GraderAgreement:
    """Of the same grades the same figures: the interval is drawn once."""
    pairs = [pair for unit in units for pair in unit]
    return GraderAgreement(
        grader=grader,
        tries=len(units),
        grades=len(pairs),
        agreed=sum(left == right for left, right in pairs) / len(pairs),
        kappa=_find_kappa(units),
        interval=bootstrap_interval(units, _find_kappa, rng=random.Random(seed), draws=DRAWS),
    )


def _find_kappa(units: Sequence[Unit]) -> Agreement:
    pairs = [pair for unit in units for pair in unit]
    return cohen_kappa([left for left, _ in pairs], [right for _, right in pairs])
