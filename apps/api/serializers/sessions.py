"""Sessions and exchanges: what the gateway saw."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.inference.models import Exchange, Session


class SessionOut(RowOut[Session]):
    """A conversation seen by the gateway."""

    worker = serializers.CharField(source="worker_name")
    is_named = serializers.BooleanField(help_text="Its caller named the conversation, and not only its user.")

    class Meta:
        model = Session
        fields = "id project key is_named worker agent end_user created_at last_seen_at closed_at"


class ExchangeOut(RowOut[Exchange]):
    """One request and one of its answers, without its words and tokens."""

    provider = serializers.CharField(source="provider.name", allow_null=True, default=None)
    worker = serializers.CharField(source="worker_name")
    adapter = serializers.CharField(source="adapter_name", help_text="What really served it; empty: the base model.")
    cost_usd = serializers.FloatField(allow_null=True, help_text="By the price known then; null: none was known.")
    fallback_reason = serializers.CharField(
        help_text="Why one of the worker's fallbacks answered; empty: its own model did. Such an answer is not trained."
    )
    has_exact_tokens = serializers.BooleanField(help_text="Whether token ids and log-probs were told, all of them.")

    class Meta:
        model = Exchange
        fields = (
            "id public_id choice project session parent worker agent provider api turn task step_index model adapter "
            "policy_version finish_reason prompt_tokens completion_tokens cached_tokens cost_usd latency_ms "
            "first_token_ms status is_streamed is_truncated is_mixed fallback_reason deleted_at has_exact_tokens error "
            "created_at"
        )


class ExchangeTokensOut(serializers.Serializer[Any]):
    """The exact tokens, as the model server told them."""

    prompt_token_ids = serializers.ListField(child=serializers.IntegerField())
    token_ids = serializers.ListField(child=serializers.IntegerField())
    logprobs = serializers.ListField(child=serializers.FloatField(), help_text="Natural log; one a token, or none.")
    sampled = serializers.ListField(
        child=serializers.BooleanField(), help_text="True where the policy chose the token; one a token, or none."
    )


class ExchangeDetailOut(ExchangeOut):
    """An exchange with its words and exact tokens."""

    request = serializers.DictField(help_text="What else was asked: sampling, tools, response format.")
    messages = serializers.ListField(child=serializers.DictField(), help_text="The whole prompt.")
    tool_calls = serializers.ListField(child=serializers.DictField())
    is_whole = serializers.BooleanField(help_text="False where an earlier part of the conversation was deleted.")
    tokens = ExchangeTokensOut(allow_null=True)

    class Meta(ExchangeOut.Meta):
        fields = ExchangeOut.Meta.fields + " request messages text reasoning tool_calls is_whole tokens"


class AskedOut(serializers.Serializer[Any]):
    """How a session began."""

    session = serializers.IntegerField(source="session.pk")
    key = serializers.CharField(source="session.key")
    words = serializers.CharField(help_text="What was asked first, personal data masked; a task's prompt.")
    answer = serializers.CharField(help_text="What the agent said; a worker is not told.")
    obstacle = serializers.CharField(help_text="Why it cannot be a task; empty: it can.")
