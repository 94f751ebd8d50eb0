"""Webhooks and their messages."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField, TrueFalseField, WordField
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.services import MAX_ENDPOINT_NAME_CHARS, TELLABLE
from tentalis.outbound.addresses import MAX_URL_CHARS


class WebhookOut(RowOut[Webhook]):
    """An address that is told what happens in a project."""

    project = serializers.CharField(source="project.slug")
    kinds = serializers.ListField(child=serializers.CharField(), help_text="Empty: every kind.")
    disabled_reason = serializers.CharField(help_text="Why it was switched off without a person.")

    class Meta:
        model = Webhook
        fields = (
            "id project name url kinds include_details allow_private is_active failures failing_since disabled_reason "
            "created_at"
        )


class NewWebhookOut(WebhookOut):
    """With its secret: the only answer that holds it. A replay under an Idempotency-Key says null."""

    secret = serializers.CharField(allow_null=True)

    class Meta(WebhookOut.Meta):
        fields = WebhookOut.Meta.fields + " secret"


URL_HELP = "https://host/path; redirects are not followed."


class WebhookSettings(StrictSerializer):
    """What is said of a webhook when it is made, and later."""

    name = TextField(required=False, allow_blank=True, max_length=MAX_ENDPOINT_NAME_CHARS)
    kinds = serializers.ListField(
        child=WordField(choices=TELLABLE),
        required=False,
        max_length=len(TELLABLE),
        help_text="Of the audit's entries; empty: every kind.",
    )
    include_details = TrueFalseField(required=False, help_text="Send the entries' payloads too, free text included.")
    allow_private = TrueFalseField(required=False, help_text="Only an admin of the installation may say so.")


class WebhookChange(WebhookSettings):
    """What of a webhook can change."""

    url = TextField(required=False, max_length=MAX_URL_CHARS, help_text=URL_HELP)
    is_active = TrueFalseField(required=False)


class WebhookIn(WebhookSettings):
    """A new webhook."""

    project = TextField(max_length=64)
    url = TextField(max_length=MAX_URL_CHARS, help_text=URL_HELP)


class TryOut(serializers.Serializer[Any]):
    """One attempt at a message."""

    at = serializers.DateTimeField()
    status = serializers.IntegerField(help_text="HTTP status; 0: there was no answer, `words` says why.")
    words = serializers.CharField(help_text="The beginning of the answer.")
    ms = serializers.IntegerField()


class DeliveryOut(RowOut[Delivery]):
    """One message to one address."""

    entry = serializers.IntegerField(source="entry_id", allow_null=True, help_text="Of the audit; null: a test.")
    message = serializers.SerializerMethodField(help_text="The `webhook-id` it is sent under, each time the same.")
    body: Any = serializers.DictField()
    tries = TryOut(many=True)

    class Meta:
        model = Delivery
        fields = "id webhook message entry kind body state attempts next_at status tries created_at ended_at"

    def get_message(self, delivery: Delivery) -> str:
        return f"msg_{delivery.event_id.hex}"


class RedeliveredOut(serializers.Serializer[Any]):
    """How many messages are sent again."""

    redelivered = serializers.IntegerField()
