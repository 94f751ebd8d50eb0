"""Who there is and what they may do."""

from django.contrib import admin

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
from apps.base.admin import ReadOnlyAdmin


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    list_display = ["username", "is_active", "is_agent", "is_staff", "is_superuser", "last_login"]
    list_filter = ["is_active", "is_agent", "is_superuser"]
    search_fields = ["username"]
    exclude = ["password"]


@admin.register(Project)
class ProjectAdmin(ReadOnlyAdmin):
    list_display = ["slug", "name", "group_size", "batch_tasks", "learning_enabled", "created_at"]
    search_fields = ["slug", "name"]


@admin.register(Member)
class MemberAdmin(ReadOnlyAdmin):
    list_display = ["project", "user", "role", "created_at"]
    list_filter = ["role", "project"]
    search_fields = ["user__username"]
    list_select_related = ["project", "user"]


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    list_display = ["project", "username", "role", "state", "expires_at"]
    list_filter = ["state", "project"]
    search_fields = ["username"]
    list_select_related = ["project"]
    exclude = ["code_hash"]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ["key_id", "name", "user", "project", "expires_at", "last_used_at", "revoked_at"]
    search_fields = ["key_id", "name", "user__username"]
    list_select_related = ["user", "project"]
    exclude = ["secret_hash"]


@admin.register(BrowserSession)
class BrowserSessionAdmin(ReadOnlyAdmin):
    list_display = ["user", "address", "device", "signed_in_at", "seen_at", "expire_date"]
    search_fields = ["user__username", "address"]
    list_select_related = ["user"]
    exclude = ["session_data"]


@admin.register(AuthenticatorApp)
class AuthenticatorAppAdmin(ReadOnlyAdmin):
    list_display = ["user", "confirmed_at"]
    search_fields = ["user__username"]
    list_select_related = ["user"]
    exclude = ["secret_sealed", "last_step"]


@admin.register(Passkey)
class PasskeyAdmin(ReadOnlyAdmin):
    list_display = ["user", "name", "created_at", "last_used_at"]
    search_fields = ["user__username"]
    list_select_related = ["user"]
    exclude = ["credential_id", "credential"]


@admin.register(RecoveryCode)
class RecoveryCodeAdmin(ReadOnlyAdmin):
    list_display = ["user", "created_at", "used_at"]
    search_fields = ["user__username"]
    list_select_related = ["user"]
    exclude = ["code_hash"]
