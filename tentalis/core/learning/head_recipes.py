"""How a step scorer learns: one frozen recipe, stored whole with its run."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tentalis.core.canon import content_hash
from tentalis.core.learning.recipes import RecipeError

HEAD_RECIPE_SCHEMA = "tentalis.head-recipe/1"
_RANGES: Mapping[str, tuple[float, float]] = {
    "hidden": (1, 4096),
    "steps": (1, 100_000),
    "batch": (1, 65_536),
    "learning_rate": (1e-7, 1.0),
    "weight_decay": (0.0, 10.0),
}


@dataclass(frozen=True, kw_only=True)
class HeadRecipe:
    """Everything that decides how labelled steps become a reward head.

    Args:
        hidden: units of the first layer.
        steps: optimiser updates, of `batch` labelled steps each, drawn with replacement.
        learning_rate, weight_decay: AdamW.
    """

    hidden: int = 48
    steps: int = 300
    batch: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    schema: str = HEAD_RECIPE_SCHEMA

    def __post_init__(self) -> None:
        if self.schema != HEAD_RECIPE_SCHEMA:
            raise RecipeError(f"schema must be {HEAD_RECIPE_SCHEMA!r}, found {self.schema!r}")
        for name, (low, high) in _RANGES.items():
            value, whole = getattr(self, name), isinstance(getattr(type(self), name), int)
            kinds = int if whole else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
                wanted = "an integer" if whole else "a number"
                raise RecipeError(f"{name} must be {wanted} in [{low:g}, {high:g}], found {value!r}")

    @property
    def hash(self) -> str:
        return content_hash(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises RecipeError for an unknown field or a value out of range; missing fields take their default."""
        known = [item.name for item in dataclasses.fields(cls)]
        if unknown := sorted(set(data) - set(known)):
            raise RecipeError(f"a head recipe has no field {', '.join(unknown)}; it knows {', '.join(known)}")
        return cls(**data)
