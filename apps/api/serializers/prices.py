"""What models cost, and what was paid."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField, WholeNumberField, WordField
from apps.inference.models import Price
from apps.inference.provider_kinds import CHOICES


class DollarsField(serializers.DecimalField):
    """US dollars a million tokens."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_digits": 12, "decimal_places": 6, "min_value": 0} | options)

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise serializers.ValidationError("wanted a number of US dollars a million tokens")
        return super().to_internal_value(data)


class PriceOut(RowOut[Price]):
    """What a model costs from a moment on, in US dollars a million tokens. The latest that began counts."""

    provider = serializers.IntegerField(source="provider_id", allow_null=True, help_text="null: of a whole kind.")

    class Meta:
        model = Price
        fields = "id provider kind model input cached_input output valid_from source"


class PriceIn(StrictSerializer):
    """A price of a model server or, by an admin, of a kind of them everywhere."""

    provider = WholeNumberField(required=False, min_value=1, max_value=2**62)
    kind = WordField(required=False, choices=CHOICES)
    model = TextField(max_length=200, help_text="A name, or the beginning of names and a *.")
    input = DollarsField()
    output = DollarsField()
    cached_input = DollarsField(required=False, allow_null=True, help_text="null: as input.")
    valid_from = serializers.DateTimeField(required=False, help_text="Default: now.")
    source = TextField(required=False, allow_blank=True, max_length=500)  # type: ignore[assignment]


class CostOut(serializers.Serializer[Any]):
    """US dollars, of the exchanges whose price was known when they were made."""

    usd = serializers.DecimalField(max_digits=20, decimal_places=8)
    exchanges = serializers.IntegerField()
    unpriced = serializers.IntegerField(help_text="Exchanges whose price was not known: they are in no amount.")
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()


class CostLineOut(serializers.Serializer[Any]):
    """What one model cost for one purpose."""

    turn = serializers.CharField(help_text="main, side: the agent's work; judge, manager, hint: what judged it.")
    provider = serializers.IntegerField(source="provider_id", allow_null=True)
    model = serializers.CharField()
    cost = CostOut()


class BillOut(serializers.Serializer[Any]):
    """What was paid, the dearest line first."""

    total = CostOut()
    lines = CostLineOut(many=True)
