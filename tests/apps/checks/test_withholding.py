"""What checks found, without the word of a judge."""

from typing import Any

import pytest

from apps.checks.withholding import withhold


def asked(share: float | None, model: str = "judge") -> dict[str, Any]:
    return {"check": "judge", "share": share, "words": "so", "grader": f"judge {model}, prompt 1, rubric 2"}


def plain(share: float | None) -> dict[str, Any]:
    return {"check": "contains", "share": share, "words": "so"}


def joined(share: float | None, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"check": "polite@2", "share": share, "words": "so", "parts": list(parts)}


OTHER = asked(0.0, "judge-mini")


@pytest.mark.parametrize(
    ("part", "share"),
    [
        (plain(0.5), 0.5),
        (asked(0.5), None),
        (asked(0.5, "judge-mini"), 0.5),
        (joined(0.5, plain(1.0), plain(0.5)), 0.5),
        (joined(0.5, plain(1.0), asked(0.5)), None),
        (joined(0.5, plain(0.5), asked(1.0)), None),  # the judge may have found it worse
        (joined(0.0, plain(1.0), asked(0.0)), None),
        (joined(0.0, plain(1.0), asked(0.5), OTHER), 0.0),  # all: the other one settled it
        (joined(0.0, plain(0.0), asked(None)), 0.0),  # all: nobody was asked
        (joined(0.0, asked(0.0), asked(None, "judge-mini")), None),
        (joined(1.0, asked(0.0), asked(1.0, "judge-mini")), 1.0),  # any: the other one settled it
        (joined(1.0, asked(1.0), asked(None, "judge-mini")), None),
        (joined(1.0, plain(1.0), asked(1.0)), None),
        (joined(None, plain(None), asked(0.5)), None),
        (joined(0.0, joined(0.5, asked(0.5), plain(1.0)), OTHER), 0.0),
        (joined(1.0, joined(1.0, asked(0.2), asked(1.0, "judge-mini")), plain(1.0)), 1.0),
        (joined(0.5, joined(0.5, asked(0.5), plain(1.0)), plain(1.0)), None),
    ],
)
def test_what_others_settle_stands(part: dict[str, Any], share: float | None) -> None:
    found = withhold(part, {"judge"}, "it fell")
    assert found["share"] == share
    was_known = part["share"] is not None
    assert found["words"] == ("it fell" if share is None and (was_known or "parts" in part) else "so")


def test_each_part_that_was_the_judges_is_unscored_and_the_others_stay() -> None:
    found = withhold(joined(0.0, joined(0.5, asked(0.5), plain(1.0)), OTHER), {"judge"}, "it fell")
    inner, other = found["parts"]
    assert [one["share"] for one in inner["parts"]] == [None, 1.0]
    assert (inner["share"], inner["words"], other) == (None, "it fell", OTHER)
