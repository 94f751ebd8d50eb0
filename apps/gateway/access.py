"""Who is asking, and for which project."""

import time
from collections.abc import Mapping

from django.db.utils import Error as DatabaseError
from multidict import istr

from apps.accounts.archiving import ProjectArchivedError, say_archived
from apps.base.errors import NotSignedInError
from apps.gateway.config_cache import ConfigCache, seal_token
from apps.gateway.errors import RefusalError
from apps.gateway.tables import Caller
from tentalis.inbound.http1 import Request
from tentalis.inbound.metrics import METRICS_READERS, may_read_metrics

_AUTHORIZATION, _PROJECT = istr("Authorization"), istr("X-Tentalis-Project")
WANTED = "wanted the header Authorization: Bearer tnt_… (or x-api-key: tnt_…, or api-key: tnt_…)"


async def find_caller(request: Request, config: ConfigCache) -> Caller:
    """The caller a request's headers prove, with the right to use the gateway.

    A token of several projects is used with `X-Tentalis-Project: <slug>`.

    Raises:
        RefusalError: 401, 403, or 400 where the project is not said; 503 where an unknown token cannot be looked up.
    """
    text, seal, slug = request.recall(_read_claim)
    try:
        credential = config.find_known(seal) or await config.find_credential(text)
    except NotSignedInError as error:
        raise _refuse(401, str(error), "invalid_api_key") from None
    except DatabaseError as error:
        message = "the token is not known yet, and the database is away"
        raise RefusalError(message, status=503, code="unavailable", retry_after_s=2, is_recorded=False) from error
    caller = _choose(credential.callers, slug)
    if caller.expires_at <= time.time():
        raise _refuse(401, "this token is not valid: unknown, expired or revoked", "invalid_api_key")
    return caller


def require_asking(caller: Caller) -> None:
    if not caller.may_ask:
        raise _refuse(403, "this token may not use the gateway: it needs the scope gateway:use", "not_allowed")
    if caller.is_archived:
        raise _refuse(403, say_archived(caller.project_slug), ProjectArchivedError.code)


def require_reading(caller: Caller) -> None:
    if not caller.may_read:
        raise _refuse(403, "this token may not read sessions: it needs the scope sessions:read", "not_allowed")


def require_metrics_reader(request: Request, token: str) -> None:
    """Raise RefusalError unless the caller may read the process's figures.

    Args:
        token: that gives the right; "" leaves it to who asks from this machine, and for nobody else.
    """
    if not may_read_metrics(address=request.address, headers=request.headers, token=token):
        raise _refuse(403, f"/metrics is for {METRICS_READERS}", "not_allowed")


def _read_claim(headers: Mapping[str, str]) -> tuple[str, bytes, str]:
    """A request's token, its seal, and the project that it names; "" where it names none. Raises as `read_token`."""
    text = read_token(headers)
    return text, seal_token(text), headers.get(_PROJECT, "")


def read_token(headers: Mapping[str, str]) -> str:
    """The plain token. Raises RefusalError (401) where there is none."""
    given = headers.get(_AUTHORIZATION)
    if given:
        scheme, _, text = given.partition(" ")
        if scheme.lower() == "bearer" and text:
            return text.strip()
        raise _refuse(401, f"{WANTED}; found the scheme {scheme[:20]!r}", "invalid_api_key")
    if key := headers.get("x-api-key") or headers.get("api-key"):  # Anthropic's, Azure's
        return key
    raise _refuse(401, f"{WANTED}; found none", "invalid_api_key")


def _choose(callers: Mapping[str, Caller], slug: str) -> Caller:
    if slug:
        if (caller := callers.get(slug)) is not None:
            return caller
        raise _refuse(403, f"this token opens no project {slug[:64]!r}", "not_allowed")
    active = [caller for caller in callers.values() if not caller.is_archived]
    if len(active) == 1 or len(callers) == 1:
        return next(iter(active or callers.values()))
    if not callers:
        raise _refuse(403, "this token's user is a member of no project", "not_allowed")
    raise _refuse(400, "this token opens several projects: say which in the header X-Tentalis-Project", "no_project")


def _refuse(status: int, message: str, code: str) -> RefusalError:
    return RefusalError(message, status=status, code=code, is_recorded=False)
