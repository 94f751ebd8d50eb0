"""Appeals: somebody holds a judgement for wrong, and a third person looks at the work anew."""

from collections.abc import Mapping
from statistics import fmean

from django.db import transaction

from apps.accounts.models import Member, Role, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.base.texts import require_text
from apps.feedback.claims import refuse_others
from apps.feedback.create_reviews import open_human_review
from apps.feedback.errors import NotYourReviewError
from apps.feedback.judgement import JudgementInput
from apps.feedback.models import Feedback, Review
from apps.feedback.rights import REVIEWERS
from apps.feedback.rules import validate_review_policy
from apps.feedback.submit import waits_for_review
from apps.tasks.models import Task
from tentalis.core.field_limits import MAX_APPEAL_CHARS

FAR_APART = 0.5


def open_appeal(*, feedback: Feedback, by: User, reason: str) -> Review:
    """Ask a person who has not spoken on the task about a judgement of it: never its author, nor who appeals.

    Raises:
        NotFoundError, NotAllowedError: `by` may not speak in the project.
        BadInputError: no reason, too long a one, or one's own judgement, which one takes back instead.
        ConflictError: it was taken back or decided about already, or another review of the task is open.
    """
    require_role(by, feedback.project, *REVIEWERS, Role.AGENT)
    reason = require_text("reason", reason, MAX_APPEAL_CHARS)
    if feedback.author == by.handle:
        raise BadInputError(f"feedback {feedback.pk} is your own: retract it instead")
    with transaction.atomic():
        task = Task.objects.select_for_update(of=("self",)).select_related("project").get(pk=feedback.task_id)
        row = Feedback.objects.get(pk=feedback.pk)
        if row.retracted_at is not None:
            raise ConflictError(f"feedback {row.pk} was taken back already")
        if row.appeals.filter(state=Review.State.CLOSED).exists():
            raise ConflictError(f"feedback {row.pk} was appealed against before, and decided about")
        if waits_for_review(task):
            raise ConflictError(f"task {task.pk} has an open review; appeal when that is given")
        rules = validate_review_policy(task.project.review_policy)
        words = f"Appeal by {by.username}: {reason}"
        review = open_human_review(
            task, rules, reason=words, by=by.handle, purpose=Review.Purpose.APPEAL, about=row, appellant=by
        )
        payload = {"task": task.pk, "review": review.pk, "reason": reason}
        record(Kind.FEEDBACK_APPEALED, subject=row, by=by.handle, payload=payload)
        review.refresh_from_db(fields=["rank_at", "due_at"])
    return review


def has_judge(appeal: Review) -> bool:
    """Whether anybody in the project may judge an appeal now."""
    members = Member.objects.filter(project=appeal.project_id, role__in=REVIEWERS, user__is_active=True)
    return any(_may_judge(appeal, member) for member in members.select_related("user"))


def _may_judge(appeal: Review, member: Member) -> bool:
    try:
        refuse_others(appeal, appeal.task, member.user, Role(member.role))
    except NotYourReviewError:
        return False
    return True


def find_contradiction(disputed: JudgementInput, anew: JudgementInput) -> str:
    """Why the judgement of an appeal contradicts the disputed one, which is retracted then; "" where it does not.

    It does when, by what both speak of, the scores of the whole lie 0.5 apart or further, or those of the same
    attempts and steps do on average; when they name different best attempts; or when one finds none good enough where
    the other names a best or scores the whole 0.5 or more. What only one of them speaks of contradicts nothing.
    """
    if disputed.score is not None and anew.score is not None and abs(disputed.score - anew.score) >= FAR_APART:
        return f"scored {anew.score:g}, not {disputed.score:g}"
    before, after = _scores(disputed), _scores(anew)
    if common := before.keys() & after.keys():
        apart = fmean(abs(before[place] - after[place]) for place in common)
        if apart >= FAR_APART:
            return f"the scores of {len(common)} steps lie {apart:.2f} apart"
    best, other = _best(disputed), _best(anew)
    if best and other and not best & other:
        return f"attempt {min(other) + 1} is best, not {min(best) + 1}"
    for one, two in ((disputed, anew), (anew, disputed)):
        if one.none_good and not two.none_good and (_best(two) or (two.score is not None and two.score >= FAR_APART)):
            return "none is good enough" if one is anew else "one is good enough"
    return ""


def _scores(words: JudgementInput) -> Mapping[tuple[int, int | None], float]:
    return {(word.attempt_index, word.step_index): word.score for word in words.steps if word.score is not None}


def _best(words: JudgementInput) -> frozenset[int]:
    """Indices of the attempts that lead; none where all are equal."""
    if words.preferred_attempt is not None:
        return frozenset({words.preferred_attempt})
    return frozenset(words.ranking[0]) if len(words.ranking) > 1 else frozenset()
