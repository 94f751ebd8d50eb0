"""People's grades beside the graders': rights, what is kept, and how far the two agree."""

import pytest

from apps.accounts.models import Member, Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.erasure.records import forget_person
from apps.evals.human_grades import find_agreement, grade_try
from apps.evals.models import Evaluation, HumanGrade, ItemTry
from tests.factories import make_measured, make_user, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(project: Project) -> Evaluation:
    made = make_measured(make_worker(project), None, [1, 1, 0, 0, 1, 0], purpose="report", asked_by="user:alice")
    made.item_tries.update(answer="12", grader="number@1")
    return made


def grade(run: Evaluation, by: User, *values: float) -> None:
    for item_try, value in zip(run.item_tries.order_by("place"), values, strict=False):
        grade_try(item_try=item_try, value=value, by=by)


def test_a_persons_grade_stands_beside_the_graders_and_is_changed_by_its_author_alone(
    run: Evaluation, alice: User, bob: User
) -> None:
    first = run.item_tries.get(place=0)
    before = ItemTry.objects.filter(pk=first.pk).values().get()
    grade_try(item_try=first, value=0.25, text=" It guessed. ", by=alice)
    grade_try(item_try=first, value=1, by=bob)
    grade_try(item_try=first, value=0, text="It guessed.", by=alice)
    assert list(HumanGrade.objects.values_list("author", "value", "text")) == [
        ("user:alice", 0, "It guessed."),
        ("user:bob", 1, ""),
    ]
    assert ItemTry.objects.filter(pk=first.pk).values().get() == before
    entries = AuditEntry.objects.filter(kind="eval.graded", subject_id=run.pk).order_by("pk")
    assert [(one.actor, one.payload["value"], one.payload["before"]) for one in entries] == [
        ("user:alice", 0.25, None),
        ("user:bob", 1, None),
        ("user:alice", 0, 0.25),
    ]


def test_who_may_not_review_or_is_no_person_grades_nothing(run: Evaluation, project: Project, charlie: User) -> None:
    first = run.item_tries.get(place=0)
    viewer, machine = make_user("vera"), make_user("judge", is_agent=True)
    for user, role in ((viewer, "viewer"), (machine, "reviewer")):
        Member.objects.create(project=project, user=user, role=role)
    for by, error in ((viewer, NotAllowedError), (machine, NotAllowedError), (charlie, NotFoundError)):
        with pytest.raises(error):
            grade_try(item_try=first, value=1, by=by)
    assert not HumanGrade.objects.exists()


def test_only_a_number_from_0_to_1_and_an_answer_that_is_there_are_graded(run: Evaluation, alice: User) -> None:
    first = run.item_tries.get(place=0)
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(BadInputError, match="from 0, wrong, to 1, right"):
            grade_try(item_try=first, value=value, by=alice)
    run.item_tries.update(answer="")
    first.refresh_from_db()
    with pytest.raises(ConflictError, match="was not kept"):
        grade_try(item_try=first, value=1, by=alice)


def test_agreement_is_by_hand_what_the_page_says_and_names_where_they_differ(
    run: Evaluation, alice: User, bob: User
) -> None:
    assert find_agreement(run) is None
    grade(run, alice, 1, 0, 0, 0.4, 1, 1)  # the grader says 1 1 0 0 1 0
    found = find_agreement(run)
    assert found is not None
    [one] = found.graders
    assert (one.grader, one.tries, one.grades) == ("number@1", 6, 6)
    assert one.agreed == pytest.approx(4 / 6)
    assert one.kappa.value == pytest.approx(1 / 3)  # both approve a half: (4/6 - 1/2) / (1 - 1/2)
    assert one.interval is not None
    assert one.interval[0] <= 1 / 3 <= one.interval[1]
    assert [(row.item_try.place, row.grade.value) for row in found.differing] == [(1, 0), (5, 1)]
    grade(run, bob, 1, 1)
    again = find_agreement(run)
    assert again is not None
    assert [(row.tries, row.grades) for row in again.graders] == [(6, 8)]
    assert again.graders[0].agreed == pytest.approx(6 / 8)


def test_what_has_no_outcome_is_not_compared_and_one_sided_grades_have_no_kappa(run: Evaluation, alice: User) -> None:
    run.item_tries.filter(place=0).update(outcome=None, cause="infrastructure")
    grade(run, alice, 1, 1)
    found = find_agreement(run)
    assert found is not None
    assert (found.uncompared, found.differ) == (1, 0)
    assert (found.graders[0].agreed, found.graders[0].kappa.value, found.graders[0].interval) == (1.0, None, None)


def test_each_grader_is_compared_by_itself(run: Evaluation, alice: User) -> None:
    run.item_tries.filter(place__gte=3).update(grader="choice@2")
    grade(run, alice, 1, 1, 0, 1, 0, 1)  # all as number@1 says, none as choice@2 does
    found = find_agreement(run)
    assert found is not None
    assert [(one.grader, one.agreed) for one in found.graders] == [("choice@2", 0.0), ("number@1", 1.0)]


def test_what_people_wrote_is_forgotten_with_what_was_said(run: Evaluation, alice: User, project: Project) -> None:
    Member.objects.filter(user=alice).update(role="owner")
    grade_try(item_try=run.item_tries.get(place=0), value=1, text="Ask Maria Rossi.", by=alice)
    forget_person(project=project, by=alice, text="Maria Rossi")
    assert list(HumanGrade.objects.values_list("value", "text")) == [(1, "")]
