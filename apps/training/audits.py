"""What a manager that is a language model said of whole attempts whose truth is known: what it learns from."""

from collections.abc import Collection, Mapping, Sequence

from apps.calibration.models import Comparison
from apps.evals.holding import AskedTask, find_held_out
from apps.feedback.managers.verdict import ask_about
from apps.rollouts.files import write_records
from apps.tasks.models import Attempt
from apps.training.influence import name_kind
from apps.training.models import ManagerRun, TrainingRun
from tentalis.core.contracts import DemonstrationRecord
from tentalis.core.meta_adapter import AuditedWord
from tentalis.core.scoring.verdicts import VerdictQuestion

DIRECTORY = "judgements"
TRUTHS = (Comparison.Source.VERIFIED, Comparison.Source.GOLD, Comparison.Source.HUMAN)
"""What the world verified, a gold item's known answer, or the word of a trusted person that overrules it."""


def find_words(
    project_id: int,
    handle: str,
    *,
    limit: int,
    influence: Mapping[str, float] | None = None,
    numbers: Collection[int] | None = None,
) -> list[AuditedWord]:
    """A manager's last words whose truth is known, oldest first; the last of each attempt. Two queries.

    What may not be written into training files is left out.

    Args:
        influence: of the manager by kind of task; a kind that is not in it has none that is known.
        numbers: of the comparisons that are wanted; None for all.
    """
    rows = Comparison.objects.filter(
        project=project_id,
        rater__handle=handle,
        step__isnull=True,
        counts=True,
        source__in=TRUTHS,
        attempt__is_private=False,
        attempt__unfit="",
    ).order_by("-id")
    if numbers is not None:
        rows = rows.filter(pk__in=numbers)
    columns = ("attempt__task__environment", "attempt__task__prompt", "attempt__task__metadata")
    known: dict[int, AuditedWord] = {}
    found = list(rows.values_list("id", "attempt__task", "attempt", "said", "truth", *columns)[:limit])
    held_out = find_held_out(AskedTask(row[1], project_id, row[5], row[6]) for row in found)
    for number, task, attempt, said, truth, environment, prompt, metadata in found:
        word = AuditedWord(
            number,
            task,
            attempt,
            said,
            truth,
            is_reserved=task in held_out,
            influence=(influence or {}).get(name_kind(environment, prompt, metadata)),
        )
        known.setdefault(attempt, word)
    return list(reversed(known.values()))


def read_questions(audited: Sequence[AuditedWord]) -> dict[int, VerdictQuestion]:
    """Attempt id -> what its manager is asked of it; one that is deleted meanwhile has none. One query."""
    found = Attempt.objects.filter(pk__in=[word.attempt_id for word in audited]).select_related("task__project")
    return {attempt.pk: ask_about(attempt, attempt.task) for attempt in found}


def write_judgements(run: TrainingRun) -> tuple[str, str]:
    """Write what a manager's training learns, one canonical JSON line an audit; what is deleted by now is left out.

    Returns:
        (file:// URI, SHA-256 in hex). The same rows give the same file.
    """
    fit = ManagerRun.objects.get(run=run)
    weights: dict[int, float] = dict(fit.metrics["learnt"])
    words = find_words(fit.project_id, fit.manager, limit=len(weights), numbers=weights.keys())
    questions = read_questions(words)
    return write_records(
        DIRECTORY,
        run.pk,
        (
            DemonstrationRecord(
                demonstration_id=word.number,
                group_id=word.task_id,
                source="audit",
                messages=question.messages,
                answer=question.choose(is_good=word.is_good),
                weight=weights[word.number],
            )
            for word in words
            if (question := questions.get(word.attempt_id)) is not None
        ),
    )
