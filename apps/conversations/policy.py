"""A project's session policy, read."""

from apps.accounts.models import Project
from apps.base.errors import BadInputError
from apps.conversations.redaction import Redactor
from apps.inference.models import Session
from tentalis.core.checked import FieldError
from tentalis.core.session_policy import SessionPolicy


def read_policy(project: Project) -> SessionPolicy:
    """Raises BadInputError where the stored policy cannot be used."""
    try:
        return SessionPolicy.from_json(project.session_policy)
    except FieldError as error:
        raise BadInputError(f"session_policy of {project.slug}: {error}") from error


NOBODY = frozenset({"user", "admin", "test", "default", "anonymous", "guest", "unknown", "agent", "assistant"})
"""End users' names that name nobody, and stand in many texts."""


def redactor_for(policy: SessionPolicy, session: Session) -> Redactor:
    """What looks for personal data in a session's texts: its end user's name is one of them."""
    names = [*policy.names, *([] if session.end_user.lower() in NOBODY else [session.end_user])]
    return Redactor(names, is_on=policy.redaction != "off")
