"""What is asked of an AI manager."""

from importlib.metadata import EntryPoint
from typing import Any

GROUP = "tentalis.managers"


def test_it_has_its_name_and_says_who_it_is(point: EntryPoint, thing: Any) -> None:
    assert thing.name == point.name
    assert thing.author.strip()
    assert callable(thing.review)
