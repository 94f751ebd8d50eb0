"""A body is read in time that grows as it does, whatever stands in it."""

import io
import time

import pytest
from rest_framework.exceptions import ParseError

from apps.api.parsers import MAX_WEB_BODY_BYTES, StrictJSONParser


def test_a_name_that_stands_twice_among_many_is_found_at_once() -> None:
    """Names were counted once for each name: a third of a megabyte took forty seconds."""
    names = [f'"{number}":1' for number in range(120_000)]
    body = ("{" + ",".join([*names, '"z":1', '"z":2']) + "}").encode()
    assert len(body) < MAX_WEB_BODY_BYTES
    began = time.process_time()
    with pytest.raises(ParseError, match="the name 'z' stands twice"):
        StrictJSONParser().parse(io.BytesIO(body))
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("NaN", "wanted JSON, found NaN"),
        ("-Infinity", "wanted JSON, found -Infinity"),
        ("1e999", "wanted finite numbers, found one that is too large"),
        ("-1e400", "wanted finite numbers, found one that is too large"),
        ("9" * 400, "whole numbers must fit in 64 bits"),
    ],
)
def test_what_is_no_number_is_refused_wherever_it_stands(number: str, words: str) -> None:
    """Metadata, facts, references, weights: Postgres keeps none in JSON, and nothing can be computed with it."""
    for body in (f'{{"metadata": {{"x": [1, {{"y": {number}}}]}}}}', f"[{number}]"):
        with pytest.raises(ParseError, match=words):
            StrictJSONParser().parse(io.BytesIO(body.encode()))
