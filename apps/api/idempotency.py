"""`Idempotency-Key`: the same request again gives the same answer again, and acts once."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import ApiToken, Project, User
from apps.api.models import IdempotencyKey
from apps.base.errors import BadInputError, ConflictError
from tentalis.core.canon import canonical_json

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEPT = timedelta(hours=72)
MAX_LENGTH = 255
DROPPED_AT_ONCE = 20


class StillRunningError(ConflictError):
    """The first request under this key has not ended."""

    code = "still_running"
    is_final = False
    retry_after_s = 1


class AnswerForgottenError(ConflictError):
    """The request acted once; its answer went with the words of somebody who was forgotten."""

    code = "answer_forgotten"


class KeyReusedError(BadInputError):
    """The key was sent before with another request."""

    status = 422
    code = "idempotency_key_reused"


def read_key(request: Request) -> str | None:
    """The key of this request, if it has one. Raises BadInputError for an unusable one."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_LENGTH or not key.isascii() or not key.isprintable():
        raise BadInputError(f"{HEADER}: wanted 1 to {MAX_LENGTH} printable ASCII characters, found {len(key)} others")
    return key


def answer_once(
    request: Request, user: User, key: str, handle: Callable[[], HttpResponse], secret_fields: frozenset[str]
) -> HttpResponse:
    """Run `handle` and keep its answer in one transaction, or give the answer kept earlier.

    An error keeps nothing, because it did nothing: the request may be sent again.

    Args:
        secret_fields: top-level names that are shown once and stored as null.
    Raises:
        StillRunningError: the first request under this key is at work.
        KeyReusedError: the key belongs to another request.
        AnswerForgottenError: it was done, and nobody may read the answer any more.
    """
    key_hash = hashlib.sha256(key.encode()).hexdigest()
    fingerprint = find_fingerprint(request)
    with transaction.atomic():
        if not _try_lock(f"{user.pk}:{key_hash}"):
            raise StillRunningError("the first request with this Idempotency-Key is still running")
        found = IdempotencyKey.objects.filter(user=user, key_hash=key_hash).first()
        if found is not None and found.created_at < timezone.now() - KEPT:
            found.delete()
            found = None
        if found is not None:
            if found.fingerprint != fingerprint:
                raise KeyReusedError("this Idempotency-Key was sent before with another request")
            if found.is_forgotten:
                raise AnswerForgottenError("this request was done; its answer held words of a person who was forgotten")
            return _replay(found)
        response = handle()
        kept = IdempotencyKey(user=user, key_hash=key_hash, fingerprint=fingerprint, status=response.status_code)
        kept.body = _render(response, secret_fields)
        kept.project_id = find_concerned_project(request)
        kept.location = response.headers.get("Location", "")
        kept.save(force_insert=True)
        drop_old_answers()
    return response


def note_concerned_project(request: Any, project: Project) -> None:
    """Remember whose words the answer to this request may hold."""
    request.concerned_project = project.pk


def find_concerned_project(request: Request) -> int | None:
    """The project that this request named or was found to be about; None where it is about none."""
    noted: int | None = getattr(request, "concerned_project", None)
    token = request.auth
    return noted if noted is not None or not isinstance(token, ApiToken) else token.project_id


def find_fingerprint(request: Request) -> str:
    """SHA-256 over method, path with query, and the body's canonical JSON."""
    head = f"{request.method} {request.get_full_path()}\n".encode()
    return hashlib.sha256(head + canonical_json(request.data or None)).hexdigest()


def drop_old_answers() -> int:
    """Delete some answers older than 72 hours, oldest first; how many.

    Each new answer takes more old ones with it than it adds, so the table keeps to three days without a timetable.
    """
    old = IdempotencyKey.objects.filter(created_at__lt=timezone.now() - KEPT).order_by("created_at")
    with transaction.atomic():
        chosen = list(old.select_for_update(skip_locked=True).values_list("pk", flat=True)[:DROPPED_AT_ONCE])
        return IdempotencyKey.objects.filter(pk__in=chosen).delete()[0] if chosen else 0


def _try_lock(name: str) -> bool:
    """Hold a lock until the transaction ends, without waiting for it."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [number])
        row = cursor.fetchone()
    return bool(row and row[0])


def _render(response: HttpResponse, secret_fields: frozenset[str]) -> str:
    if not isinstance(response, Response) or response.data is None:
        return ""
    data = response.data
    if secret_fields:
        data = {name: None if name in secret_fields else value for name, value in data.items()}
    return bytes(JSONRenderer().render(data)).decode()


def _replay(kept: IdempotencyKey) -> HttpResponse:
    response = HttpResponse(kept.body, status=kept.status, content_type="application/json" if kept.body else None)
    if not kept.body:
        del response["Content-Type"]
    if kept.location:
        response["Location"] = kept.location
    response[REPLAYED] = "true"
    return response
