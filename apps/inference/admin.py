"""Model endpoints and the calls to them. Keys and packed tokens stay out of sight."""

from apps.base.admin import show
from apps.inference.models import Exchange, Price, Provider, ProviderGrant, Session, SpoolPosition

show(
    Provider,
    "name kind base_url project allow_private probed_at is_active",
    filters="kind is_active",
    search="name",
    hidden="api_key_sealed",
)
show(
    ProviderGrant,
    "provider project tokens_per_day usd_per_month granted_by created_at",
    filters="provider",
    search="project__slug",
)
show(Price, "model provider kind input cached_input output valid_from source", filters="kind", search="model")
show(Session, "key project worker_name last_seen_at closed_at", search="key")
show(
    Exchange,
    "id project worker_name model adapter_name prompt_tokens completion_tokens created_at",
    filters="project",
    search="=id =adapter_name",
    hidden="prompt_token_ids token_ids logprobs sampled",
)
show(SpoolPosition, "name segment offset")
