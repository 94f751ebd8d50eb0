"""Fields that take their own JSON type and no other, and serializers that refuse names they do not know."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses unknown fields by name."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and (unknown := sorted(set(map(str, data)) - set(self.fields))):
            known = ", ".join(name for name, field in self.fields.items() if not field.read_only)
            raise serializers.ValidationError({name: [f"No such field; known are {known}."] for name in unknown})
        return super().to_internal_value(data)


class NoFields(StrictSerializer):
    """An empty body, or {}."""


class TextField(serializers.CharField):
    """Text, kept as it was written."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False} | options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError(f"wanted text, found {name_type(data)}")
        return super().to_internal_value(data)


class WholeNumberField(serializers.IntegerField):
    """A JSON number without a fraction."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError(f"wanted a whole number, found {name_type(data)}")
        return super().to_internal_value(data)


class NumberField(serializers.FloatField):
    """A finite JSON number."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
            raise serializers.ValidationError(f"wanted a number, found {name_type(data)}")
        return super().to_internal_value(data)


class TrueFalseField(serializers.BooleanField):
    """true or false."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError(f"wanted true or false, found {name_type(data)}")
        return data


class WordField(serializers.ChoiceField):
    """One of the words listed."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choices:
            raise serializers.ValidationError(f"wanted one of {', '.join(map(str, self.choices))}, found {show(data)}")
        return super().to_internal_value(data)


class RegisteredField(WordField):
    """One of the names that are registered when it is asked for.

    Args:
        list_choices: the names there are, or (name, label) pairs.
    """

    def __init__(self, list_choices: Callable[[], Sequence[str] | Sequence[tuple[str, str]]], **options: Any) -> None:
        super().__init__(choices=list_choices(), **options)


@extend_schema_field({"type": "object", "additionalProperties": {}})
class ObjectField(serializers.JSONField):
    """A JSON object of at most `max_bytes`."""

    def __init__(self, *, max_bytes: int = 65_536, **options: Any) -> None:
        self.max_bytes = max_bytes
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError(f"wanted an object, found {name_type(data)}")
        check_size(data, self.max_bytes)
        return data


@extend_schema_field({})
class AnyJSONField(serializers.JSONField):
    """Any JSON value of at most 64 KiB."""

    def to_internal_value(self, data: Any) -> Any:
        check_size(data, 65_536)
        return data


def check_size(value: Any, max_bytes: int) -> None:
    """Raise ValidationError where the value's JSON is larger."""
    size = len(json.dumps(value, ensure_ascii=False).encode())
    if size > max_bytes:
        raise serializers.ValidationError(f"wanted at most {max_bytes} bytes of JSON, found {size}")


def name_type(value: Any) -> str:
    """JSON's word for a value's type."""
    names = {bool: "true or false", str: "text", dict: "an object", list: "a list", type(None): "null"}
    if isinstance(value, float) and not value.is_integer():
        return "a number with a fraction"
    return names.get(type(value), "a number")


def show(value: Any) -> str:
    return repr(value[:60]) if isinstance(value, str) else name_type(value)
