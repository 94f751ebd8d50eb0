"""Who there is and what they may do."""

from apps.accounts.models import (
    ApiToken,
    AuthenticatorApp,
    BrowserSession,
    Invitation,
    Member,
    Passkey,
    Project,
    RecoveryCode,
    User,
)
from apps.base.admin import show

show(
    User,
    "username is_active is_agent is_staff is_superuser last_login",
    filters="is_active is_agent is_superuser",
    search="username",
    hidden="password",
)
show(Project, "slug name group_size batch_tasks learning_enabled created_at", search="slug name")
show(Member, "project user role created_at", filters="role project", search="user__username")
show(
    Invitation, "project username role state expires_at", filters="state project", search="username", hidden="code_hash"
)
show(
    ApiToken,
    "key_id name user project expires_at last_used_at revoked_at",
    search="key_id name user__username",
    hidden="secret_hash",
)
show(
    BrowserSession,
    "user address device signed_in_at seen_at expire_date",
    search="user__username address",
    hidden="session_data",
)
show(AuthenticatorApp, "user confirmed_at", search="user__username", hidden="secret_sealed last_step")
show(Passkey, "user name created_at last_used_at", search="user__username", hidden="credential_id credential")
show(RecoveryCode, "user created_at used_at", search="user__username", hidden="code_hash")
