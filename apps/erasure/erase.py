"""Erase a person (GDPR) and unlearn them, in one transaction:

1. What is known of them is found and deleted, by their name or by a text (`records`).
2. Their own adapters end: trainings, weights in service, batches that fill.
3. Adapters that learnt from them are blocked and trained again without their data (`unlearn_adapters`); which of those
   trainings goes first, and what it continues, is the trainings' matter (`apps.training.rebuilding`).
4. What an edge keeps of them itself goes too (`also_forget`).
5. So are the judges that learnt from them: step scorers and managers (`unlearn_judges`).

What links of the project that wait were answered is dropped, whoever it is about (`apps.inference.kept_answers`): they
ask anew. It is dropped before this commits, so that nothing is done where Redis is away, and again after it, for what
links were answered meanwhile.

Records of theirs that a gateway stores only later are refused (`apps.conversations.forgotten`).
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from apps.accounts.models import Project, User
from apps.adapters import user_adapters
from apps.adapters.models import Adapter
from apps.erasure import records, unlearn_adapters, unlearn_judges
from apps.erasure.records import Found
from apps.inference.kept_answers import drop_kept_answers
from apps.pipeline import flow
from apps.rollouts import services as rollouts
from apps.rollouts.models import Batch
from apps.training.models import TrainingRun


@dataclass(frozen=True)
class Forgotten:
    """What was deleted of a person, or would be, and what becomes of the adapters that learnt from them.

    Attributes:
        taught: names of the adapters that may not serve again: trained on a part of it, or continuing such.
        judges: names of the step scorers that may not score again, and of the managers whose fits may not be used.
        reruns: trainings that are done again without it, of adapters and step scorers.
    """

    counts: Mapping[str, int]
    adapters: Sequence[str]
    taught: Sequence[str]
    judges: Sequence[str]
    reruns: int
    files: int


_OTHERS: list[Callable[[Project, str, str], object]] = []


def also_forget(forget: Callable[[Project, str, str], object]) -> None:
    """Have an edge delete what it keeps itself: `forget(project, end_user, text)`, in the same transaction."""
    if forget not in _OTHERS:
        _OTHERS.append(forget)


def find_person(*, project: Project, by: User, end_user: str = "", text: str = "") -> Forgotten:
    """What would be deleted of a person, and made again without them; see `records`."""
    found = records.find_person(project=project, by=by, end_user=end_user, text=text)
    own = set(_find_own(project, end_user, text))
    affected = unlearn_adapters.find_affected(project=project, batches=found.batches)
    reruns = [run for run in affected.runs if run.end_user not in own and _keeps_some(run, found)]
    serving = [one for one in affected.adapters if not one.barred and one.state != Adapter.State.REFUSED]
    taught = [adapter.name for adapter in serving if adapter.end_user not in own]
    judges = unlearn_judges.find_taught(project=project, tasks=found.tasks)
    files = len(found.files) + len(judges.files)
    return Forgotten(found.counts, found.adapters, taught, judges.names, len(reruns) + len(judges.runs), files)


def forget_person(*, project: Project, by: User, end_user: str = "", text: str = "") -> Forgotten:
    """Delete what is known of a person, end their own adapters, and have those they taught made again without them.

    Args:
        end_user: as sessions and imported rows name them, exactly; or
        text: words that name them; lines of people whose name holds them end too.
    Raises:
        ProviderBusyError: Redis, in which answers lie that links keep, does not answer: nothing is done, or, where that
            came about at the very end, all but for what links were answered meanwhile.
    """
    with transaction.atomic():
        forgetting = records.forget_person(project=project, by=by, end_user=end_user, text=text)
        for name in _find_own(project, end_user, text):
            stand_in = f"forgotten:{forgetting.pk}:{secrets.token_hex(16)}"
            unlearn_adapters.end_line(project=project, end_user=name, stand_in=stand_in, by=by.handle)
            user_adapters.end_line(project=project, end_user=name, stand_in=stand_in, by=by.handle)
            rollouts.end_line(project=project, end_user=name, stand_in=stand_in)
        rebuilt = unlearn_adapters.rebuild(
            project=project, forgetting=forgetting.pk, batches=forgetting.batches, by=by.handle
        )
        for forget in _OTHERS:
            forget(project, end_user, text)
        judges = unlearn_judges.refit(project=project, forgetting=forgetting.pk, by=by.handle)
        newest = TrainingRun.objects.filter(project=project).order_by("-pk").first()
        if judges.fits and newest is not None:
            flow.learn_managers(project.pk, newest.pk)
        for worker_id in sorted({run.worker_id for run in (*rebuilt.runs, *judges.runs)}):
            flow.train_next(worker_id)
        drop_kept_answers(project.pk)
        transaction.on_commit(lambda: drop_kept_answers(project.pk))
    taught = [adapter.name for adapter in rebuilt.adapters]
    reruns, files = len(rebuilt.runs) + len(judges.runs), forgetting.files + len(judges.files)
    return Forgotten(forgetting.counts, forgetting.adapters, taught, judges.names, reruns, files)


def _find_own(project: Project, end_user: str, text: str) -> list[str]:
    """Names of the people who are meant and have a line of their own: each begins with a batch."""
    begun = Batch.objects.filter(project=project).exclude(end_user="").order_by()
    named = begun.filter(end_user=end_user) if end_user else begun.filter(end_user__icontains=text.strip())
    return sorted(set(named.values_list("end_user", flat=True)))


def _keeps_some(run: TrainingRun, found: Found) -> bool:
    if run.batch is None:
        return False
    return run.batch.items().exclude(**{f"{run.batch.task_path}__in": found.tasks}).exists()
