"""The programs of the installation that decide what agents propose; all of them come from other packages."""

import inspect
from typing import Any, Final, cast

from apps.supervision.models import Proposal
from tentalis.core.scoring.judging import DECISION_WORDS, Decision
from tentalis.core.scoring.protocol import Unscored
from tentalis.core.supervision import ProposedAction, Supervisor
from tentalis.plugins import Registry


def _read_supervisor(name: str, found: Any) -> Supervisor:
    supervisor: Any = found() if inspect.isclass(found) else found
    if supervisor.name != name or not callable(supervisor.decide):
        raise ValueError(f"wanted a supervisor that is named as its entry point, {name!r}, found {supervisor.name!r}")
    return cast("Supervisor", supervisor)


SUPERVISORS: Final = Registry[Supervisor]("tentalis.supervisors", "supervisor", dict, _read_supervisor)


def name_program(name: str) -> str:
    """Handle under which the program of that name decides."""
    return f"agent:program:{name}"


def ask_supervisor(name: str, proposal: Proposal) -> Decision | Unscored:
    """What the program of that name says of a proposal; why nobody knows where it says nothing that can be read."""
    if (supervisor := SUPERVISORS.get(name)) is None:
        return Unscored(f"there is no supervisor {name} here")
    action = proposal.action
    asked = ProposedAction(
        prompt=proposal.task.prompt,
        kind=proposal.kind,
        tool=proposal.tool,
        arguments=action.get("arguments") or {},
        text=str(action.get("text", "")),
        context=proposal.context,
        risk=proposal.risk,
    )
    try:
        said: Any = supervisor.decide(asked)
    except Exception as error:  # noqa: BLE001 - another's code: then others decide
        return Unscored(f"{name} raised {type(error).__name__}: {error}"[:500])
    if not isinstance(said, Decision) or said.word not in DECISION_WORDS:
        return Unscored(f"{name} said none of {', '.join(DECISION_WORDS)}")
    return said
