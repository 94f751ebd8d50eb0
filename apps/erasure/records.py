"""Find what is known of a person, by the name their agent gives them or by a text naming them, and delete it.

A conversation that holds a part of it goes as a whole, and so does a task: what is left of either would say something
else. Adapters that learnt from it are named; what becomes of them is decided in `erase`. The audit holds no words, only
that something was forgotten, by whom, and a keyed hash of whom it was about.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet, TextField
from django.db.models.functions import Cast, Concat

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError
from apps.conversations.forgotten import HOLD_GATEWAYS, hash_session, hash_subject, seal_text
from apps.conversations.models import Forgetting, Turn
from apps.evals.models import HumanGrade, Item, ItemTry, TryRecord
from apps.feedback.models import Feedback, Hint, ReviewDraft, RowImport
from apps.inference.models import Exchange, Session
from apps.outbox.kinds import OF_A_TASK, SegmentKind
from apps.outbox.services import cancel_segments
from apps.regrading.models import Regrade
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.tasks.models import BLIND_PAIR, END_USER, FROM_SESSION, OF_ITEM, Attempt, Step, Task
from apps.tasks.observations import find_all_observed

SHORTEST_TEXT_CHARS, LONGEST_TEXT_CHARS = 3, 500
SHORTEST_END_USER_CHARS = 3
"""Of a name that nobody here is known by; one that is known may be shorter."""
CHUNK = 500
FIGURES_ALONE = ("judge", "manager", "hint")
"""Turns of exchanges that keep no words."""

_EXCHANGES = """
SELECT id, session_id, task_id FROM inference_exchange
WHERE project_id = %(project)s AND (text ILIKE %(like)s OR reasoning ILIKE %(like)s OR messages::text ILIKE %(json)s
      OR tool_calls::text ILIKE %(json)s OR request::text ILIKE %(json)s OR error ILIKE %(like)s)
"""
_TASKS = """
SELECT task.id FROM tasks_task task
WHERE task.project_id = %(project)s AND (
    task.prompt ILIKE %(like)s OR task.answer ILIKE %(like)s OR task.metadata::text ILIKE %(json)s
    OR task.reference::text ILIKE %(json)s OR task.checks::text ILIKE %(json)s OR task.failure ILIKE %(like)s
    OR EXISTS (SELECT FROM tasks_attempt one WHERE one.task_id = task.id AND (
        one.text ILIKE %(like)s OR one.answer ILIKE %(like)s OR one.error ILIKE %(like)s))
    OR EXISTS (SELECT FROM tasks_step step JOIN tasks_attempt one ON one.id = step.attempt_id
               WHERE one.task_id = task.id AND (step.text ILIKE %(like)s OR step.tool_result ILIKE %(like)s))
    OR EXISTS (SELECT FROM tasks_episodeturn turn JOIN tasks_attempt one ON one.id = turn.attempt_id
               WHERE one.task_id = task.id AND (turn.calls::text ILIKE %(json)s OR turn.added::text ILIKE %(json)s
                                                OR turn.observations::text ILIKE %(json)s))
    OR EXISTS (SELECT FROM feedback_feedback said WHERE said.task_id = task.id AND (
        said.text ILIKE %(like)s OR said.edited_answer ILIKE %(like)s OR said.hint_text ILIKE %(like)s
        OR said.retract_reason ILIKE %(like)s))
    OR EXISTS (SELECT FROM feedback_stepfeedback word JOIN feedback_feedback said ON said.id = word.feedback_id
               WHERE said.task_id = task.id AND (word.comment ILIKE %(like)s OR word.spans::text ILIKE %(json)s))
    OR EXISTS (SELECT FROM feedback_hint hint WHERE hint.task_id = task.id AND (
        hint.text ILIKE %(like)s OR hint.reason ILIKE %(like)s))
    OR EXISTS (SELECT FROM feedback_reviewdraft draft JOIN feedback_review review ON review.id = draft.review_id
               WHERE review.task_id = task.id AND draft.data::text ILIKE %(json)s)
    OR EXISTS (SELECT FROM supervision_proposal asked WHERE asked.task_id = task.id AND (
        asked.action::text ILIKE %(json)s OR asked.decision::text ILIKE %(json)s
        OR asked.context ILIKE %(like)s OR asked.risk ILIKE %(like)s)))
"""


@dataclass(frozen=True)
class Found:
    """What would be deleted.

    Attributes:
        sessions, exchanges, tasks: primary keys.
        counts: rows by kind.
        batches: primary keys of those that hold a part of it.
        adapters: names of those that were trained on a part of it.
        files: of batches, and of what worlds said, that hold a part of it.
    """

    sessions: Sequence[int]
    exchanges: Sequence[int]
    tasks: Sequence[int]
    counts: Mapping[str, int]
    batches: Sequence[int]
    adapters: Sequence[str]
    files: Sequence[Path]


def find_person(*, project: Project, by: User, end_user: str = "", text: str = "") -> Found:
    """What is known of a person, without deleting any of it.

    Args:
        end_user: as sessions and imported rows name them, exactly; or
        text: words to look for in everything that was said, in any case.
    Raises:
        NotFoundError, NotAllowedError: `by` may not change the project.
        BadInputError: not exactly one of the two, a text that is too short or too long, or a short name that no
            session here has.
    """
    require_right(by, project, Right.PROJECTS_WRITE)
    _check(project, end_user, text)
    sessions, loose, tasks = _find(project, end_user, text)
    exchanges = _find_exchanges(project, sessions, loose, tasks)
    rollouts = Rollout.objects.filter(task__in=tasks)
    taught = Q(uses__rollout__in=rollouts) | Q(preferencepairs__task__in=tasks) | Q(demonstrations__task__in=tasks)
    batches = sorted(set(Batch.objects.filter(taught).order_by().values_list("pk", flat=True)))
    adapters = Adapter.objects.filter(project=project, run_id__in=_runs_of(batches)).order_by("pk")
    files = [path for batch in batches for path in (settings.ARTIFACTS / "batches").glob(f"{batch}-*")]
    files += find_all_observed(Attempt.every.filter(task__in=tasks).values_list("pk", flat=True))
    counts = {
        "sessions": len(sessions),
        "exchanges": len(exchanges),
        "turns": Turn.objects.filter(session__in=sessions).count(),
        "tasks": len(tasks),
        "attempts": Attempt.every.filter(task__in=tasks).count(),
        "steps": Step.objects.filter(attempt__task__in=tasks).count(),
        "feedback": Feedback.objects.filter(task__in=tasks).count(),
        "hints": Hint.objects.filter(task__in=tasks).count(),
        "drafts": ReviewDraft.objects.filter(review__task__in=tasks).count(),
        "rollouts": rollouts.count(),
        "items": _find_items(project, sessions, tasks, text).count(),
        "imports": len(_find_imports(RowImport.objects.filter(project=project), end_user, text)),
    }
    return Found(sessions, exchanges, tasks, counts, batches, [adapter.name for adapter in adapters], files)


def forget_person(*, project: Project, by: User, end_user: str = "", text: str = "") -> Forgetting:
    """Delete it, in one transaction; batch files go when that has committed. See `find_person`.

    What a gateway has yet to store of it is not stored: gateways store nothing meanwhile, and look here afterwards.
    """
    require_right(by, project, Right.PROJECTS_WRITE)
    _check(project, end_user, text)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(HOLD_GATEWAYS)
        imports = _end_imports(project, end_user, text, by=by.handle)
        sessions, _, tasks = _find(project, end_user, text)
        # what is being written of them is waited for, or stopped, before it is looked what they taught
        _stop_work(sessions, tasks)
        # what somebody takes of them as tasks just now is waited for too
        list(Session.objects.select_for_update(no_key=True).filter(pk__in=sessions).order_by("pk").values_list("pk"))
        list(Turn.objects.select_for_update().filter(session__in=sessions).values_list("pk"))  # none becomes a task now
        found = find_person(project=project, by=by, end_user=end_user, text=text)
        _stop_work(found.sessions, found.tasks)
        _leave_batches(found.tasks)
        _find_items(project, found.sessions, found.tasks, text).delete()
        _drop_answers(project)  # whoever they are about
        Regrade.objects.filter(regrading__project=project).exclude(details=[]).update(details=[])
        for chunk in _chunks(found.tasks):
            Task.objects.filter(pk__in=chunk).delete()
        for chunk in _chunks(found.exchanges):
            Exchange.objects.filter(pk__in=chunk).delete()
        keys = list(Session.objects.filter(pk__in=found.sessions).values_list("key", "agent"))
        Session.objects.filter(pk__in=found.sessions).delete()
        forgetting = Forgetting.objects.create(
            project=project,
            what="end_user" if end_user else "text",
            subject_hash=hash_subject(end_user or text),
            by=by.handle,
            counts={**found.counts, "imports": imports},
            batches=list(found.batches),
            adapters=list(found.adapters),
            files=len(found.files),
            sealed_subject=seal_text(text),
            session_hashes=[hash_session(key, agent) for key, agent in keys],
        )
        payload = {
            "what": forgetting.what,
            "subject_hash": forgetting.subject_hash,
            "counts": forgetting.counts,
            "adapters": forgetting.adapters,
            "files": forgetting.files,
        }
        record(Kind.PERSON_FORGOTTEN, subject=forgetting, by=by.handle, payload=payload)
        transaction.on_commit(lambda: remove_files(found.files))
    return forgetting


def _check(project: Project, end_user: str, text: str) -> None:
    if bool(end_user.strip()) == bool(text.strip()):
        message = "wanted either an end user or a text, found " + ("both" if text.strip() else "neither")
        raise BadInputError(message, errors={"end_user": [message]})
    if text and not SHORTEST_TEXT_CHARS <= len(text.strip()) <= LONGEST_TEXT_CHARS:
        raise BadInputError.at(
            "text", f"wanted {SHORTEST_TEXT_CHARS} to {LONGEST_TEXT_CHARS} characters, found {len(text.strip())}"
        )
    if "\x00" in end_user + text:
        raise BadInputError("wanted text without NUL characters, found one")
    if end_user and len(end_user.strip()) < SHORTEST_END_USER_CHARS and not _is_known(project, end_user):
        raise BadInputError.at(
            "end_user",
            f"wanted the name of an end user as sessions or tasks here have it, or {SHORTEST_END_USER_CHARS} characters"
            f" at least; found {len(end_user.strip())} that none has",
        )


def _is_known(project: Project, end_user: str) -> bool:
    """Whether a conversation, a batch or a task of this project has exactly this name."""
    if any(rows.filter(project=project, end_user=end_user).exists() for rows in (Session.objects, Batch.objects)):
        return True
    return _find_tasks_about(project, end_user).exists()


def _find_tasks_about(project: Project, end_user: str) -> "QuerySet[Task]":
    """Tasks whose metadata name them: imported rows do."""
    return Task.objects.filter(project=project, **{f"metadata__{END_USER}": end_user})


def _find(project: Project, end_user: str, text: str) -> tuple[list[int], set[int], list[int]]:
    """Sessions, exchanges that are in none, and tasks."""
    sessions: set[int] = set()
    loose: set[int] = set()
    tasks: set[int] = set()
    if end_user:
        sessions |= set(Session.objects.filter(project=project, end_user=end_user).values_list("pk", flat=True))
        tasks |= set(_find_tasks_about(project, end_user).values_list("pk", flat=True))
    else:
        quoted = json.dumps(text, ensure_ascii=False)[1:-1]
        values: dict[str, str | int] = {"project": project.pk, "like": _like(text), "json": _like(quoted)}
        named = Q(key__icontains=text) | Q(end_user__icontains=text)
        sessions |= set(Session.objects.filter(named, project=project).values_list("pk", flat=True))
        with connection.cursor() as cursor:
            cursor.execute(_EXCHANGES, values)
            for exchange, session, task in cursor.fetchall():
                if session is None:
                    loose.add(exchange)
                else:
                    sessions.add(session)
                tasks |= {task} if task is not None else set()
            cursor.execute(_TASKS, values)
            tasks |= {task for (task,) in cursor.fetchall()}
    within = Q(turn__session__in=sessions) | Q(attempts__exchange__session__in=sessions)
    within |= Q(attempts__exchange__in=loose) | Q(attempts__further__exchange__session__in=sessions)
    told = Exchange.objects.filter(session__in=sessions).values_list("task_id", flat=True)
    tasks |= set(Task.objects.filter(within, project=project).values_list("pk", flat=True))
    tasks |= {task for task in told if task is not None}
    asked = Q(metadata__has_key=FROM_SESSION, **{f"metadata__{FROM_SESSION}__in": sorted(sessions)})
    tasks |= set(Task.objects.filter(asked, project=project).values_list("pk", flat=True))
    while more := _find_copied(project, _find_items(project, sorted(sessions), sorted(tasks), text)) - tasks:
        tasks |= more
    own = Task.objects.filter(project=project, pk__in=tasks).order_by("pk").values_list("pk", flat=True)
    return sorted(sessions), loose, list(own)


def _find_copied(project: Project, items: "QuerySet[Item]") -> set[int]:
    """Tasks that put one of these items before an agent, or its answers before people: they copy its words."""
    copies = Q(evaluation__isnull=False) | Q(metadata__has_key=BLIND_PAIR)
    said = Q(prompt__in=items.exclude(prompt="").values("prompt"))
    said |= Q(**{f"metadata__{OF_ITEM}__in": list(items.exclude(messages=[]).values_list("content_hash", flat=True))})
    return set(Task.objects.filter(copies, said, project=project).values_list("pk", flat=True))


def _find_exchanges(project: Project, sessions: Iterable[int], loose: Iterable[int], tasks: Iterable[int]) -> list[int]:
    made = (
        Q(session__in=sessions) | Q(pk__in=loose) | Q(attempt__task__in=tasks) | Q(further_of__attempt__task__in=tasks)
    )
    made |= Q(shadow_attempt__task__in=tasks) | Q(episode_turn__attempt__task__in=tasks)
    made |= Q(project=project, task_id__in=tasks) & ~Q(turn__in=FIGURES_ALONE)
    return list(Exchange.objects.filter(made).distinct().order_by("pk").values_list("pk", flat=True))


def _find_items(project: Project, sessions: Sequence[int], tasks: Sequence[int], text: str) -> "QuerySet[Item]":
    """Items that were made of it, or hold the text; those of frozen tasksets too."""
    made = Q(source__in=[*(f"task {pk}" for pk in tasks), *(f"session {pk}" for pk in sessions)])
    if text:
        quoted = json.dumps(text.strip(), ensure_ascii=False)[1:-1]
        said = Concat(Cast("messages", TextField()), Cast("reference", TextField()), Cast("checks", TextField()))
        plain = text.strip()
        held = Item.objects.annotate(said=said).filter(
            Q(prompt__icontains=plain)
            | Q(answer__icontains=plain)
            | Q(source__icontains=plain)
            | Q(said__icontains=quoted)
        )
        made |= Q(pk__in=held.filter(taskset__project=project).values("pk"))
    return Item.objects.filter(made, taskset__project=project)


def _find_imports(imports: "QuerySet[RowImport]", end_user: str, text: str) -> list[RowImport]:
    """Those that still have tasks to make and of whose rows one names the end user, or holds the text, however that is
    escaped; or whose file's name does."""
    held = imports.exclude(text="").order_by("pk")
    if end_user:
        return [one for one in held if any(row.get(END_USER) == end_user for row in _read_rows(one.text))]
    words = text.strip().casefold()
    quoted = json.dumps(words, ensure_ascii=False)[1:-1]
    return [
        one
        for one in held
        if words in one.file.casefold()
        or any(quoted in json.dumps(row, ensure_ascii=False).casefold() for row in _read_rows(one.text))
    ]


def _read_rows(lines: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in lines.removeprefix("\ufeff").split("\n") if line.strip())


def _end_imports(project: Project, end_user: str, text: str, *, by: str) -> int:
    """Have such imports make no task any more, and no import bear the text as its file's name; how many were ended. A
    chunk that is being made is waited for: what it makes is found then."""
    imports = RowImport.objects.filter(project=project)
    ended = _find_imports(imports.select_for_update(of=("self",), no_key=True), end_user, text)
    for one in ended:
        payload = {"rows": one.done, "kind": one.kind, "reason": "it held what was forgotten"}
        move(one, RowImport.State.DONE, by=by, payload=payload, text="", failure="")
    if text:
        imports.filter(file__icontains=text.strip()).update(file="")
    return len(ended)


def _runs_of(batches: Sequence[int]) -> list[int]:
    """Trainings of these batches, which are rows of a higher floor."""
    return list(Batch.objects.filter(pk__in=batches, run__isnull=False).values_list("run__pk", flat=True))


def _stop_work(sessions: Sequence[int], tasks: Sequence[int]) -> None:
    turns = list(Turn.objects.filter(session__in=sessions).values_list("pk", flat=True))
    cancel_segments(SegmentKind.CUT, subject_ids=sessions)
    cancel_segments(SegmentKind.HEAR, subject_ids=turns)
    cancel_segments(*OF_A_TASK, subject_ids=tasks)


def _drop_answers(project: Project) -> None:
    """What models answered in evaluations, and what people wrote of it; what it was worth stays."""
    kept = ItemTry.objects.filter(evaluation__project=project).exclude(answer="")
    kept.filter(cause=ItemTry.Cause.UNCHECKED).update(answer="", reason=ItemTry.NOT_KEPT)
    kept.update(answer="")
    TryRecord.objects.filter(item_try__evaluation__project=project).delete()
    HumanGrade.objects.filter(item_try__evaluation__project=project).exclude(text="").update(text="")


def _leave_batches(tasks: Sequence[int]) -> None:
    """Batches that still fill hold so many rollouts and tasks less."""
    for batch in Batch.objects.select_for_update(no_key=True).filter(
        state=Batch.State.OPEN, uses__rollout__task__in=tasks
    ):
        uses = TrainingUse.objects.filter(batch=batch, rollout__task__in=tasks)
        gone = {"rollout_count": uses.count(), "task_count": uses.values("rollout__task").distinct().count()}
        Batch.objects.filter(pk=batch.pk).update(**{name: F(name) - count for name, count in gone.items()})
        uses.delete()


def remove_files(files: Iterable[Path]) -> None:
    for path in files:
        path.unlink(missing_ok=True)


def _like(text: str) -> str:
    escaped = text.strip().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))
