"""What is too deep or too much is not read, however it is written."""

import orjson
import pytest

from apps.gateway.bounds import SHORT_BYTES, BeyondBoundsError, load_bounded
from tentalis.limits import LIMITS

MOST = LIMITS.gateway_json_depth


@pytest.mark.parametrize("beside", [0, 100, SHORT_BYTES])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('["]",', ',"["]'), ('["}",', ',"{"]')])
def test_the_deepest_that_is_taken_is_the_limit(opening: str, closing: str, beside: int) -> None:
    def write(levels: int) -> bytes:
        return f"[{'[],' * beside}{opening * (levels - 1)}1{closing * (levels - 1)}]".encode()

    assert load_bounded(write(MOST)) == orjson.loads(write(MOST))
    for levels in (MOST + 1, 200, 900):
        with pytest.raises(BeyondBoundsError) as beyond:
            load_bounded(write(levels))
        assert (beyond.value.bound, beyond.value.most) == ("levels", MOST)


def test_too_many_values_are_not_read() -> None:
    with pytest.raises(BeyondBoundsError) as beyond:
        load_bounded(b"[" + b"0," * LIMITS.json_values + b"0]")
    assert beyond.value.bound == "values"


def test_what_is_no_json_is_said_to_be_none() -> None:
    with pytest.raises(orjson.JSONDecodeError):
        load_bounded(b'{"a":')
