"""Keep an erased person (GDPR) erased: records made before the erasure that come only after it are not stored.

They lie in a gateway's spool while the database is away, or beside it where they could not be stored. Who was forgotten
is known by keyed hashes of their name and of their sessions' keys; a text that was looked for is kept sealed for
`SEALED_FOR`. Of what is older than that nobody can say whether it holds the text, and it is not stored either.
"""

import json
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.crypto import salted_hmac

from apps.base.sealing import SealedKeyError, seal, unseal
from apps.conversations.models import Forgetting

logger = logging.getLogger(__name__)

SEALED_FOR = timedelta(days=7)
SLACK_S = 5.0
"""How far a gateway's clock may be ahead of the database's machine."""
HOLD_GATEWAYS = "LOCK TABLE inference_spoolposition IN EXCLUSIVE MODE"
"""Until the transaction ends, none of them stores what was said."""
FIND_FORGOTTEN = """
    SELECT id, project_id, extract(epoch FROM created_at)::float8, what, subject_hash, sealed_subject, session_hashes
    FROM conversations_forgetting WHERE created_at >= to_timestamp(%s) AND id > %s
"""
"""For a time in seconds since the epoch and an id: those that what was recorded since then may fall under."""


class ErasedPerson(NamedTuple):
    """Somebody whose earlier records are not stored.

    Args:
        at: when, in seconds since the epoch. person: hash of their name; "" where a text was looked for.
        text: in lower case; None: it is not known any more, or none was looked for.
        sessions: hashes of the agents and keys of the sessions that were deleted.
    """

    id: int
    project: int
    at: float
    person: str
    text: str | None
    sessions: frozenset[str]

    def covers(
        self, *, project: int, at: float, session: str, agent: str, end_user: str, tell: Callable[[], str]
    ) -> bool:
        """Whether a record is theirs.

        Args:
            tell: everything that was said in it, as JSON.
        """
        if project != self.project or at > self.at + SLACK_S:
            return False
        named = {hash_session(session, agent), hash_session(session)}  # by the key alone: forgotten before an update
        if named & self.sessions or (self.person and hash_subject(end_user) == self.person):
            return True
        if self.person:
            return False
        if self.text is None:
            return True
        told = tell().casefold()
        return self.text in told or json.dumps(self.text, ensure_ascii=False)[1:-1] in told


def read_forgotten(rows: Sequence[Sequence[Any]]) -> list[ErasedPerson]:
    """Rows of `FIND_FORGOTTEN`."""
    return [
        ErasedPerson(
            id=pk,
            project=project,
            at=at,
            person=subject_hash if what == "end_user" else "",
            text=_open(sealed) if what == "text" else None,
            sessions=frozenset(sessions),
        )
        for pk, project, at, what, subject_hash, sealed, sessions in rows
    ]


def seal_text(text: str) -> bytes:
    return seal(text.strip().casefold(), bound_to=Forgetting.BOUND_TO)


def drop_sealed() -> int:
    """Forget the texts that were looked for longer ago than records wait. Returns how many."""
    old = Forgetting.objects.filter(created_at__lt=timezone.now() - SEALED_FOR).exclude(sealed_subject=b"")
    return old.update(sealed_subject=b"")


def hash_subject(subject: str) -> str:
    """By which it can be shown that somebody was forgotten, and nobody can be named."""
    return salted_hmac("tentalis.forget", subject.strip().casefold(), algorithm="sha256").hexdigest()


def hash_session(key: str, agent: str = "") -> str:
    named = f"{agent}\0{key}" if agent else key
    return salted_hmac("tentalis.forget.session", named, algorithm="sha256").hexdigest()[:32]


def _open(sealed: bytes) -> str | None:
    try:
        return unseal(bytes(sealed), bound_to=Forgetting.BOUND_TO) or None
    except SealedKeyError as error:
        logger.warning("a forgotten text cannot be read; what is older than it is not stored: %s", error)
        return None
