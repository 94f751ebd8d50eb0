"""Whether answers kept their length: asked of held-out prompts by whoever serves the adapter, judged in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any, NamedTuple, Self

from tentalis.core.contracts import ContractError

SCHEMA = "tentalis.lengths/1"
FILE = "lengths.json"
"""Where a training leaves the question, beside the directory of its adapter, until it was asked."""
OPTION, ASKED_WHERE_IT_SERVES = "lengths", "server"
"""The spec's option, and what it says where the platform asks the model server; else the training box asks itself."""


class Lengths(NamedTuple):
    """Mean tokens of answers: sampled by the policy a run started from and by the trained one, and of those that it
    imitated; None where it imitated none."""

    before: float
    after: float
    shown: float | None = None

    @property
    def drift(self) -> float:
        """Relative to the answers before. Who imitates longer or shorter answers may come as far as those are."""
        wanted = self.before if self.shown is None else self.shown
        nearest = max(min(self.before, wanted), min(max(self.before, wanted), self.after))
        return abs(self.after / nearest - 1) if nearest else 0.0

    def find_fault(self, *, most_drift: float) -> str:
        """Why such answers must not be published, in words; "" where they may."""
        if self.drift <= most_drift:
            return ""
        shown = "" if self.shown is None else f" and those they imitate {self.shown:.1f}"
        return (
            f"answers have {self.after:.1f} tokens where they had {self.before:.1f}{shown}: {self.drift:.0%} off, "
            f"{most_drift:.0%} are allowed"
        )

    def describe(self) -> dict[str, float]:
        """As a run tells them."""
        return {
            "length_before_tokens": self.before,
            "length_after_tokens": self.after,
            "length_drift": self.drift,
        } | ({} if self.shown is None else {"length_shown_tokens": self.shown})


@dataclass(frozen=True, kw_only=True)
class LengthQuestion:
    """What both policies are asked.

    Args:
        prompts: token ids, held out from the training.
        answers: sampled to each prompt, at temperature 1.
        max_tokens: of an answer; one that does not end has as many.
        most_drift: what the recipe allows.
        shown: mean tokens of the answers that were imitated; None: none were.
    """

    prompts: Sequence[Sequence[int]]
    answers: int
    max_tokens: int
    seed: int
    most_drift: float
    shown: float | None = None
    schema: str = SCHEMA

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"prompts": [list(prompt) for prompt in self.prompts]}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises ContractError for what is no such question."""
        names = {item.name for item in fields(cls)}
        if not isinstance(data, Mapping) or data.keys() | {"shown"} != names or data["schema"] != SCHEMA:
            raise ContractError(f"wanted {SCHEMA} with {', '.join(sorted(names))}, found {str(data)[:200]}")
        prompts, counts = data["prompts"], [data[name] for name in ("answers", "max_tokens")]
        is_list = isinstance(prompts, list) and all(isinstance(one, list) and one for one in prompts)
        if not is_list or not prompts or not all(type(token) is int for one in prompts for token in one):
            raise ContractError(f"{SCHEMA}: prompts must be lists of token ids, found {str(prompts)[:200]}")
        if not all(type(count) is int and count > 0 for count in counts) or type(data["seed"]) is not int:
            raise ContractError(f"{SCHEMA}: answers and max_tokens must be above 0, seed an integer, found {counts}")
        if type(data["most_drift"]) not in (int, float) or not 0 <= data["most_drift"] <= 1:
            raise ContractError(f"{SCHEMA}: most_drift must lie in [0, 1], found {data['most_drift']!r}")
        shown = data.get("shown")
        if shown is not None and (type(shown) not in (int, float) or not 0 < shown < inf):
            raise ContractError(f"{SCHEMA}: shown must be tokens above 0, found {shown!r}")
        return cls(**data)
