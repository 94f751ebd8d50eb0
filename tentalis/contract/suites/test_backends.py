"""What is asked of a training backend: it takes what the training box gives."""

import inspect
from typing import Any

GROUP = "tentalis.backends"


def test_it_takes_a_spec_and_says_how_it_goes(point: Any) -> None:
    train = point.load()
    inspect.signature(train).bind(object(), output=object(), report=object(), is_cancelled=object())
