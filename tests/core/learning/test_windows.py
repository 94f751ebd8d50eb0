"""When a project may train."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.checked import FieldError
from tentalis.core.learning.windows import (
    TrainingPolicy,
    Waiting,
    Window,
    find_opening,
    order_fairly,
)

BERLIN = ZoneInfo("Europe/Berlin")
FRIDAY_NIGHT = datetime(2026, 11, 20, 23, 30, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "at", "holds"),
    [
        ("mon-fri 22:00-06:00", FRIDAY_NIGHT, True),
        ("mon-fri 22:00-06:00", FRIDAY_NIGHT + timedelta(hours=6), True),  # Saturday 05:30 belongs to Friday's night
        ("mon-fri 22:00-06:00", FRIDAY_NIGHT + timedelta(hours=7), False),
        ("mon-fri 22:00-06:00", FRIDAY_NIGHT + timedelta(days=1), False),
        ("sat 00:00-24:00", FRIDAY_NIGHT + timedelta(hours=12), True),
        ("sat-mon 09:00-17:00", FRIDAY_NIGHT + timedelta(hours=58), True),  # Monday 09:30, over the week's end
        ("09:00-17:00", FRIDAY_NIGHT, False),
    ],
)
def test_a_window_holds_over_midnight_and_the_weeks_end(text: str, at: datetime, holds: bool) -> None:
    assert Window.parse(text).holds(at) is holds


def test_hours_open_at_the_next_start_in_the_projects_own_time() -> None:
    found = find_opening(
        ["mon-fri 22:00-06:00", "sun 12:00-14:00"], zone=BERLIN, now=datetime(2026, 11, 21, 9, tzinfo=UTC)
    )
    assert found == datetime(2026, 11, 22, 12, tzinfo=BERLIN)
    assert find_opening(["mon-fri 22:00-06:00"], zone=BERLIN, now=FRIDAY_NIGHT.astimezone(UTC)) is None
    assert find_opening([], zone=BERLIN, now=FRIDAY_NIGHT) is None


@given(st.integers(0, 7 * 24 * 60), st.integers(0, 6), st.integers(0, 1439), st.integers(0, 1439))
def test_what_opens_holds_when_it_opens(minutes: int, day: int, start: int, end: int) -> None:
    days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    text = f"{days[day]} {start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
    now = datetime(2026, 11, 16, tzinfo=UTC) + timedelta(minutes=minutes)
    opening = find_opening([text], zone=ZoneInfo("UTC"), now=now)
    if opening is None:
        assert Window.parse(text).holds(now)
    else:
        assert now < opening <= now + timedelta(days=7)
        assert Window.parse(text).holds(opening)
        assert not Window.parse(text).holds(opening - timedelta(minutes=1)) or start == end


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"hours": ["at night"]}, "hours: wanted 'mon-fri 22:00-06:00'"),
        ({"hours": ["mon-fra 22:00-06:00"]}, "days are mon"),
        ({"hours": ["25:00-06:00"]}, "hours: wanted"),
        ({"timezone": "Berlin"}, "timezone: wanted an IANA name"),
        ({"share": 0}, "share: wanted a number from 0.01"),
        ({"gpu_s_per_day": True}, "gpu_s_per_day: wanted a number"),
        ({"runs_per_day": 1.5}, "runs_per_day: wanted a whole number"),
        ({"calendar_means": "maybe"}, "calendar_means: wanted one of closed, open"),
        ({"when": "night"}, "training policy: wanted fields of timezone, .* found 'when'"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_name(data: dict[str, object], words: str) -> None:
    with pytest.raises(FieldError, match=words):
        TrainingPolicy.from_json(data)


def _waiting(run_id: int, project_id: int, *, used_s: float, share: float = 1.0, priority: int = 0) -> Waiting:
    return Waiting(run_id=run_id, project_id=project_id, priority=priority, used_s=used_s, share=share)


def test_the_project_that_had_least_of_its_share_goes_first() -> None:
    waiting = [
        _waiting(1, 1, used_s=100),
        _waiting(2, 2, used_s=150, share=2),
        _waiting(3, 3, used_s=90),
        _waiting(4, 2, used_s=150, share=2, priority=5),
    ]
    assert order_fairly(waiting) == [4, 2, 3, 1]
