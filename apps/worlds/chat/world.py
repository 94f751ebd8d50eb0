"""Plain conversation: no tools, and checked only where the task brings a reference."""

from collections.abc import Mapping
from typing import Any, Final

from apps.checks.language import Check, read_check
from apps.checks.results import decide
from tentalis.core.worlds import AttemptDraft, Verification, World

_MATCHES: Final = ("exact", "contains", "number")


class ChatWorld(World):
    """A prompt in, an answer out.

    A reference is a check (`apps.checks.language`), or short for one: a text (exact), a number (number), or
    {"match": "exact" | "contains" | "number", "value": …}.
    """

    name = "chat"
    label = "Chat"

    def check_reference(self, reference: Any) -> None:
        """Raise ValueError where `verify` could not use the reference."""
        if reference is not None:
            _read_reference(reference)

    def verify(self, prompt: str, reference: Any, draft: AttemptDraft) -> Verification | None:
        """Compare the answer with the reference; None without one. Raises ValueError for an unreadable reference."""
        if reference is None:
            return None
        check = _read_reference(reference)
        found = decide(check.kind, passes=False, why="there is no answer") if draft.error else check.run(draft.answer)
        return Verification(
            outcome=found.share,
            step_scores=[None] * len(draft.steps),
            step_reasons=["only the answer has a reference"] * len(draft.steps),
            checks=[found.to_json()],
            infrastructure=found.words if found.share is None else "",
        )


def _read_reference(reference: Any) -> Check:
    """The check that a reference is."""
    if isinstance(reference, Mapping) and "match" not in reference:
        return read_check(reference, where="reference")
    match: Any = "number" if isinstance(reference, int | float) else "exact"
    value = reference
    if isinstance(reference, Mapping):
        if set(reference) != {"match", "value"}:
            raise ValueError(f"reference must hold match and value, found {', '.join(map(str, reference))}")
        match, value = reference["match"], reference["value"]
    if match not in _MATCHES:
        raise ValueError(f"reference.match must be one of {', '.join(_MATCHES)}; found {match!r}")
    if not isinstance(value, bool | str | int | float):
        raise ValueError(f"reference must be a text or a number, found {value!r:.200}")
    return read_check({"check": match, "value": value}, where="reference")
