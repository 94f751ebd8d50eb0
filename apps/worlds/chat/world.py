"""Plain conversation: no tools, and checked only where the task brings a reference."""

import math
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, Literal, NamedTuple

from tentalis.core import hints
from tentalis.core.field_limits import MAX_PROMPT_CHARS
from tentalis.core.worlds import AttemptDraft, PanelItem, Verification

Match = Literal["exact", "contains", "number"]
_MATCHES: Final[tuple[Match, ...]] = ("exact", "contains", "number")
_NUMBER: Final = re.compile(
    r"(?:(?<![\w.])[-+])?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?", re.ASCII
)
_RELATIVE_TOLERANCE: Final = 1e-6


class _Reference(NamedTuple):
    match: Match
    value: str


class ChatWorld:
    """A prompt in, an answer out.

    A reference says what a right answer is: a text (the whole answer, blanks and case aside), a number (the last number
    in the answer), or {"match": "exact" | "contains" | "number", "value": …}.
    """

    name = "chat"
    noun = "task"

    def say_limits(self) -> Sequence[str]:
        return ()

    def draw_prompt(self, rng: Random) -> str | None:
        return None

    def check_prompt(self, prompt: str) -> None:
        """Refuse an empty or endless prompt."""
        if not prompt.strip():
            raise ValueError("prompt must hold some text, found none")
        if len(prompt) > MAX_PROMPT_CHARS:
            raise ValueError(f"prompt must have at most {MAX_PROMPT_CHARS} characters, found {len(prompt)}")

    def check_reference(self, reference: Any) -> None:
        """Raise ValueError where `verify` could not use the reference."""
        if reference is not None:
            _read_reference(reference)

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        return [*system, {"role": "user", "content": prompt}]

    def call_tool(self, prompt: str, name: str, arguments: str) -> str:
        return f"there is no tool {name!r} here"

    def verify(self, prompt: str, reference: Any, draft: AttemptDraft) -> Verification | None:
        """Compare the answer with the reference; None without one. Raises ValueError for an unreadable reference."""
        if reference is None:
            return None
        wanted = _read_reference(reference)
        is_right = not draft.error and _is_match(draft.answer, wanted)
        return Verification(
            outcome=float(is_right),
            step_scores=[None] * len(draft.steps),
            step_reasons=["only the answer has a reference"] * len(draft.steps),
            details={"match": wanted.match},
        )

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The conversation with the hint behind the last user message; raises HintError for a blank hint."""
        return hints.hinted_messages(messages, hint)

    def is_held_out(self, prompt: str) -> bool:
        return False

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        return []

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """None: nobody keeps any here."""
        return []


def _read_reference(reference: Any) -> _Reference:
    match: Any = "number" if isinstance(reference, int | float) else "exact"
    value = reference
    if isinstance(reference, Mapping):
        if set(reference) != {"match", "value"}:
            raise ValueError(
                f"reference must hold match and value, found {', '.join(map(str, reference)) or 'nothing'}"
            )
        match, value = reference["match"], reference["value"]
    if match not in _MATCHES:
        raise ValueError(f"reference.match must be one of {', '.join(_MATCHES)}; found {match!r}")
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"reference must be a text or a number, found {value!r}")
    if match == "number" and _last_number(str(value)) is None:
        raise ValueError(f"reference must hold a number, found {value!r}")
    return _Reference(match, str(value))


def _is_match(answer: str, wanted: _Reference) -> bool:
    match wanted.match:
        case "exact":
            return _fold(answer) == _fold(wanted.value)
        case "contains":
            return _fold(wanted.value) in _fold(answer)
        case "number":
            found, target = _last_number(answer), _last_number(wanted.value)
            return found is not None and target is not None and math.isclose(found, target, rel_tol=_RELATIVE_TOLERANCE)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _last_number(text: str) -> float | None:
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None
