"""A phone with an authenticator app on it."""

import base64
import time

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from apps.accounts.models import AuthenticatorApp, User
from apps.accounts.second_factor import begin_app, confirm_app


class Phone:
    """Shows codes: the present one first, then the next, which a platform takes already."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.app = TOTP(base64.b32decode(secret), 6, SHA1(), 30)
        self.step = int(time.time()) // 30 - 1

    def next_code(self) -> str:
        self.step += 1
        return self.app.generate(self.step * 30).decode()


def give_app(user: User) -> tuple[Phone, list[str]]:
    """Set an app up for somebody, as if a while ago; the phone, and their recovery codes."""
    secret = begin_app(user=user)
    codes = confirm_app(user=user, code=Phone(secret).next_code(), keep="")
    AuthenticatorApp.objects.filter(user=user).update(last_step=0)
    return Phone(secret), codes
