"""What agents want to do, as people read it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.accounts.models import Project
from apps.console.durations import say_about
from apps.supervision.models import Proposal, ProposalQuerySet
from apps.tasks.models import Task
from apps.workers.kinds import KINDS
from apps.workers.models import Worker
from tentalis.core.checked import FieldError
from tentalis.core.supervision import read_supervision

WAITING = 30
PAGE = 50
OF_TASK = 20
JUST_NOW = timedelta(minutes=3)
MOST_COUNTED = 99
TAIL_CHARS = 900
TAIL_LINES = 12
MAX_LEAVES = 60

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Leaf:
    """One value somewhere in a tool's arguments.

    Attributes:
        name: where it is, in words: `items 2 price`, counted from 1.
    """

    path: Path
    value: Any

    @property
    def name(self) -> str:
        return " ".join(str(part + 1) if isinstance(part, int) else part.replace("_", " ") for part in self.path)

    @property
    def said(self) -> str:
        if isinstance(self.value, bool):
            return _("yes") if self.value else _("no")
        if self.value is None or self.value in ("", {}, []):
            return _("nothing")
        return str(self.value)


@dataclass(frozen=True)
class ActionView:
    """An action as a person reads it: a tool's name with its arguments, or a text."""

    kind: str
    tool: str
    text: str
    leaves: Sequence[Leaf]
    more: int

    @property
    def title(self) -> str:
        if self.kind == "tool":
            return _("Call %(tool)s") % {"tool": self.tool}
        return _("Send a message") if self.kind == "message" else _("Give the answer")


def read_action(action: Mapping[str, Any]) -> ActionView:
    if action["kind"] != "tool":
        return ActionView(action["kind"], "", action["text"], [], 0)
    leaves = list(find_leaves(action["arguments"]))
    return ActionView("tool", action["tool"], "", leaves[:MAX_LEAVES], max(0, len(leaves) - MAX_LEAVES))


def find_leaves(value: Any, path: Path = ()) -> Iterator[Leaf]:
    """Every value that holds no others, with where it is; an empty object or list is one too."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from find_leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from find_leaves(inner, (*path, index))
    elif path:
        yield Leaf(path, value)


@dataclass(frozen=True)
class ProposalView:
    """A proposal on a page.

    Attributes:
        changed: what was allowed instead, where it was edited.
        head, tail: the context in two parts, the end apart.
        took_s: seconds from the question to the answer; None while it waits.
        left_s: seconds until the rule decides; None once decided.
    """

    row: Proposal
    action: ActionView
    changed: ActionView | None
    head: str
    tail: str
    took_s: float | None
    left_s: float | None

    @property
    def took(self) -> str:
        return "" if self.took_s is None else say_about(self.took_s)

    @property
    def left(self) -> str:
        return "" if self.left_s is None else say_about(self.left_s)

    @property
    def changed_names(self) -> frozenset[Path]:
        """Where the two actions differ."""
        if self.changed is None:
            return frozenset()
        before = {leaf.path: leaf.value for leaf in self.action.leaves}
        return frozenset(leaf.path for leaf in self.changed.leaves if before.get(leaf.path, ...) != leaf.value)


def show_proposal(row: Proposal) -> ProposalView:
    now = timezone.now()
    cut = find_tail(row.context)
    is_waiting = row.state == Proposal.State.PENDING
    return ProposalView(
        row=row,
        action=read_action(row.action),
        changed=read_action(row.decision["action"]) if row.state == Proposal.State.EDITED else None,
        head=row.context[:cut],
        tail=row.context[cut:],
        took_s=(row.decided_at - row.created_at).total_seconds() if row.decided_at else None,
        left_s=max(0.0, (row.deadline_at - now).total_seconds()) if is_waiting and row.deadline_at else None,
    )


def find_tail(text: str) -> int:
    """Where the last TAIL_LINES lines, or TAIL_CHARS characters of them, begin."""
    cut = max(0, len(text) - TAIL_CHARS)
    if cut:
        cut = text.find("\n", cut, cut + 200) + 1 or cut
    last = len(text) - 1 if text.endswith("\n") else len(text)
    for _line in range(TAIL_LINES):
        last = text.rfind("\n", 0, last)
        if last < cut:
            return cut
    return last + 1


def _rows(project: Project) -> ProposalQuerySet:
    return Proposal.objects.filter(project=project).select_related("task__worker", "proposed_by")


def find_proposal(project: Project, proposal_id: int) -> Proposal | None:
    return _rows(project).select_related("project").filter(pk=proposal_id).first()


def find_waiting(project: Project) -> list[ProposalView]:
    """The most urgent first, at most WAITING of them."""
    return [show_proposal(row) for row in _rows(project).pending()[:WAITING]]


def find_just_decided(project: Project) -> list[ProposalView]:
    """What was decided in the last minutes, so that who looked at it learns whose word it was."""
    return [show_proposal(row) for row in _rows(project).decided().filter(decided_at__gt=Now() - JUST_NOW)[:3]]


def find_decided(project: Project, *, before: int | None) -> list[ProposalView]:
    """A page of them and one more, the last decided first.

    Args:
        before: the last one of the page before.
    """
    rows = _rows(project).decided()
    if before is not None:
        last = Proposal.objects.filter(project=project, pk=before).values_list("decided_at", flat=True).first()
        # "at most, but not these" is a range of the index; "less, or equal and less" would read up to it from the start
        rows = rows.filter(decided_at__lte=last).exclude(decided_at=last, pk__gte=before) if last else rows.none()
    return [show_proposal(row) for row in rows[: PAGE + 1]]


def count_waiting(project: Project) -> int:
    """Proposals that wait, counted up to MOST_COUNTED + 1."""
    return Proposal.objects.filter(project=project).pending()[: MOST_COUNTED + 1].count()


def find_of_task(task: Task) -> list[ProposalView]:
    """What was asked while a task was worked on, newest first."""
    rows = Proposal.objects.filter(task=task).select_related("proposed_by").order_by("-id")
    return [show_proposal(row) for row in rows[:OF_TASK]]


def find_asking_workers(project: Project) -> list[Worker]:
    """Those that can ask before they act."""
    return list(Worker.objects.filter(project=project, kind__in=list_asking_kinds()).order_by("name")[:PAGE])


def list_asking_kinds() -> list[str]:
    return [Worker.Kind.OUTSIDE, *(kind.name for kind in KINDS.values() if kind.takes_turns)]


def say_rules(worker: Worker) -> str:
    """What of a worker waits, in a sentence."""
    try:
        policy = read_supervision(worker.supervision)
    except FieldError:
        return _("Its rules cannot be read: nothing it asks is answered until they are set again.")
    if policy is None:
        return _("Nothing waits: it acts alone.")
    waits = [_("calls of %(tools)s") % {"tools": ", ".join(policy.tools)}] if policy.tools else []
    waits += [_("messages")] if policy.messages else []
    waits += [_("answers")] if policy.answers else []
    said = (
        _("Wait for a person or another agent: %(what)s.")
        if policy.agents_decide
        else _("Wait for a person: %(what)s.")
    )
    said = said % {"what": ", ".join(waits)}
    if policy.supervisor:
        said += " " + _("%(program)s is asked first.") % {"program": policy.supervisor}
    elif policy.model_decides:
        said += " " + _("A model is asked first.")
    if policy.except_tools:
        said += " " + _("Never: %(tools)s.") % {"tools": ", ".join(policy.except_tools)}
    after = {
        "approve": _("After %(time)s without a word it may act."),
        "reject": _("After %(time)s without a word it may not act."),
        "fail": _("After %(time)s without a word the task fails."),
    }[policy.on_timeout]
    return f"{said} {after % {'time': say_about(policy.deadline_s)}}"
