"""A browser's passkeys: what it is asked is kept in its session until it answers, once."""

import json
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.passkeys import MAX_CREDENTIAL_CHARS, Site, begin_assertion, begin_registration, finish_assertion
from apps.base.errors import BadInputError, NotSignedInError

ASKED = "passkey_asked_to_"
HOLDS = timedelta(minutes=5)


def find_site(request: HttpRequest) -> Site:
    """Where this browser opened the console."""
    host = request.get_host()
    trusted = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    return Site(host=host.rpartition(":")[0] or host, origins=[f"{request.scheme}://{host}", *trusted])


def ask_for_new(request: HttpRequest, user: User) -> dict[str, Any]:
    """Options of `navigator.credentials.create`."""
    asked, state = begin_registration(user=user, site=find_site(request))
    _keep(request, "create", state)
    return asked


def ask_for_known(request: HttpRequest, user: User | None) -> dict[str, Any]:
    """Options of `navigator.credentials.get`: for one of this person's, or for whoever's."""
    asked, state = begin_assertion(user=user, site=find_site(request))
    _keep(request, "get", state)
    return asked


def take_known(request: HttpRequest, user: User | None, text: str) -> User:
    """Whose passkey the browser's answer is of. Raises NotSignedInError: nobody's, or to nothing that was asked."""
    try:
        answer = read_answer(text)
        state = take_state(request, "get")
    except BadInputError as error:
        raise NotSignedInError(str(error)) from None
    return finish_assertion(user=user, site=find_site(request), state=state, answer=answer)


def take_state(request: HttpRequest, what: str) -> dict[str, Any]:
    """What was asked, which holds for one answer. Raises BadInputError: nothing was, or it is long ago."""
    kept = request.session.pop(ASKED + what, None)
    if not kept or datetime.fromisoformat(kept["at"]) < timezone.now() - HOLDS:
        raise BadInputError("the passkey came too late: try again")
    return dict(kept["state"])


def read_answer(text: str) -> dict[str, Any]:
    """The browser's answer. Raises BadInputError where it is none."""
    try:
        found = json.loads(text) if len(text) <= MAX_CREDENTIAL_CHARS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadInputError("wanted a passkey's answer as JSON")
    return found


def _keep(request: HttpRequest, what: str, state: dict[str, Any]) -> None:
    if not request.user.is_authenticated:
        request.session.set_expiry(HOLDS)
    request.session[ASKED + what] = {"at": timezone.now().isoformat(), "state": state}
