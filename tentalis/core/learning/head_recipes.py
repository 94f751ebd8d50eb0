"""How a step scorer learns: one frozen recipe, stored whole with its run."""

from dataclasses import dataclass
from typing import ClassVar

from tentalis.core.canon import content_hash
from tentalis.core.checked import Checked, choice, number
from tentalis.core.learning.recipes import RecipeError

HEAD_RECIPE_SCHEMA = "tentalis.head-recipe/1"


@dataclass(frozen=True, kw_only=True)
class HeadRecipe(Checked):
    """Everything that decides how labelled steps become a reward head.

    Args:
        hidden: units of the first layer.
        steps: optimiser updates, of `batch` labelled steps each, drawn with replacement.
        learning_rate, weight_decay: AdamW.
    """

    NOUN: ClassVar[str] = "head recipe"
    ERROR: ClassVar[type[RecipeError]] = RecipeError

    hidden: int = number(48, 1, 4096)
    steps: int = number(300, 1, 100_000)
    batch: int = number(256, 1, 65_536)
    learning_rate: float = number(3e-3, 1e-7, 1.0)
    weight_decay: float = number(1e-2, 0.0, 10.0)
    schema: str = choice(HEAD_RECIPE_SCHEMA, (HEAD_RECIPE_SCHEMA,))

    @property
    def hash(self) -> str:
        return content_hash(self.to_json())
