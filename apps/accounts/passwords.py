"""What ends with a password, however it is changed: on a page, by an administrator, by a command."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction

from apps.accounts.models import ApiToken, BrowserSession, User
from apps.accounts.tokens import end_tokens
from apps.audit.kinds import Kind
from apps.audit.services import record


class EndsWhatItOpened:
    """Django tells the validators of passwords when one was changed; this one refuses none."""

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        """Every password will do."""

    def get_help_text(self) -> str:
        return ""

    def password_changed(self, password: str, user: AbstractBaseUser | None = None) -> None:
        """Revoke the tokens of the user and sign every browser of theirs out."""
        if not isinstance(user, User) or user.is_agent or user.pk is None:
            return
        with transaction.atomic():
            end_tokens(ApiToken.objects.filter(user=user, revoked_at__isnull=True), by=user.handle)
            if ended := BrowserSession.objects.filter(user=user).delete()[0]:
                record(Kind.USER_SIGNED_OUT, subject=user, by=user.handle, payload={"sessions": ended})
