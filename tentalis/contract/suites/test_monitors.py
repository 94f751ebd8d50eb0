"""What is asked of a monitor."""

from importlib.metadata import EntryPoint
from typing import Any

from tentalis.core.alarms import Rule

GROUP = "tentalis.monitors"


def test_it_is_a_rule_of_its_name(point: EntryPoint, thing: Any) -> None:
    assert isinstance(thing, Rule)
    assert thing.name == point.name
    assert thing.patience_s >= 0
    assert callable(thing.find)
