"""One search over everything of a project that somebody may read there.

Words are looked for in the columns themselves: what was deleted or made unreadable is found no more. Each kind has a
time of its own, so that no text can hold the page up.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Member, Project, User
from apps.accounts.rights import Right
from apps.adapters.models import Adapter
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError
from apps.base.word_index import MOST_TYPED, read_words, split_words, with_words
from apps.feedback.models import Feedback, Review
from apps.finding.bounds import TooBroadError, within
from apps.finding.feedback import find_said
from apps.inference.models import EXCHANGE_WORDS, Exchange, Session
from apps.inference.selectors import read_public_id
from apps.tasks.models import Task
from apps.tasks.selectors import find_by_words
from apps.training.models import TrainingRun
from apps.workers.models import Worker

MOST_HITS = 6
SEARCH_S = 1.5
NEWEST = 2_000
"""Of what has no index for parts of names so many are looked through, the newest."""
AROUND = 60
MAX_DIGITS = 18
NUMBERED = re.compile(r"#?\s*(?:(?P<kind>[a-z]+)[\s:#]*)?(?P<number>[0-9]{1,18})", re.IGNORECASE)


@dataclass(frozen=True)
class Hit:
    """Something that was found.

    Attributes:
        kind, pk: what it is. name: as lists call it. text: where the words stand in it, or what it is about.
    """

    kind: str
    pk: int
    name: str
    text: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class Group:
    """What was found of one kind, the newest first.

    Attributes:
        is_more: there is more than is shown.
        trouble: why it could not be looked for; "" where it could.
    """

    kind: str
    label: str | Promise
    hits: Sequence[Hit] = ()
    is_more: bool = False
    trouble: str = ""


@dataclass(frozen=True)
class SearchResults:
    """What a search came to.

    Attributes:
        jump: the one thing that was meant, by its number or hash.
    """

    groups: Sequence[Group] = field(default_factory=list)
    jump: Hit | None = None


@dataclass(frozen=True)
class SearchQuery:
    """Who looks for what, and where."""

    project: Project
    user: User
    text: str


@dataclass(frozen=True)
class SearchKind:
    """One kind of thing: the right that reading it takes, and how it is found by words and by number."""

    label: str | Promise
    right: Right
    by_words: Callable[[SearchQuery], Iterable[Hit]] | None = None
    by_number: Callable[[SearchQuery, int], Hit | None] | None = None
    names: tuple[str, ...] = ()


def search(*, project: Project, user: User, text: str, rights: frozenset[Right]) -> SearchResults:
    """What of a project holds all words of a text, and what it is the number or the hash of.

    Args:
        rights: what the user may do there.
    Raises:
        BadInputError: nothing to look for, or too much.
    """
    text = " ".join(text.split())
    if not text or len(text) > MOST_TYPED or "\0" in text:
        raise BadInputError.at("q", f"wanted 1 to {MOST_TYPED} characters without NUL, found {len(text)}")
    asked = SearchQuery(project, user, text)
    may = {name: kind for name, kind in KINDS.items() if kind.right in rights}
    named, is_named = _find_numbered(asked, may)
    if named and is_named:
        return SearchResults(jump=named[0])
    groups = [Group("number", _("By number"), named)] if named else []
    groups += [group for name, kind in may.items() if (group := _look(name, kind, asked)) is not None]
    hits = [hit for group in groups for hit in group.hits]
    if len(hits) == 1 and _is_id(text):
        return SearchResults(groups, jump=hits[0])
    return SearchResults(groups)


def _look(name: str, kind: SearchKind, asked: SearchQuery) -> Group | None:
    if kind.by_words is None:
        return None
    try:
        with within(SEARCH_S):
            hits = list(kind.by_words(asked))
    except TooBroadError:
        return Group(name, kind.label, trouble=str(_("There is too much of it: add words.")))
    if not hits:
        return None
    return Group(name, kind.label, hits[:MOST_HITS], is_more=len(hits) > MOST_HITS)


def _find_numbered(asked: SearchQuery, may: Mapping[str, SearchKind]) -> tuple[list[Hit], bool]:
    """What has the number that was typed, and whether it was said of which kind."""
    if (match := NUMBERED.fullmatch(asked.text)) is None:
        return [], False
    wanted = (match["kind"] or "").lower()
    kinds = [(name, kind) for name, kind in may.items() if kind.by_number and (not wanted or wanted in kind.names)]
    number = int(match["number"])
    found = (kind.by_number(asked, number) for _name, kind in kinds if kind.by_number)
    return [hit for hit in found if hit is not None], bool(wanted)


def _is_id(text: str) -> bool:
    """A number, a hash, or an id as answers carry it."""
    return read_public_id(text) is not None or re.fullmatch(r"[0-9]+|[0-9a-f]{8,64}", text) is not None


def excerpt(text: str, wanted: str) -> str:
    """The text round the first of the words that were looked for."""
    flat = " ".join(text[:20_000].split())
    places = [flat.lower().find(word.lower()) for word in split_words(wanted)]
    place = min((place for place in places if place >= 0), default=0)
    begin, end = max(0, place - AROUND), place + 2 * AROUND
    return f"{'…' if begin else ''}{flat[begin:end]}{'…' if end < len(flat) else ''}"


def _has_words(text: str) -> bool:
    try:
        read_words(text)
    except BadInputError:
        return False
    return True


def _newest(rows: QuerySet[Any]) -> list[Any]:
    return list(rows.order_by("-pk")[: MOST_HITS + 1])


# --- tasks, and what is said of them ---------------------------------------------------------------------------------


def _tasks(asked: SearchQuery) -> list[Hit]:
    if not _has_words(asked.text):
        return []
    found = _newest(find_by_words(Task.objects.filter(project=asked.project), asked.text))
    return [_show_task(task, excerpt(f"{task.prompt} {task.answer}", asked.text)) for task in found]


def _task(asked: SearchQuery, number: int) -> Hit | None:
    task = Task.objects.filter(project=asked.project, pk=number).first()
    return _show_task(task, excerpt(task.prompt, "")) if task else None


def _show_task(task: Task, text: str) -> Hit:
    return Hit("task", task.pk, f"Task {task.pk}", text, task.created_at)


def _review(asked: SearchQuery, number: int) -> Hit | None:
    review = Review.objects.filter(project=asked.project, pk=number).select_related("task").first()
    if review is None:
        return None
    return Hit("review", number, f"Review {number}", excerpt(review.task.prompt, ""), review.created_at)


def _readable(asked: SearchQuery) -> QuerySet[Feedback]:
    return Feedback.objects.standing().readable_by(asked.user).filter(project=asked.project)


def _feedback(asked: SearchQuery) -> list[Hit]:
    if not _has_words(asked.text):
        return []
    found = _newest(find_said(_readable(asked), asked.text).prefetch_related("steps"))
    return [_show_feedback(one, asked.text) for one in found]


def _one_feedback(asked: SearchQuery, number: int) -> Hit | None:
    found = _readable(asked).filter(pk=number).prefetch_related("steps").first()
    return _show_feedback(found, "") if found else None


def _show_feedback(one: Feedback, wanted: str) -> Hit:
    words = " · ".join(
        filter(None, (one.text, one.hint_text, one.edited_answer, *(step.comment for step in one.steps.all())))
    )
    name = f"Feedback {one.pk}, {one.author}"
    return Hit("feedback", one.pk, name, excerpt(words, wanted), one.created_at)


# --- conversations ---------------------------------------------------------------------------------------------------


def _own(rows: QuerySet[Any], asked: SearchQuery) -> QuerySet[Any]:
    """Of a project's; an agent sees its own alone."""
    rows = rows.filter(project=asked.project)
    return rows.filter(agent=asked.user.handle) if asked.user.is_agent else rows


def _sessions(asked: SearchQuery) -> list[Hit]:
    sessions = _own(Session.objects.all(), asked)
    newest = sessions.order_by("-last_seen_at").values("pk")[:NEWEST]
    parts = Q(pk__in=newest) & (Q(key__icontains=asked.text) | Q(end_user__icontains=asked.text))
    found = _newest(sessions.filter(parts | Q(key=asked.text) | Q(end_user=asked.text)))
    return [_show_session(session) for session in found]


def _session(asked: SearchQuery, number: int) -> Hit | None:
    session = _own(Session.objects.all(), asked).filter(pk=number).first()
    return _show_session(session) if session else None


def _show_session(session: Session) -> Hit:
    said = " · ".join(filter(None, (session.agent, session.end_user, session.worker_name)))
    return Hit("session", session.pk, f"Session {session.key}", said, session.last_seen_at)


def _exchanges(asked: SearchQuery) -> list[Hit]:
    exchanges = _own(Exchange.objects.filter(deleted_at=None), asked)
    if (public_id := read_public_id(asked.text)) is not None:
        return [_show_exchange(one, "") for one in _newest(exchanges.filter(public_id=public_id))]
    if not _has_words(asked.text):
        return []
    found = _newest(with_words(exchanges.filter(session__isnull=False), EXCHANGE_WORDS, asked.text))
    return [_show_exchange(one, asked.text) for one in found]


def _exchange(asked: SearchQuery, number: int) -> Hit | None:
    found = _own(Exchange.objects.filter(deleted_at=None), asked).filter(pk=number).first()
    return _show_exchange(found, "") if found else None


def _show_exchange(one: Exchange, wanted: str) -> Hit:
    said = [message.get("content") for message in one.messages if isinstance(message, dict)]
    words = " · ".join([*(text for text in said if isinstance(text, str)), one.text])
    return Hit("exchange", one.pk, f"Call {one.pk}", excerpt(words, wanted), one.created_at)


# --- what works, learns and serves; people and what they did ---------------------------------------------------------


def _workers(asked: SearchQuery) -> list[Hit]:
    found = Worker.objects.filter(project=asked.project, name__icontains=asked.text).order_by("name")
    return [Hit("worker", one.pk, one.name, one.kind_label) for one in found[: MOST_HITS + 1]]


def _adapters(asked: SearchQuery) -> list[Hit]:
    newest = Adapter.objects.filter(project=asked.project).order_by("-pk").values("pk")[:NEWEST]
    is_hash = re.fullmatch(r"[0-9a-fA-F]{6,64}", asked.text) is not None
    named = Q(name__icontains=asked.text) | (Q(sha256__startswith=asked.text.lower()) if is_hash else Q())
    return [_show_adapter(one) for one in _newest(Adapter.objects.filter(named, pk__in=newest).defer("manifest"))]


def _adapter(asked: SearchQuery, number: int) -> Hit | None:
    found = Adapter.objects.filter(project=asked.project, pk=number).defer("manifest").first()
    return _show_adapter(found) if found else None


def _show_adapter(one: Adapter) -> Hit:
    return Hit("adapter", one.pk, one.name, str(one.get_state_display()), one.created_at)


def _runs(asked: SearchQuery) -> list[Hit]:
    newest = TrainingRun.objects.filter(project=asked.project).order_by("-pk").values("pk")[:NEWEST]
    named = Q(name__icontains=asked.text) | Q(comment__icontains=asked.text)
    return [_show_run(one) for one in _newest(TrainingRun.objects.filter(named, pk__in=newest))]


def _run(asked: SearchQuery, number: int) -> Hit | None:
    found = TrainingRun.objects.filter(project=asked.project, pk=number).first()
    return _show_run(found) if found else None


def _show_run(one: TrainingRun) -> Hit:
    name = f"Run {one.pk}" + (f", {one.name}" if one.name else "")
    return Hit("run", one.pk, name, excerpt(one.comment, "") or str(one.get_state_display()), one.created_at)


def _people(asked: SearchQuery) -> list[Hit]:
    found = Member.objects.filter(project=asked.project, user__username__icontains=asked.text)
    people = found.select_related("user").order_by("user__username")[: MOST_HITS + 1]
    return [Hit("person", one.user_id, one.user.username, str(one.get_role_display())) for one in people]


def _audited(asked: SearchQuery) -> list[Hit]:
    """What an entry is of, as the audit writes it: task:7, or of a person: user:bob."""
    kind, _colon, number = asked.text.partition(":")
    entries = AuditEntry.objects.filter(project_id=asked.project.pk)
    if number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS and kind.isidentifier():
        found = entries.filter(subject_type=kind, subject_id=int(number))
        label = f"{kind}:{number}"
        return [Hit("audit", one.pk, label, one.kind, one.at) for one in _newest(found)]
    return []


KINDS: Mapping[str, SearchKind] = {
    "task": SearchKind(_("Tasks"), Right.TASKS_READ, _tasks, _task, ("task", "t")),
    "review": SearchKind(_("Reviews"), Right.REVIEWS_READ, None, _review, ("review",)),
    "feedback": SearchKind(_("Feedback"), Right.FEEDBACK_READ, _feedback, _one_feedback, ("feedback",)),
    "session": SearchKind(_("Sessions"), Right.SESSIONS_READ, _sessions, _session, ("session",)),
    "exchange": SearchKind(_("Calls in sessions"), Right.SESSIONS_READ, _exchanges, _exchange, ("exchange", "call")),
    "worker": SearchKind(_("Workers"), Right.WORKERS_READ, _workers),
    "adapter": SearchKind(_("Adapters"), Right.ADAPTERS_READ, _adapters, _adapter, ("adapter",)),
    "run": SearchKind(_("Runs"), Right.RUNS_READ, _runs, _run, ("run", "trainingrun")),
    "person": SearchKind(_("People"), Right.MEMBERS_READ, _people),
    "audit": SearchKind(_("Audit"), Right.AUDIT_READ, _audited),
}
