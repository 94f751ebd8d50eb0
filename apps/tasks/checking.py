"""Trying a check on what a project's workers have answered already, before anything is judged by it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.base.errors import BadInputError
from apps.checks.language import read_check
from apps.checks.results import CheckError, CheckResult, CheckVerdict
from apps.checks.services import find_named
from apps.tasks.models import Attempt

MOST_ANSWERS = 200
EXAMPLES = 5
"""Of each verdict."""


class TriedAnswer(NamedTuple):
    """What a check says of one answer; `attempt` is None for one that was only given to be tried."""

    attempt: Attempt | None
    answer: str
    result: CheckResult


class TriedCheck(NamedTuple):
    """How a check did.

    Args:
        counts: answers by verdict; examples: the newest few of each verdict.
    """

    counts: Mapping[str, int]
    examples: Sequence[TriedAnswer]


def try_check(
    *, project: Project, spec: Any, by: User, answers: Sequence[str] | None = None, environment: str = ""
) -> TriedCheck:
    """Run a check that nobody has to have written down yet. Writes nothing.

    Args:
        answers: to be tried; None takes the project's newest answered attempts, of an environment where one is named.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: at `spec`, what was wanted and what was found.
    """
    require_right(by, project, Right.EVALS_WRITE)
    try:
        check = read_check(spec, where="spec", find=find_named(project))
    except CheckError as error:
        raise BadInputError.at("spec", str(error)) from None
    counts: Counter[str] = Counter({verdict.value: 0 for verdict in CheckVerdict})
    examples: list[TriedAnswer] = []
    for attempt, answer in _find_answers(project, answers, environment):
        result = check.run(answer)
        counts[result.verdict] += 1
        if counts[result.verdict] <= EXAMPLES:
            examples.append(TriedAnswer(attempt, answer, result))
    return TriedCheck(counts, examples)


def _find_answers(
    project: Project, answers: Sequence[str] | None, environment: str
) -> Sequence[tuple[Attempt | None, str]]:
    if answers is not None:
        return [(None, answer) for answer in answers[:MOST_ANSWERS]]
    found = Attempt.objects.filter(
        task__project=project, state=Attempt.State.ANSWERED, is_private=False, task__evaluation=None
    )
    if environment:
        found = found.filter(task__environment=environment)
    return [(one, one.answer) for one in found.only("task_id", "index", "answer").order_by("-id")[:MOST_ANSWERS]]
