"""Full-screen programs: what a model is shown of them, and the keys that it presses."""

import shutil

import pytest

from apps.worlds.terminal.screens import Screen
from apps.worlds.terminal.world import TerminalWorld
from tentalis.core.terminal.scenes import HOME
from tentalis.core.terminal.shell import read_keys
from tentalis.sandbox.client import Drawn
from tests.worlds.terminal.playing import Script, playing

PACK = "#12 Pack the folder mail for the courier."
SHOWS = r"""
import curses
def show(page):
    seen = []
    while True:
        page.erase()
        page.addstr(0, 0, "A form")
        page.addstr(2, 4, "Keys: " + " ".join(seen), curses.A_BOLD)
        key = page.getch()
        if key == ord("q"):
            raise SystemExit(5)
        seen.append(curses.keyname(key).decode())
curses.wrapper(show)
"""


def see(script: Script, typed: str, wanted: str) -> str:
    """What stands on the screen as soon as that is on it: a program draws when it comes to it."""
    shown = script.type(typed)
    while wanted not in shown:
        shown = script.type("<Wait>")
    return shown


@pytest.mark.skipif(shutil.which("less", path="/usr/bin") is None, reason="this machine has no less")
def test_a_program_that_draws_is_shown_as_text_and_takes_keys(world: TerminalWorld) -> None:
    with playing(world, PACK) as script:
        assert script.run("cd mail; seq 100 > numbers") == "[exit 0]"
        assert see(script, "less numbers", "\nnumbers\n[on the screen, cursor at line 24, column 8]").startswith(
            "1\n2\n3\n"
        )
        assert see(script, "/9.<Enter>", "90\n91\n").startswith("90\n91\n")
        assert see(script, "G", "100\n").splitlines()[-3] == "100"
        assert script.run("pwd") == f"/{HOME}/mail\n[exit 0]", "the shell is there beside it"
        see(script, "q", "[exit 0]")

        script.run(f"cat > form.py <<'END'\n{SHOWS}\nEND")
        assert see(script, "/usr/bin/python3 form.py", "Keys:\n") == (
            "A form\n\n    Keys:\n[on the screen, cursor at line 3, column 11]"
        )
        see(script, "x<Up><C-a><Esc>", "\n    Keys: x KEY_UP ^A ^[\n")
        assert script.type("y" * 1_025) == "error: run: wanted at most 1,024 bytes for the screen, found more"
        see(script, "q", "[exit 5]")

        see(script, "read -p 'Sure? ' word; echo $word", "Sure?\n[on the screen, cursor at line 1, column 7]")
        assert see(script, "yes<Enter>", "[exit 0]") == "Sure? yes\nyes\n[exit 0]"
        assert see(script, "cd nowhere", "[exit 1]").endswith("No such file or directory\n[exit 1]")
        see(script, "kill -9 $$", "[exit 137]")


def test_who_draws_without_end_is_shown_as_far_as_it_is_looked_at(world: TerminalWorld) -> None:
    with playing(world, PACK) as script:
        see(script, "yes", "y\n" * 23)
        assert see(script, "<C-c>", "[exit 130]").endswith("^C\n[exit 130]")


@pytest.mark.parametrize(
    ("drawn", "shown"),
    [
        (b"one\r\ntwo", "one\ntwo"),
        (b"\x1b[2;3Hhere\x1b[1;1Hfirst", "first\n  here"),
        (b"\x1b[>4;2m\x1b[?1;2;3mplain", "plain"),
        ("a\u0301e\u0301".encode(), "ae"),
        (b"before\x1b[" + b"9" * 5_000 + b"mlost\x1b[Kafter", "before"),
        (b"\xff\xfe bytes", "\ufffd\ufffd bytes"),
        (b"\x1b]0;a title\x07text", "text"),
        ("日本".encode(), "日本"),
    ],
)
def test_what_is_drawn_is_told_as_letters_whatever_it_is(drawn: bytes, shown: str) -> None:
    text, code = Screen().follow(Drawn(drawn, 4, has_ended=True), pytest.fail)
    assert text.startswith(shown)
    assert (text.endswith("[exit 4]"), code) == (True, 4)


def test_keys_are_told_by_name() -> None:
    assert read_keys(":wq<Enter>") == ":wq\r"
    assert read_keys("<Up><C-c><lt>b><b>") == "\x1b[A\x03<b><b>"
