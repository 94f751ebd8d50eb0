"""Model endpoints and the calls to them. Keys and packed tokens stay out of sight."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.inference.models import Exchange, Price, Provider, ProviderGrant, Session, SpoolPosition


@admin.register(Provider)
class ProviderAdmin(ReadOnlyAdmin):
    list_display = ["name", "kind", "base_url", "project", "allow_private", "probed_at", "is_active"]
    list_filter = ["kind", "is_active"]
    search_fields = ["name"]
    list_select_related = ["project"]
    exclude = ["api_key_sealed"]


@admin.register(ProviderGrant)
class ProviderGrantAdmin(ReadOnlyAdmin):
    list_display = ["provider", "project", "tokens_per_day", "usd_per_month", "granted_by", "created_at"]
    list_filter = ["provider"]
    search_fields = ["project__slug"]
    list_select_related = ["provider", "project"]


@admin.register(Price)
class PriceAdmin(ReadOnlyAdmin):
    list_display = ["model", "provider", "kind", "input", "cached_input", "output", "valid_from", "source"]
    list_filter = ["kind"]
    search_fields = ["model"]
    list_select_related = ["provider"]


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = ["key", "project", "worker_name", "last_seen_at", "closed_at"]
    search_fields = ["key"]
    list_select_related = ["project"]


@admin.register(Exchange)
class ExchangeAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "project",
        "worker_name",
        "model",
        "adapter_name",
        "prompt_tokens",
        "completion_tokens",
        "created_at",
    ]
    list_filter = ["project"]
    search_fields = ["=id", "=adapter_name"]
    list_select_related = ["project"]
    raw_id_fields = ["session"]
    exclude = ["prompt_token_ids", "token_ids", "logprobs", "sampled"]


@admin.register(SpoolPosition)
class SpoolPositionAdmin(ReadOnlyAdmin):
    list_display = ["name", "segment", "offset"]
