"""Model servers."""

from rest_framework import serializers

from apps.api.serializers.strict import StrictSerializer, TextField, TrueFalseField, WordField
from apps.inference.models import Provider
from apps.inference.registry import CHOICES

MAX_KEY_CHARS = 2_000


class ProviderOut(serializers.ModelSerializer[Provider]):
    """An OpenAI-compatible model server; its key is never shown."""

    project = serializers.CharField(
        source="project.slug", allow_null=True, default=None, help_text="null: offered to every project."
    )
    has_api_key = serializers.SerializerMethodField()

    class Meta:
        model = Provider
        fields = [
            "id",
            "project",
            "name",
            "kind",
            "base_url",
            "has_api_key",
            "default_model",
            "is_active",
            "created_at",
        ]

    def get_has_api_key(self, provider: Provider) -> bool:
        return bool(provider.api_key_sealed)


class ProviderChange(StrictSerializer):
    """What of a model server can change. A new address takes the key away, unless one comes with it."""

    name = TextField(required=False, max_length=64)
    kind = WordField(required=False, choices=CHOICES)
    base_url = TextField(required=False, max_length=500)
    api_key = TextField(required=False, allow_blank=True, max_length=MAX_KEY_CHARS, write_only=True)
    default_model = TextField(required=False, allow_blank=True, max_length=200)
    is_active = TrueFalseField(required=False)


class ProviderIn(StrictSerializer):
    """A new model server of a project."""

    project = TextField(max_length=64)
    name = TextField(max_length=64)
    kind = WordField(choices=CHOICES)
    base_url = TextField(max_length=500)
    api_key = TextField(required=False, allow_blank=True, max_length=MAX_KEY_CHARS, write_only=True)
    default_model = TextField(required=False, allow_blank=True, max_length=200)
