"""What can be taken home: each source names its columns, the right it takes, and yields rows in the order of their ids.

Rows are read in pages by key, so that a slow reader holds no transaction open and memory stays at a page.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Case, F, QuerySet, Value, When
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import find_role
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry, AuditSeal
from apps.base.errors import BadInputError
from apps.console.exports import training_sets
from apps.console.exports.narrowing import COMMON, look_up
from apps.evals.holding import find_held_out
from apps.evals.models import Item
from apps.evals.panels import find_newest
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.feedback.rights import MANAGERS, may_read_reference
from apps.finding.tasks import TaskFilters
from apps.rollouts.models import Rollout
from apps.rollouts.training_sets import iterate_trainable
from apps.tasks.models import Task

PAGE = 2000
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Exported:
    """One thing to export.

    Attributes:
        rows: what it holds, as far as the user may read it. What is there to train on leaves out held-out tasks, and
            puts their ids into the set that it is given.
        columns: name -> kind of value: int, float, bool, text, time, json (nested), ints, floats or bools (lists).
        filters: names a query may narrow it by -> what they may be; None: any text.
        formats: what it can be written as.
        unoffered: filters that the list of the same rows sends, and the page of exports does not ask for.
        check: refuses filters that cannot be followed, before a byte is sent.
        references: columns that tell what a right answer holds: for who leads the project, and not there for others.
    """

    name: str
    title: str | Promise
    about: str | Promise
    right: Right
    columns: Mapping[str, str]
    rows: Callable[[Project, Mapping[str, str], User, set[int]], Iterator[Row]]
    filters: Mapping[str, frozenset[str] | None]
    formats: tuple[str, ...] = ("csv", "jsonl", "parquet")
    references: frozenset[str] = frozenset()
    unoffered: frozenset[str] = frozenset()
    check: Callable[[Mapping[str, str], User], object] = lambda filters, user: None

    @property
    def choices(self) -> list[tuple[str, list[str]]]:
        """Its filters, and in order what each may be; [] for any text."""
        return [(name, sorted(values or ())) for name, values in self.filters.items() if name not in self.unoffered]

    def columns_for(self, user: User, project: Project) -> Mapping[str, str]:
        """What a user takes home."""
        if not self.references or may_read_reference(user, project):
            return self.columns
        return {name: kind for name, kind in self.columns.items() if name not in self.references}


TASK_COLUMNS = {
    "id": "int", "created_at": "time", "state": "text", "worker": "text", "environment": "text", "submitted_by": "text",
    "group_size": "int", "seed": "int", "score": "float", "prompt": "text", "answer": "text", "reference": "json",
    "checks": "json", "metadata": "json", "failure": "text", "held_out": "bool",
}  # fmt: skip
REFERENCES = frozenset({"reference", "checks"})
TASK_PATHS = {"worker": "worker__name", "submitted_by": "submitted_by__username"}


def read_tasks(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    """Every task; those that are only ever measured on say so."""
    rows = TaskFilters.bind(filters, Task.objects.filter(project=project, evaluation=None), user).qs
    missing = {"held_out"} if may_read_reference(user, project) else {"held_out", *REFERENCES}
    names = [name for name in TASK_COLUMNS if name not in missing]
    for page in page_values(rows, [*(TASK_PATHS.get(name, name) for name in names), "bands"], PAGE):
        told = [dict(zip(names, values[:-1], strict=True)) for values in page]
        asked = ("environment", "prompt")
        out = find_held_out(
            Task(pk=row["id"], project=project, bands=values[-1], **{name: row[name] for name in asked})
            for row, values in zip(told, page, strict=True)
        )
        for row in told:
            yield row | {"held_out": row["id"] in out}


ITEM_COLUMNS = {
    "id": "int", "taskset": "text", "environment": "text", "split": "text", "prompt": "text", "messages": "json",
    "reference": "json", "checks": "json", "seed": "int", "weight": "float", "source": "text", "content_hash": "text",
}  # fmt: skip
ITEM_PATHS = {"taskset": "taskset__name", "environment": "taskset__environment"}


def read_items(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    """The items of each taskset's newest version, or of the one that is named, maybe with its version."""
    name, _, version = filters.get("taskset", "").partition("@")
    sets = project.tasksets.filter(version=version) if version else find_newest(project)
    rows = Item.objects.filter(taskset__in=sets.filter(name=name) if name else sets)
    missing = frozenset() if may_read_reference(user, project) else REFERENCES
    names = [name for name in ITEM_COLUMNS if name not in missing]
    for page in page_values(rows, [ITEM_PATHS.get(name, name) for name in names], PAGE):
        yield from (dict(zip(names, values, strict=True)) for values in page)


def _check_taskset(filters: Mapping[str, str], user: User) -> None:
    _, at, version = filters.get("taskset", "").partition("@")
    if at and not (version.isdecimal() and len(version) <= 9):
        raise BadInputError(f"taskset: wanted NAME or NAME@VERSION, found {filters['taskset'][:80]!r}")


FEEDBACK_COLUMNS = {
    "id": "int", "created_at": "time", "task": "int", "review": "int", "purpose": "text", "source": "text",
    "author": "text", "score": "float", "text": "text", "preferred_attempt": "int", "ranking": "json",
    "none_good": "bool", "edited_answer": "text", "hint_text": "text", "trust": "float", "retracted_at": "time",
    "steps": "json",
}  # fmt: skip
FEEDBACK_PATHS = {
    "task": "task_id",
    "review": "review_id",
    "preferred_attempt": "preferred_attempt__index",
}

SHOWN_PURPOSE = Case(
    When(review__purpose=Review.Purpose.GOLD, then=Value(Review.Purpose.WORK)), default=F("review__purpose")
)


def read_feedback(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    """Every judgement, taken back or not, with its words on single steps.

    Without what others said of a task while somebody is asked about it blindly; and a known answer passes for work.
    But for managers, who see both.
    """
    purpose = "review__purpose" if find_role(user, project) in MANAGERS else "shown_purpose"
    own = [name for name in FEEDBACK_COLUMNS if name != "steps"]
    rows = Feedback.objects.readable_by(user).filter(project=project, **look_up(filters, worker="task__worker__name"))
    rows = rows.annotate(shown_purpose=SHOWN_PURPOSE)
    pages = page_values(rows, [{"purpose": purpose}.get(name, FEEDBACK_PATHS.get(name, name)) for name in own], PAGE)
    for page in pages:
        said = StepFeedback.objects.filter(feedback__in=[values[0] for values in page]).order_by("feedback_id", "id")
        words = said.values_list("feedback_id", "attempt__index", "step__index", "score", "comment", "spans")
        steps = {
            pk: [dict(zip(("attempt", "step", "score", "comment", "spans"), word[1:], strict=True)) for word in group]
            for pk, group in groupby(words, lambda word: word[0])
        }
        for values in page:
            yield dict(zip(own, values, strict=True)) | {"steps": steps.get(values[0], [])}


ROLLOUT_COLUMNS = {
    "schema": "text", "rollout_id": "int", "group_id": "int", "adapter": "text", "policy_version": "int",
    "messages": "json", "hinted_messages": "json", "prompt_token_ids": "ints", "token_ids": "ints",
    "logprobs": "floats", "sampled": "bools", "reward": "float", "steps": "json", "missing_steps": "int",
    "weight": "float", "hint_weight": "float", "rendering": "json", "hint_fault": "text", "temperature": "float",
    "is_cut": "bool",
}  # fmt: skip


def read_rollouts(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    """Every usable rollout as the trainer reads it."""
    rows = Rollout.objects.filter(project=project, attempt__exchange__isnull=False, **look_up(filters))
    return (record.to_json() for _, record in iterate_trainable(rows, held_out))


AUDIT_COLUMNS = {
    "id": "int", "at": "time", "kind": "text", "subject_type": "text", "subject_id": "int", "project_id": "int",
    "actor": "text", "payload": "json", "xid": "int", "seq": "int", "previous_hash": "text", "hash": "text",
}  # fmt: skip
SEALED = ("seq", "previous_hash", "hash")


def read_audit(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    return read_entries(AuditEntry.objects.filter(project_id=project.pk, **filters))


def read_entries(entries: "QuerySet[AuditEntry]") -> Iterator[Row]:
    """Audit entries with their places in the chain; who waits for one yet has none."""
    own = [name for name in AUDIT_COLUMNS if name not in SEALED]
    for page in page_values(entries, own, PAGE):
        seals = AuditSeal.objects.filter(entry_id__in=[values[0] for values in page])
        places = {row[0]: row[1:] for row in seals.values_list("entry_id", *SEALED)}
        for values in page:
            sealed = zip(SEALED, places.get(values[0], (None, None, None)), strict=True)
            yield dict(zip(own, values, strict=True)) | dict(sealed)


def page_values(rows: "QuerySet[Any]", paths: list[str], size: int) -> Iterator[list[tuple[Any, ...]]]:
    """Pages of values by ascending id; `paths` begins with it."""
    last = 0
    while page := list(rows.filter(pk__gt=last).order_by("pk").values_list(*paths)[:size]):
        yield page
        last = page[-1][0]


def _set(name: str, title: Any, about: Any, columns: Mapping[str, str], rows: Any) -> Exported:
    return Exported(name, title, about, Right.FEEDBACK_READ, columns, rows, COMMON, ("jsonl", "parquet", "csv"))


SOURCES: Mapping[str, Exported] = {
    source.name: source
    for source in (
        Exported(
            "tasks", _("Tasks"),
            _("Each task with its state, score and best answer, and whether it is held out from training."),
            Right.TASKS_READ, TASK_COLUMNS, read_tasks,
            {**dict.fromkeys(TaskFilters.base_filters), "state": frozenset(Task.State.values)},
            references=REFERENCES, unoffered=frozenset(TaskFilters.base_filters) - {"state", *COMMON},
            check=lambda filters, user: TaskFilters.bind(filters, Task.objects.all(), user),
        ),
        Exported(
            "items", _("Items of tasksets"),
            _("The newest version of each taskset, with its checks written out, for another project to import."),
            Right.EVALS_READ, ITEM_COLUMNS, read_items, {"taskset": None}, references=REFERENCES,
            check=_check_taskset,
        ),
        Exported(
            "feedback", _("Reviews and feedback"), _("What managers said, step by step, in their own words."),
            Right.FEEDBACK_READ, FEEDBACK_COLUMNS, read_feedback,
            {"source": frozenset(Feedback.Source.values), "author": None, **COMMON},
        ),
        Exported(
            "rollouts", _("Rollouts"), _("Exact tokens, log-probs and rewards, as the trainer reads them."),
            Right.ROLLOUTS_READ, ROLLOUT_COLUMNS, read_rollouts, COMMON, ("jsonl", "parquet"),
        ),
        Exported(
            "audit", _("Audit"), _("Everything that happened, with each entry's place in the chain and its hashes."),
            Right.AUDIT_READ, AUDIT_COLUMNS, read_audit, {"kind": frozenset(Kind.values), "actor": None},
        ),
        _set(
            "preferences", _("Preference pairs"),
            _("One answer better than another, as training learns it, in TRL's preference format (DPO)."),
            training_sets.PAIR_COLUMNS, training_sets.read_pairs,
        ),
        _set(
            "stepwise", _("Steps, right or wrong"),
            _("Each attempt's steps with a label each, in TRL's stepwise format (PRM)."),
            training_sets.STEPWISE_COLUMNS, training_sets.read_stepwise,
        ),
        _set(
            "kto", _("Answers, good or bad"), _("Single answers with a yes or no, in TRL's unpaired format (KTO)."),
            training_sets.KTO_COLUMNS, training_sets.read_kto,
        ),
        _set(
            "sft", _("Answers to imitate"), _("Corrected, guided and good answers as conversations (SFT)."),
            training_sets.SFT_COLUMNS, training_sets.read_sft,
        ),
    )
}  # fmt: skip
