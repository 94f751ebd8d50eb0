"""Rules of other packages about when a person is to be told."""

import inspect
import logging
from typing import Any, Final

from apps.operations.figures import Figures
from apps.operations.rules import Trouble, find_troubles
from tentalis.core.alarms import Rule
from tentalis.plugins import Registry

logger = logging.getLogger(__name__)


def _read_monitor(name: str, found: Any) -> Rule:
    rule: Any = found() if inspect.isclass(found) else found
    if not isinstance(rule, Rule):
        raise TypeError(f"wanted a tentalis.core.alarms.Rule, found {type(rule).__name__}")
    if rule.name != name:
        raise ValueError(f"wanted a rule that is named as its entry point, {name!r}, found {rule.name!r}")
    return rule


MONITORS: Final = Registry[Rule]("tentalis.monitors", "monitor", dict, _read_monitor)


def find_all_troubles(now: Figures) -> list[Trouble]:
    """What breaks our own rules and those of other packages; one of these that cannot look is a trouble itself."""
    found = find_troubles(now)
    for rule in MONITORS.values():
        try:
            found += find_troubles(now, [rule])
        except Exception as error:  # noqa: BLE001 - another's code, which must not keep ours from looking
            found.append(Trouble(rule, "", f"the monitor {rule.name} raised {type(error).__name__}: {error}"))
    return found
