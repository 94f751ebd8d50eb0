"""A browser on its way in: after the password it may be asked for a second factor, and is nobody until then.

What is between is kept in its session, which has no user and so no rights; it ends after minutes, after a few wrong
codes, and with the password.
"""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import login
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from apps.accounts.browser_sessions import note_confirmed, note_origin
from apps.accounts.models import User
from apps.console import services
from apps.console.forms import find_address

BETWEEN = "password_was_right"
HOLDS = timedelta(minutes=5)
MOST_WRONG = 5
"""Codes that may be wrong before the password is asked for again."""


def begin_second_step(request: HttpRequest, *, user: User, leads_to: str) -> None:
    """Remember whose password was right. The session from before goes."""
    request.session.flush()
    request.session.set_expiry(HOLDS)
    request.session[BETWEEN] = {
        "user": user.pk,
        "at": timezone.now().isoformat(),
        "hash": user.get_session_auth_hash(),
        "leads_to": leads_to,
        "wrong": 0,
    }


def find_between(request: HttpRequest) -> User | None:
    """Whose password was right a moment ago in this browser, and who is asked for a second factor now."""
    held = _read(request)
    if not held:
        return None
    user = User.objects.filter(pk=held["user"], is_active=True).first()
    is_in_time = datetime.fromisoformat(held["at"]) > timezone.now() - HOLDS
    if user is None or not is_in_time or not constant_time_compare(held["hash"], user.get_session_auth_hash()):
        end_second_step(request)
        return None
    return user


def note_wrong_code(request: HttpRequest) -> None:
    """After a few of them the password is asked for again."""
    held = _read(request)
    if held["wrong"] + 1 >= MOST_WRONG:
        end_second_step(request)
    else:
        request.session[BETWEEN] = held | {"wrong": held["wrong"] + 1}


def end_second_step(request: HttpRequest) -> None:
    request.session.pop(BETWEEN, None)


def complete_sign_in(request: HttpRequest, *, user: User, by: str) -> str:
    """Sign them in, with all that is written down about it.

    Args:
        by: with what: password, app, recovery, passkey.
    Returns:
        Where they were going; "" where that was not said.
    """
    leads_to = str(_read(request).get("leads_to", ""))
    end_second_step(request)
    request.session.set_expiry(None)
    login(request, user)
    address = find_address(request)
    note_origin(request, address=address)
    note_confirmed(request)
    services.record_sign_in(user=user, address=address, by=by)
    return leads_to


def _read(request: HttpRequest) -> dict[str, Any]:
    return dict(request.session.get(BETWEEN) or {})
