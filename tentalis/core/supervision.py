"""Which actions of a running worker wait for a person, how long, and what happens when nobody comes."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, Self, get_args

ActionKind = Literal["tool", "message", "answer"]
OnTimeout = Literal["approve", "reject", "fail"]

MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 100
MAX_DEADLINE_S = 30 * 24 * 3600


class SupervisionError(ValueError):
    """A supervision policy is not what it should be; `field` names the part, the message what was wanted and found."""

    def __init__(self, field: str, *, wanted: str, found: object) -> None:
        super().__init__(f"{field}: wanted {wanted}, found {found!r}")
        self.field = field


@dataclass(frozen=True, kw_only=True)
class SupervisionPolicy:
    """A worker's rule for what it may not do alone.

    Args:
        tools: names of tools whose calls wait, as patterns (`refund`, `mail.*`, `*`); case does not matter.
        except_tools: patterns of tools that never wait, whatever `tools` says.
        messages: whether messages to others wait.
        answers: whether the final answer waits.
        deadline_s: how long a person has, 5 s to 30 days.
        on_timeout: then: the action may be done (approve), may not be done (reject), or the whole task fails.
    Raises:
        SupervisionError: naming the field.
    """

    tools: tuple[str, ...] = ("*",)
    except_tools: tuple[str, ...] = ()
    messages: bool = False
    answers: bool = False
    deadline_s: int = 300
    on_timeout: OnTimeout = "reject"

    def __post_init__(self) -> None:
        _require_patterns("tools", self.tools)
        _require_patterns("except_tools", self.except_tools)
        for name in ("messages", "answers"):
            if not isinstance(getattr(self, name), bool):
                raise SupervisionError(name, wanted="true or false", found=getattr(self, name))
        if isinstance(self.deadline_s, bool) or not isinstance(self.deadline_s, int):
            raise SupervisionError("deadline_s", wanted="whole seconds", found=self.deadline_s)
        if not 5 <= self.deadline_s <= MAX_DEADLINE_S:
            raise SupervisionError("deadline_s", wanted=f"5 to {MAX_DEADLINE_S} seconds", found=self.deadline_s)
        if self.on_timeout not in get_args(OnTimeout):
            raise SupervisionError(
                "on_timeout", wanted=f"one of {', '.join(get_args(OnTimeout))}", found=self.on_timeout
            )
        if not (self.tools or self.messages or self.answers):
            raise SupervisionError("tools", wanted="something that waits: tools, messages or answers", found=[])

    def find_reason(self, kind: ActionKind, tool: str = "") -> str:
        """Which part of the rule makes this action wait, in words; "" where none does.

        Args:
            tool: name of the tool, for kind tool.
        """
        if kind == "message":
            return "messages wait for approval" if self.messages else ""
        if kind == "answer":
            return "answers wait for approval" if self.answers else ""
        name = tool.casefold()
        if any(fnmatchcase(name, pattern.casefold()) for pattern in self.except_tools):
            return ""
        found = next((pattern for pattern in self.tools if fnmatchcase(name, pattern.casefold())), None)
        return "" if found is None else f"tools named {found} wait for approval"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"tools": list(self.tools), "except_tools": list(self.except_tools)}

    @classmethod
    def from_json(cls, data: Any) -> Self | None:
        """Read a stored policy; a field left out has its default, and {} is no supervision at all: None.

        Raises:
            SupervisionError: an unknown field, or a value of the wrong type or range.
        """
        if not isinstance(data, Mapping):
            raise SupervisionError("supervision", wanted="an object", found=data)
        if not data:
            return None
        known = [field.name for field in dataclasses.fields(cls)]
        for name in data:
            if name not in known:
                raise SupervisionError("supervision", wanted=f"fields of {', '.join(known)}", found=name)
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**values)


def _require_patterns(field: str, value: object) -> None:
    if not isinstance(value, tuple) or len(value) > MAX_PATTERNS:
        raise SupervisionError(field, wanted=f"a list of at most {MAX_PATTERNS} patterns", found=value)
    for pattern in value:
        is_text = isinstance(pattern, str) and pattern.strip() and pattern.isprintable()
        if not is_text or len(pattern) > MAX_PATTERN_CHARS:
            raise SupervisionError(
                field, wanted=f"patterns of 1 to {MAX_PATTERN_CHARS} printable characters", found=pattern
            )
