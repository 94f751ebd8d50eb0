"""Model servers."""

from typing import Any, cast

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.rows import RowOut, list_shown
from apps.api.serializers.strict import (
    NumberField,
    StrictSerializer,
    TextField,
    TrueFalseField,
    WholeNumberField,
    WordField,
)
from apps.inference.costs import use_of_servers
from apps.inference.models import Provider, ProviderGrant
from apps.inference.provider_kinds import CHOICES
from apps.inference.providers import MAX_PER_MINUTE, MAX_TIMEOUT_S, MAX_URLS
from tentalis.core.field_limits import MAX_API_KEY_CHARS
from tentalis.core.limits import MAX_COUNT, MAX_USD
from tentalis.outbound.addresses import MAX_URL_CHARS


class ProbeOut(serializers.Serializer[Any]):
    """What a test of a model server showed. null: it was not asked, or could not be seen."""

    ok = serializers.BooleanField(help_text="It answered a question.")
    fault = serializers.CharField(
        allow_blank=True,
        help_text="address, dns, refused_connection, tls, timeout, unreachable, key, payment, model, no_model, limited,"
        " dialect, redirect, refused, broken, sealed_key; empty where it answered.",
    )
    words = serializers.CharField(allow_blank=True, help_text="What was wrong or how it went, in a sentence.")
    model = serializers.CharField(allow_blank=True)
    models = serializers.ListField(child=serializers.CharField(), help_text="What it says it serves, a part.")
    is_reachable = serializers.BooleanField(allow_null=True)
    accepts_key = serializers.BooleanField(allow_null=True)
    knows_model = serializers.BooleanField(allow_null=True)
    tells_tokens = serializers.BooleanField(allow_null=True)
    context_tokens = serializers.IntegerField(
        allow_null=True, default=None, help_text="Of prompt and answer together; null: the server does not say."
    )
    tells_logprobs = serializers.BooleanField(allow_null=True)
    can_train = serializers.BooleanField(help_text="What it says can be trained on.")
    streams = serializers.BooleanField(allow_null=True)
    calls_tools = serializers.BooleanField(allow_null=True)
    latency_ms = serializers.FloatField(allow_null=True)
    first_token_ms = serializers.FloatField(allow_null=True)
    is_priced = serializers.BooleanField(help_text="It is known what the model costs.")
    remarks = serializers.ListField(child=serializers.CharField())


class ProviderOut(RowOut[Provider]):
    """A model server; its key is never shown."""

    project = serializers.CharField(
        source="project.slug", allow_null=True, default=None, help_text="null: shared, see granted_to."
    )
    more_urls = serializers.ListField(child=serializers.CharField())
    has_api_key = serializers.SerializerMethodField()
    teaches = serializers.CharField(
        read_only=True, help_text="Which of its answers can train weights, in words; empty: every one can."
    )
    probe = serializers.SerializerMethodField()

    class Meta:
        model = Provider
        fields = (
            "id project name granted_to kind base_url more_urls has_api_key default_model allow_private timeout_s "
            "tells_processed teaches requests_per_minute tokens_per_minute is_active probe probed_at created_at"
        )

    def get_has_api_key(self, provider: Provider) -> bool:
        return bool(provider.api_key_sealed)

    @extend_schema_field(ProbeOut(allow_null=True))
    def get_probe(self, provider: Provider) -> dict[str, Any] | None:
        return provider.probe or None


class ProviderKindOut(serializers.Serializer[Any]):
    """A kind of model server, and what its API is known to do."""

    kind = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    base_url = serializers.CharField(allow_blank=True, help_text="Where its vendor serves it.")
    dialect = serializers.CharField()
    auth = serializers.CharField()
    tells_tokens = serializers.BooleanField(help_text="Exact token ids: what it says can be trained on.")
    tells_logprobs = serializers.BooleanField()
    lists_models = serializers.BooleanField()
    is_local = serializers.BooleanField(help_text="Usually at a private address, which an admin must allow.")
    quirks = serializers.CharField(allow_blank=True)
    key_url = serializers.CharField(allow_blank=True, help_text="Where a person gets a key.")
    docs_url = serializers.CharField(allow_blank=True)
    is_checked = serializers.BooleanField(help_text="Read in the vendor's own documentation.")


class ProviderKindsOut(serializers.Serializer[Any]):
    kinds = ProviderKindOut(many=True)


class RotationOut(serializers.Serializer[Any]):
    """What came of sealing every secret anew."""

    key_id = serializers.CharField(help_text="Of the key that seals now.")
    renewed = serializers.IntegerField()
    unreadable = serializers.ListField(child=serializers.CharField(), help_text="Rows whose secret no key opens.")


class _ProviderSettings(StrictSerializer):
    """What a model server may be given, however it comes about."""

    more_urls = serializers.ListField(
        child=TextField(max_length=MAX_URL_CHARS), required=False, max_length=MAX_URLS, help_text="Same models."
    )
    api_key = TextField(required=False, allow_blank=True, max_length=MAX_API_KEY_CHARS, write_only=True)
    default_model = TextField(required=False, allow_blank=True, max_length=200)
    allow_private = TrueFalseField(
        required=False, help_text="Loopback and private addresses; only an installation's admin may say so."
    )
    timeout_s = NumberField(required=False, allow_null=True, min_value=0.001, max_value=MAX_TIMEOUT_S)
    tells_processed = TrueFalseField(
        required=False,
        help_text="Its log-probs are those at the temperature it samples at (vLLM: --logprobs-mode processed_logprobs)",
    )
    granted_to = WordField(
        required=False,
        choices=Provider.GrantedTo.choices,
        help_text="Of a shared one: projects with a grant (the default), or everyone.",
    )
    requests_per_minute = WholeNumberField(required=False, allow_null=True, min_value=1, max_value=MAX_PER_MINUTE)
    tokens_per_minute = WholeNumberField(required=False, allow_null=True, min_value=1, max_value=MAX_PER_MINUTE)


class ProviderChange(_ProviderSettings):
    """What of a model server can change. A new origin takes the key away, unless one comes with it."""

    name = TextField(required=False, max_length=64)
    kind = WordField(required=False, choices=CHOICES)
    base_url = TextField(required=False, max_length=MAX_URL_CHARS)
    is_active = TrueFalseField(required=False)


class ProviderIn(_ProviderSettings):
    """A new model server."""

    project = TextField(required=False, allow_null=True, max_length=64, help_text="null: shared, which takes an admin.")
    name = TextField(max_length=64)
    kind = WordField(choices=CHOICES)
    base_url = TextField(
        required=False,
        allow_blank=True,
        max_length=MAX_URL_CHARS,
        help_text="Empty: where the kind's vendor serves it.",
    )


class ServerUseOut(serializers.Serializer[Any]):
    """What a project used of a model server, by its kept exchanges; days and months in UTC."""

    tokens_today = serializers.IntegerField(help_text="Prompts and answers.")
    tokens_this_month = serializers.IntegerField()
    usd_this_month = serializers.DecimalField(max_digits=20, decimal_places=8, help_text="Where the price was known.")
    calls_this_month = serializers.IntegerField()
    unpriced = serializers.IntegerField(help_text="Calls of this month whose price was not known.")


class ProviderGrantOut(RowOut[ProviderGrant]):
    """A project may ask a shared model server."""

    provider_name = serializers.CharField(source="provider.name")
    used = serializers.SerializerMethodField()

    class Meta:
        model = ProviderGrant
        fields = "id provider provider_name project tokens_per_day usd_per_month used granted_by created_at"

    @extend_schema_field(ServerUseOut)
    def get_used(self, grant: ProviderGrant) -> dict[str, Any]:
        uses = cast("dict[str, Any]", self.context).setdefault("uses", {})
        pair = (grant.project_id, grant.provider_id)
        if pair not in uses:
            pairs = [(row.project_id, row.provider_id) for row in list_shown(self, grant)]
            uses.update(use_of_servers(pairs, now=timezone.now()))
        return dict(ServerUseOut(uses[pair]).data)


class _Allowances(StrictSerializer):
    """What a project's calls may use of a shared model server."""

    tokens_per_day = WholeNumberField(
        required=False, allow_null=True, min_value=1, max_value=MAX_COUNT, help_text="null: no limit."
    )
    usd_per_month = NumberField(
        required=False,
        allow_null=True,
        min_value=0.000001,
        max_value=MAX_USD,
        help_text="By the prices known; null: no limit.",
    )


class ProviderGrantChange(_Allowances):
    """What of a grant can change."""


class ProviderGrantIn(_Allowances):
    """A new grant."""

    provider = WholeNumberField(min_value=1, max_value=2**62, help_text="A shared model server.")
    project = TextField(max_length=64)


class ProviderTest(StrictSerializer):
    """Which model to ask."""

    model = TextField(allow_blank=True, max_length=200, help_text="Empty: its default, or else the first it lists.")
