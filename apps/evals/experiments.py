"""Experiments: evaluations compared in pairs, by questions that are written down together."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.evals.comparing import EvaluationComparison, compare_together
from apps.evals.models import Evaluation, Experiment, Scenario

MOST_SCENARIOS = 50
MAX_NAME_CHARS = 100


class AskedScenario(NamedTuple):
    """A question as somebody asks it."""

    scenario: str
    candidate: Evaluation
    reference: Evaluation


def make_experiment(*, project: Project, experiment: str, scenarios: Sequence[AskedScenario], by: User) -> Experiment:
    """Write down which evaluations are to be compared. They may still be under way: what is asked stays as it is.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
    """
    require_right(by, project, Right.EVALS_WRITE)
    if not 1 <= len(experiment.strip()) <= MAX_NAME_CHARS:
        raise BadInputError.at(
            "experiment", f"wanted a name of 1 to {MAX_NAME_CHARS} characters, found {experiment!r:.80}"
        )
    if not 1 <= len(scenarios) <= MOST_SCENARIOS:
        raise BadInputError.at("scenarios", f"wanted 1 to {MOST_SCENARIOS} of them, found {len(scenarios)}")
    names = [one.scenario for one in scenarios]
    for name, candidate, reference in scenarios:
        if names.count(name) > 1 or not 1 <= len(name.strip()) <= MAX_NAME_CHARS:
            message = f"wanted names of 1 to {MAX_NAME_CHARS} characters, each once, found {name!r:.80}"
            raise BadInputError.at("scenarios", message)
        if candidate.pk == reference.pk or {candidate.project_id, reference.project_id} != {project.pk}:
            message = f"{name}: wanted two evaluations of {project.slug}, found {candidate.pk} and {reference.pk}"
            raise BadInputError.at("scenarios", message)
    with transaction.atomic():
        made = Experiment.objects.create(project=project, experiment=experiment.strip(), asked_by=by.handle)
        Scenario.objects.bulk_create([Scenario(run=made, **one._asdict()) for one in scenarios])
        payload = {"experiment": made.experiment, "scenarios": len(scenarios)}
        record(Kind.EXPERIMENT_ASKED, subject=made, by=by.handle, payload=payload)
    return made


def answer_scenarios(experiment: Experiment) -> Mapping[int, EvaluationComparison | str]:
    """Scenario id -> what it was answered, or why it was not yet; each p corrected for all questions of the
    experiment."""
    rows = list(experiment.scenarios.select_related("candidate", "reference"))
    answers = compare_together([(row.candidate, row.reference) for row in rows])
    return {row.pk: answer for row, answer in zip(rows, answers, strict=True)}
