"""What people asked at the beginning of recorded conversations: work that can be given to a worker as tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Min, Q

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.conversations.policy import read_policy, redactor_for
from apps.inference.models import Exchange, Session
from apps.tasks.models import FROM_SESSION, Task
from tentalis.core.conversations.turns import find_own_words, find_words
from tentalis.core.task_files import TaskRow

PAGE = 25
NONE_BEGINS = "no call of it was answered, or each was made for a task or beside conversations (with a person's token)"


@dataclass(frozen=True)
class FirstWords:
    """The first words of a conversation, personal data masked as the project's policy says.

    Args:
        answer: what the agent said to them; it is not given to the worker.
        obstacle: why they cannot be a task, in words; "".
    """

    session: Session
    words: str
    answer: str = ""
    obstacle: str = ""


def find_asked(project: Project, *, before: int | None = None) -> list[FirstWords]:
    """The newest conversations and how they began, a page of them.

    Args:
        before: those with a smaller id.
    """
    sessions = Session.objects.filter(project=project)
    if before is not None:
        sessions = sessions.filter(pk__lt=before)
    return read_asked(project, list(sessions.order_by("-id")[:PAGE]))


def require_asked(project: Project, session_ids: Sequence[int], *, by: User) -> list[FirstWords]:
    """How these conversations began, each fit to be a task; an agent's own alone are its to name.

    Raises:
        BadInputError: naming the first that is not.
    """
    if not session_ids:
        raise BadInputError.at("sessions", "wanted at least one conversation, found none")
    sessions = Session.objects.filter(project=project, pk__in=session_ids)
    if by.is_agent:
        sessions = sessions.filter(agent=by.handle)
    found = {one.session.pk: one for one in read_asked(project, list(sessions))}
    for pk in session_ids:
        if pk not in found:
            raise BadInputError.at("sessions", f"wanted conversations of {project.slug}, found {pk}")
        if found[pk].obstacle:
            raise BadInputError.at("sessions", f"{pk} cannot be a task: {found[pk].obstacle}")
    return [found[pk] for pk in sorted(found, reverse=True)]


def read_asked(project: Project, page: Sequence[Session]) -> list[FirstWords]:
    """How these conversations of a project began. About four queries."""
    begun = Q(turn="main", status__lt=400, task_id=None, choice=0)
    firsts = Exchange.objects.filter(begun, session__in=page).order_by().values("session").annotate(first=Min("pk"))
    exchanges = Exchange.objects.in_bulk([row["first"] for row in firsts])
    first_of = {one.session_id: one for one in exchanges.values()}
    made = Task.objects.filter(project=project, metadata__has_key=FROM_SESSION)
    taken = set(
        made.filter(**{f"metadata__{FROM_SESSION}__in": [one.pk for one in page]}).values_list(
            f"metadata__{FROM_SESSION}", flat=True
        )
    )
    policy = read_policy(project)
    found = []
    for session in page:
        first = first_of.get(session.pk)
        if first is None:
            found.append(FirstWords(session, "", obstacle=NONE_BEGINS))
            continue
        redactor = redactor_for(policy, session)
        messages = first.messages if isinstance(first.messages, list) else []
        words = redactor.mask("\n\n".join(find_words(messages))).text.strip()
        found.append(
            FirstWords(
                session,
                words,
                answer=redactor.mask(first.text).text,
                obstacle=_find_obstacle(first, words, is_taken=session.pk in taken),
            )
        )
    return found


def _find_obstacle(first: Exchange, words: str, *, is_taken: bool) -> str:
    if is_taken:
        return "it is a task already"
    if not words:
        return "nobody asked anything"
    if first.parent_id is not None or find_own_words(first.messages) > 0:
        return "it begins in the middle of a conversation, which a task does not tell"
    return ""


def make_rows(asked: Sequence[FirstWords]) -> list[TaskRow]:
    """As tasks whose metadata name the session."""
    return [
        TaskRow(line=number, prompt=one.words, metadata={FROM_SESSION: one.session.pk})
        for number, one in enumerate(asked, start=1)
    ]
