"""The house's own way through a task: the fewest calls that leave the company as it was asked for."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from tentalis.core.workbench.company import Company
from tentalis.core.workbench.tasks import Task
from tentalis.core.workbench.tools import TOOLS, RefusedError


class UnsolvableError(Exception):
    """Nothing does the task in this company any more; the message says why."""


@dataclass(frozen=True)
class PlannedCall:
    """One call of the company's tools.

    Args:
        said: what the tool answers.
    """

    tool: str
    arguments: Mapping[str, Any]
    said: str = field(default="", compare=False)

    @property
    def changes(self) -> bool:
        return TOOLS[self.tool].changes


@dataclass(frozen=True)
class Plan:
    """Calls in order, and the company behind the last of them."""

    calls: tuple[PlannedCall, ...]
    company: Company


_Call = Callable[..., str]
_Choices = Mapping[str, str]


def solve(task: Task, company: Company, choices: _Choices | None = None) -> Plan:
    """What is to be called, and what the company is then. A number takes a read: it stands in no task.

    Args:
        choices: habit -> an option, where it is to be done otherwise than this house does.
    Raises:
        UnsolvableError: what the task is about is gone, or done already.
    """
    after, calls = deepcopy(company), list[PlannedCall]()

    def call(name: str, told: Mapping[str, Any]) -> str:
        try:
            calls.append(PlannedCall(name, told, TOOLS[name].effect(after, told)))
        except RefusedError as error:
            raise UnsolvableError(f"{name}: {error}") from None
        return calls[-1].said

    _PLANS[task.family](task, {**task.house, **(choices or {})}, call)
    return Plan(tuple(calls), after)


def _read_number(said: str, *, open_as: str = "") -> int:
    """The number in what a read said: 41 of `bill 41, open`."""
    number = said.partition(",")[0].split()[-1]
    if not number.isdecimal() or (open_as and not said.endswith(open_as)):
        raise UnsolvableError(f"found {said}")
    return int(number)


def _find_bill(task: Task, call: _Call, open_as: str = "") -> int:
    return _read_number(call("bills.find", {"client": task.client, "size": task.size}), open_as=open_as)


def _find_ticket(task: Task, call: _Call) -> int:
    return _read_number(call("tickets.find", {"client": task.client}), open_as="open")


def _find_document(task: Task, call: _Call, open_as: str = "") -> int:
    return _read_number(call("files.find", {"client": task.client, "kind": task.kind}), open_as=open_as)


def _mail(task: Task, chosen: _Choices, call: _Call, about: str) -> None:
    call(f"mail.{chosen['mail']}", {"to": task.client, "about": about, "copy": chosen["copy"]})


def _close(chosen: _Choices, call: _Call, ticket: int) -> None:
    call(f"tickets.{chosen['close']}", {"ticket": ticket})


def _remind(task: Task, chosen: _Choices, call: _Call) -> None:
    _mail(task, chosen, call, f"bill {_find_bill(task, call)}")


def _meet(task: Task, chosen: _Choices, call: _Call) -> int:
    said = call("calendar.free", {"day": task.day})
    if not said.startswith("hour"):
        raise UnsolvableError(f"found {said}")
    hour = int(said.split()[1])
    call("calendar.book", {"who": task.client, "day": task.day, "hour": hour, "room": chosen["room"]})
    return hour


def _restock(task: Task, chosen: _Choices, call: _Call) -> None:
    missing = int(call("stock.level", {"item": task.item}).split()[0])
    call("stock.order", {"item": task.item, "count": missing, "from": chosen["supplier"]})


def _file(task: Task, chosen: _Choices, call: _Call) -> None:
    document = _find_document(task, call, open_as="inbox")
    call("files.move", {"document": document, "to": chosen["folder"]})


def _refund(task: Task, chosen: _Choices, call: _Call) -> None:
    bill = _find_bill(task, call, open_as="open")
    if task.size == "big":
        call("bills.approve", {"bill": bill})
    call("bills.refund", {"bill": bill, "as": chosen["pay"]})


def _end(task: Task, chosen: _Choices, call: _Call) -> None:
    _close(chosen, call, _find_ticket(task, call))


def _send(task: Task, chosen: _Choices, call: _Call) -> None:
    _mail(task, chosen, call, f"document {_find_document(task, call)}")


def _apologise(task: Task, chosen: _Choices, call: _Call) -> None:
    ticket = _find_ticket(task, call)
    _mail(task, chosen, call, f"ticket {ticket}")
    _close(chosen, call, ticket)


def _invite(task: Task, chosen: _Choices, call: _Call) -> None:
    hour = _meet(task, chosen, call)
    _mail(task, chosen, call, f"hour {hour}")


def _settle(task: Task, chosen: _Choices, call: _Call) -> None:
    _refund(task, chosen, call)
    _end(task, chosen, call)


_PLANS: Final[Mapping[str, Callable[[Task, _Choices, _Call], object]]] = {
    "remind": _remind,
    "meet": _meet,
    "restock": _restock,
    "file": _file,
    "refund": _refund,
    "close": _end,
    "send": _send,
    "apologise": _apologise,
    "invite": _invite,
    "settle": _settle,
}
