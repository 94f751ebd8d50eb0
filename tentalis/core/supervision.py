"""Which actions of a running worker wait for a word, whose, how long, and what happens when nobody comes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, Protocol, get_args

from tentalis.core.checked import Checked, Text, choice, flag, number, several, text
from tentalis.core.scoring.judging import Decision

ActionKind = Literal["tool", "message", "answer"]
OnTimeout = Literal["approve", "reject", "fail"]


@dataclass(frozen=True)
class Pattern(Text):
    """A text that can be seen whole."""

    @property
    def wanted(self) -> str:
        return f"a pattern of {self.least} to {self.most} printable characters"

    def accepts(self, value: object) -> bool:
        return super().accepts(value) and isinstance(value, str) and value.isprintable()


PATTERN = Pattern(100, 1)


@dataclass(frozen=True, kw_only=True)
class SupervisionPolicy(Checked):
    """A worker's rule for what it may not do alone.

    Args:
        tools: names of tools whose calls wait, as patterns (`refund`, `mail.*`, `*`); case does not matter.
        except_tools: patterns of tools that never wait, whatever `tools` says.
        messages: whether messages to others wait.
        answers: whether the final answer waits.
        agents_decide: whether other agents of the project decide too; else people alone.
        model_decides: whether the model that judges the project's work is asked first; what it is not sure of waits on.
        supervisor: a program of the installation that is asked first, by its name; "": none. What it is not sure of the
            model is asked, where that decides, or waits on.
        deadline_s: how long they have, 5 s to 30 days.
        on_timeout: then: the action may be done (approve), may not be done (reject), or the whole task fails.
    Raises:
        FieldError: naming the field.
    """

    NOUN: ClassVar[str] = "supervision"

    tools: tuple[str, ...] = several(("*",), PATTERN, most=100)
    except_tools: tuple[str, ...] = several((), PATTERN, most=100)
    messages: bool = flag(False)
    answers: bool = flag(False)
    agents_decide: bool = flag(False)
    model_decides: bool = flag(False)
    supervisor: str = text("", most=32)
    deadline_s: int = number(300, 5, 30 * 24 * 3600)
    on_timeout: OnTimeout = choice("reject", get_args(OnTimeout))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.tools or self.messages or self.answers):
            raise self.refuse("tools", wanted="something that waits: tools, messages or answers", found=[])

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


@dataclass(frozen=True, kw_only=True)
class ProposedAction:
    """What an agent wants to do.

    Args:
        prompt: of its task.
        kind: tool, message or answer; tool, arguments: of a call.
        text: of a message or an answer.
        context: what led there, its end. risk: what the agent says of it.
    """

    prompt: str
    kind: str
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    context: str = ""
    risk: str = ""


class Supervisor(Protocol):
    """A program that decides what agents propose, before a model or a person is asked."""

    @property
    def name(self) -> str:
        """As rules call it."""
        ...

    def decide(self, action: ProposedAction) -> Decision:
        """Approve, reject, or unsure: then it waits for others. What is raised counts as unsure."""
        ...


def read_supervision(data: object) -> SupervisionPolicy | None:
    """A stored policy; {} is no supervision at all: None.

    Raises:
        FieldError: an unknown field, or a value of the wrong type or range.
    """
    return None if data == {} else SupervisionPolicy.from_json(data)
