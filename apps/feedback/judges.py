"""Who judges a project's work, and how much of it: what of the review policy is decided first."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import change_project, require_right
from apps.base.errors import BadInputError
from apps.feedback.managers import choose_manager
from apps.feedback.models import Review
from apps.feedback.rules import validate_review_policy
from apps.inference.judges import find_judging_model
from apps.inference.models import Provider
from apps.judges.models import name_judge
from apps.judges.selectors import find_standing
from apps.workers.kinds import find_kind
from apps.workers.models import Worker
from apps.worlds.registry import DEFAULT
from tentalis.core.checked import rule_of
from tentalis.core.review_policy import ReviewPolicy

MOST_MODEL_CHARS: int = rule_of(ReviewPolicy, "model").most
LEAST_RATE = 0.01
"""A share of the tasks that is none at all is said by who judges: nobody."""

OF_WORK = (Review.Purpose.WORK, Review.Purpose.SECOND)
"""Purposes of the reviews that the policy opens. Appeals and the rest are opened by people."""


@dataclass(frozen=True)
class Judges:
    """Part of a project's `ReviewPolicy`, and whether it can be done.

    Args:
        model: of the AI manager: SERVER/MODEL; "" is the installation's.
        is_model_missing: an AI manager would say nothing here, because no model is configured for it.
        standing: of that model as a judge, by its probes, in words; "" without one.
        left_open: open reviews of who is not asked any more: each waits to be judged or skipped, or until it is due.
    """

    who: str
    rate: float
    human_rate: float
    model: str
    is_model_missing: bool
    standing: str
    left_open: int


def find_judges(project: Project) -> Judges:
    """As the project's policy has it."""
    policy = validate_review_policy(project.review_policy)
    provider, model = find_judging_model(project.pk, policy.model)
    standing = find_standing(project, provider, model).words if model else ""
    kinds = set(Worker.objects.filter(project=project, is_active=True).values_list("kind", flat=True))
    homes = {find_kind(kind).environment or DEFAULT for kind in kinds} or {DEFAULT}
    is_asked = any(choose_manager(policy, home) == "llm" for home in homes)
    return Judges(
        policy.who, policy.rate, policy.human_rate, policy.model, is_asked and not model, standing,
        left_open=_count_left_open(project, policy),
    )  # fmt: skip


def _count_left_open(project: Project, policy: ReviewPolicy) -> int:
    asked = {"none": [], "both": Review.Audience.values}.get(policy.who, [policy.who])
    of_work = Review.objects.filter(project=project, state=Review.State.OPEN, purpose__in=OF_WORK)
    return of_work.exclude(audience__in=asked).count()


def find_named_judges(project: Project) -> list[tuple[Provider | None, str]]:
    """Server and model of those that may judge a project's work: its AI manager's, and the installation's judge."""
    policy = validate_review_policy(project.review_policy)
    found = {name_judge(*one): one for name in (policy.model, "") if (one := find_judging_model(project.pk, name))[1]}
    return list(found.values())


def choose_judges(*, project: Project, by: User, **changes: Any) -> Judges:
    """Decide it for the tasks that are worked from now on; what is left out of `who`, `rate`, `human_rate` and `model`
    stays, and so does the rest of the policy.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
    """
    require_right(by, project, Right.PROJECTS_WRITE)
    if not changes.get("rate", LEAST_RATE) >= LEAST_RATE:
        message = f"wanted {LEAST_RATE} to 1 (nobody judges is a choice of who), found {changes['rate']!r}"
        raise BadInputError.at("rate", message)
    with transaction.atomic():
        row = Project.objects.select_for_update().get(pk=project.pk)
        row = change_project(project=row, by=by, review_policy={**row.review_policy, **changes})
    return find_judges(row)
