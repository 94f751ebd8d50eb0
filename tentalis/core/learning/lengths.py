"""Whether answers kept their length: asked of held-out prompts by whoever serves the adapter, judged in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

from tentalis.core.contracts import ContractError

SCHEMA = "tentalis.lengths/1"
FILE = "lengths.json"
"""Where a training leaves the question, beside the directory of its adapter, until it was asked."""
OPTION, ASKED_WHERE_IT_SERVES = "lengths", "server"
"""The spec's option, and what it says where the platform asks the model server; else the training box asks itself."""


class Lengths(NamedTuple):
    """Mean tokens of sampled answers, by the policy a run started from and by the trained one."""

    before: float
    after: float

    @property
    def drift(self) -> float:
        """Relative to the answers before."""
        return abs(self.after / self.before - 1) if self.before else 0.0

    def find_fault(self, *, most_drift: float) -> str:
        """Why such answers must not be published, in words; "" where they may."""
        if self.drift <= most_drift:
            return ""
        return (
            f"answers have {self.after:.1f} tokens where they had {self.before:.1f}: {self.drift:.0%} off, "
            f"{most_drift:.0%} are allowed"
        )

    def describe(self) -> dict[str, float]:
        """As a run tells them."""
        return {
            "length_before_tokens": self.before,
            "length_after_tokens": self.after,
            "length_drift": self.drift,
        }


@dataclass(frozen=True, kw_only=True)
class LengthQuestion:
    """What both policies are asked.

    Args:
        prompts: token ids, held out from the training.
        answers: sampled to each prompt, at temperature 1.
        max_tokens: of an answer; one that does not end has as many.
        most_drift: what the recipe allows.
    """

    prompts: Sequence[Sequence[int]]
    answers: int
    max_tokens: int
    seed: int
    most_drift: float
    schema: str = SCHEMA

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"prompts": [list(prompt) for prompt in self.prompts]}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises ContractError for what is no such question."""
        names = {item.name for item in fields(cls)}
        if not isinstance(data, Mapping) or data.keys() != names or data["schema"] != SCHEMA:
            raise ContractError(f"wanted {SCHEMA} with {', '.join(sorted(names))}, found {str(data)[:200]}")
        prompts, counts = data["prompts"], [data[name] for name in ("answers", "max_tokens")]
        is_list = isinstance(prompts, list) and all(isinstance(one, list) and one for one in prompts)
        if not is_list or not prompts or not all(type(token) is int for one in prompts for token in one):
            raise ContractError(f"{SCHEMA}: prompts must be lists of token ids, found {str(prompts)[:200]}")
        if not all(type(count) is int and count > 0 for count in counts) or type(data["seed"]) is not int:
            raise ContractError(f"{SCHEMA}: answers and max_tokens must be above 0, seed an integer, found {counts}")
        if type(data["most_drift"]) not in (int, float) or not 0 <= data["most_drift"] <= 1:
            raise ContractError(f"{SCHEMA}: most_drift must lie in [0, 1], found {data['most_drift']!r}")
        return cls(**data)
