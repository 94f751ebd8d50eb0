"""Log files: kept to a size, read from their end, followed."""

from pathlib import Path

import pytest

from tentalis.platform.errors import NotRunningError, UnknownServiceError
from tentalis.platform.home import Home
from tentalis.platform.logs import choose_logs, find_last_words, follow_logs, read_last_lines, rotate_log


def test_a_log_that_grew_too_large_is_cut_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    with log.open("a") as writer:  # stays open, as a service's does
        for number in range(5):
            writer.write(f"line {number}\n")
            writer.flush()
            assert rotate_log(log, max_size_bytes=1, kept=3)
    assert not log.read_text()
    kept = {path.name: path.read_text() for path in tmp_path.glob("web.log.*")}
    assert kept == {"web.log.1": "line 4\n", "web.log.2": "line 3\n", "web.log.3": "line 2\n"}


def test_a_small_log_and_a_missing_one_are_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    assert not rotate_log(log, max_size_bytes=10)
    log.write_text("short\n")
    assert not rotate_log(log, max_size_bytes=10)
    assert log.read_text() == "short\n"


@pytest.mark.parametrize("count", [0, 1, 3, 50_000, 100_000])
def test_the_last_lines_are_read_however_long_the_log_is(tmp_path: Path, count: int) -> None:
    log = tmp_path / "web.log"
    lines = [f"line {number}" for number in range(50_000)]
    log.write_text("\n".join(lines) + "\n")
    assert read_last_lines(log, count) == (lines[-count:] if count else [])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("", ""),
        ("making it\nno such table: tickets\n\n", "no such table: tickets"),
        (
            'Traceback …\npsycopg.errors.UndefinedColumn: no epoch\nLINE 1: INSERT\n\nThe above …\n  File "x"\n'
            "django.db.utils.ProgrammingError: no epoch\nLINE 1: INSERT …\n               ^\n",
            "django.db.utils.ProgrammingError: no epoch",
        ),
    ],
)
def test_the_last_words_are_an_errors_first_line(told: str, words: str) -> None:
    assert find_last_words(told) == words


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read_last_lines(tmp_path / "web.log", 5) == []


def test_following_yields_whole_lines_of_every_log_and_starts_anew_after_a_cut(tmp_path: Path) -> None:
    web, relay = tmp_path / "web.log", tmp_path / "relay.log"
    web.write_text("before\n")
    following = follow_logs({"web": web, "relay": relay})
    relay.write_text("first\nsec")
    assert next(following) == ("relay", "first")
    with relay.open("a") as writer:
        writer.write("ond\n")
    assert next(following) == ("relay", "second")
    web.write_text("cut\n")
    assert next(following) == ("web", "cut")


def test_a_log_nobody_wrote_is_refused_by_name(home: Home) -> None:
    with pytest.raises(NotRunningError, match="nothing was started on this home yet"):
        choose_logs(home, [])
    home.prepare()
    home.log_file("web").touch()
    with pytest.raises(UnknownServiceError, match="no log of 'wep'; there are web"):
        choose_logs(home, ["wep"])
    assert choose_logs(home, []) == {"web": home.log_file("web")}
