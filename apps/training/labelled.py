"""Labelled steps of a worker: what a step scorer learns from, is calibrated on and is held against."""

from collections import defaultdict
from collections.abc import Iterator

from django.db import transaction

from apps.calibration.selectors import weights_of
from apps.feedback.models import Feedback, StepFeedback
from apps.rollouts.files import write_records
from apps.scoring.answers import Answer, read_answers
from apps.scoring.labelling import choose_splits
from apps.scoring.models import StepLabel
from apps.tasks.models import Attempt
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.contracts import LabelledStep, LabelledStepsRecord
from tentalis.core.scoring.step_labels import Said, mix_label

DIRECTORY = "steps"
MOST_ATTEMPTS = 4_000
"""The newest labelled attempts a run learns from."""
TRUSTED = 0.5
"""A person's trust from which their word on a step is taken for its truth, where no world verified it."""
_PAGE = 200


def write_steps(run: TrainingRun) -> tuple[str, str]:
    """Write the worker's labelled steps, one canonical JSON line an attempt; test tasks are left out.

    The run keeps which tasks it learns from. Its row is locked meanwhile: who is forgotten waits and finds it there, or
    was before and is not in it.

    Returns:
        (file:// URI, SHA-256 in hex). The same rows give the same file.
    """
    with transaction.atomic():
        TrainingRun.objects.select_for_update(of=("self",)).get(pk=run.pk)
        records = list(iterate_records(run.worker))
        learnt_from = sorted({one.group_id for one in records})
        TrainingRun.objects.filter(pk=run.pk).update(learnt_from=learnt_from)
    return write_records(DIRECTORY, run.pk, records)


def iterate_records(worker: Worker) -> Iterator[LabelledStepsRecord]:
    """The worker's labelled attempts that train or calibrate, oldest first."""
    for attempts, answers, labels, said in iterate_pages(worker):
        splits = choose_splits([attempt.task for attempt in attempts])
        for attempt in attempts:
            split = splits[attempt.task_id]
            answer = answers[attempt.pk]
            if split == "test" or not isinstance(answer, Answer):
                continue
            steps = []
            for step in answer.steps:
                label = mix_label(labels.get((step.pk, "monte_carlo")), said[step.pk])
                steps.append(
                    LabelledStep(
                        step_id=step.pk,
                        start=step.token_start or 0,
                        end=step.token_end or 0,
                        label=label.value if label and split == "train" else None,
                        weight=label.weight if label else 0.0,
                        truth=find_truth(labels.get((step.pk, "verified")), said[step.pk]),
                    )
                )
            yield LabelledStepsRecord(
                attempt_id=attempt.pk,
                group_id=attempt.task_id,
                split=split,
                prompt_token_ids=list(answer.prompt_token_ids),
                token_ids=list(answer.token_ids),
                steps=steps,
            )


Page = tuple[list[Attempt], dict[int, Answer | str], dict[tuple[int, str], float], defaultdict[int, list[Said]]]


def iterate_pages(worker: Worker) -> Iterator[Page]:
    """Labelled attempts with their answers, labels and what people said, a page at a time."""
    rows = Attempt.objects.filter(worker=worker, step_labels__isnull=False, is_private=False, unfit="").distinct()
    ids = sorted(rows.order_by("-pk").values_list("pk", flat=True)[:MOST_ATTEMPTS])
    for start in range(0, len(ids), _PAGE):
        page = ids[start : start + _PAGE]
        attempts = list(Attempt.objects.filter(pk__in=page).select_related("task").order_by("pk"))
        labels = StepLabel.objects.filter(attempt__in=page).values_list("step_id", "source", "value")
        yield (
            attempts,
            read_answers(page),
            {(step, source): value for step, source, value in labels},
            _read_said(worker.project_id, page),
        )


def _read_said(project_id: int, attempt_ids: list[int]) -> defaultdict[int, list[Said]]:
    """Step id -> people's scores of it with the trust in them: their own and their calibration's."""
    rows = StepFeedback.objects.filter(
        attempt__in=attempt_ids,
        step__isnull=False,
        score__isnull=False,
        feedback__in=Feedback.objects.counting().by_people(),
    ).values_list("step_id", "score", "feedback__trust", "feedback__author")
    found = list(rows.order_by("pk"))
    weights = weights_of(project_id, {author for *_, author in found})
    said: defaultdict[int, list[Said]] = defaultdict(list)
    for step, score, trust, author in found:
        if score is not None:
            said[step].append(Said(score, min(1.0, max(0.0, trust)) * weights[author]))
    return said


def find_truth(verified: float | None, verdicts: list[Said]) -> float | None:
    """An audited score: the world's word, else that of people who are trusted."""
    if verified is not None:
        return verified
    label = mix_label(None, verdicts)
    return label.value if label is not None and label.weight >= TRUSTED else None
