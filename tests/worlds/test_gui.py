"""The GUI world in a real Chromium: played by the platform's own player, judged by the shop's database alone."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import psutil
import pytest

from apps.worlds.episodes import Episode
from apps.worlds.errors import UnknownEnvironmentError
from apps.worlds.gui import world as gui
from apps.worlds.gui.browser import HEIGHT, WIDTH, WITHIN_S, BrowserHost, BrowserLostError
from apps.worlds.gui.world import START_TEXT, GuiState, GuiWorld
from apps.worlds.playing import play
from apps.worlds.registry import WORLDS, get_world
from apps.worlds.screenshots import read_png_size
from tentalis.core.gui.shop import draw_shop
from tentalis.core.gui.tasks import draw_task
from tentalis.core.scoring.weights import WeightProfile
from tentalis.core.tool_calls import WrittenCall, write_told_call
from tentalis.core.worlds import AttemptDraft, Observation, ToolCall, TurnAsked, TurnDraft, Verification
from tentalis.platform import chromium
from tentalis.platform.chromium import find_chromium
from tentalis.platform.processes import process_identity, wait_until_gone

World = GuiWorld()
REFUND = draw_task(Random(4), held_out=False, family="refund").prompt
pytestmark = pytest.mark.browser


ENDS_WITHIN_S = 30.0
THREADS = 8


@pytest.fixture(scope="module", autouse=True)
def browser() -> Iterator[None]:
    """One for all tests of the module, which leave nothing of it behind."""
    yield
    host = gui._open_host()
    assert not host._tabs
    host.stop()
    started = [one for one in psutil.Process().children(recursive=True) if "chrom" in one.name()]
    assert psutil.wait_procs(started, timeout=ENDS_WITHIN_S)[1] == []


@pytest.fixture
def state() -> Iterator[GuiState]:
    opened = World.reset(REFUND, None)
    yield opened
    World.close(opened)


def act(state: GuiState, name: str, /, *, under: str = "", **arguments: Any) -> Observation:
    call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
    return World.act(state, call, under or str(len(state.said)))


def follow(state: GuiState, *names: str) -> str:
    """Click links and buttons by their names; what the page says then."""
    said = ""
    for name in names:
        elements = state.view.elements
        (number,) = [place for place, one in enumerate(elements, 1) if one["name"] == name]
        said = act(state, "click", element=number).text
    return said


def list_family(pid: int) -> list[str]:
    """A process and those under it, by their identities."""
    parent = psutil.Process(pid)
    return [process_identity(one.pid) for one in [parent, *parent.children(recursive=True)]]


class Script:
    """An agent that makes the calls of each episode's own list, whatever it is told."""

    def __init__(self, calls: dict[str, Sequence[ToolCall]]) -> None:
        self.calls = calls

    def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
        return [self._say(one) for one in asked]

    def _say(self, asked: TurnAsked) -> TurnDraft:
        calls = self.calls[asked.messages[0]["content"]]
        if asked.turn >= len(calls):
            return TurnDraft(draft=AttemptDraft(text="Done.", answer="Done."))
        call = calls[asked.turn]
        told = write_told_call(call.id, WrittenCall(call.name, call.arguments))
        added = [{"role": "assistant", "content": "", "tool_calls": [told]}]
        return TurnDraft(draft=AttemptDraft(text=""), calls=[call], messages=added)


def play_scripts(scripts: dict[str, Sequence[ToolCall]]) -> list[Episode]:
    episodes, calls = [], {}
    for prompt, script in scripts.items():
        opening = World.messages_for(prompt, "")
        calls[opening[0]["content"]] = script
        episodes.append(Episode(key=prompt, prompt=prompt, seed=1, opening=opening))
    play(episodes, world=World, agent=Script(calls), model="none")
    return episodes


def verify(state: GuiState, prompt: str = REFUND) -> Verification:
    return World.verify_state(prompt, None, state, AttemptDraft())


@pytest.mark.django_db
def test_episodes_side_by_side_are_done_in_the_browser_as_the_house_does_them() -> None:
    tasks = [draw_task(Random(9), held_out=True, family=name) for name in ("coupon", "address", "refund")]
    episodes = play_scripts({task.prompt: World.solve(task.prompt, 1).calls for task in tasks})
    for episode in episodes:
        assert episode.lost == ""
        assert episode.verification is not None
        assert episode.verification.outcome == 1.0
        details, turns = episode.verification.details, len(episode.turns)
        assert (details["actions"], details["valid_actions"], details["expected_steps"]) == (turns, turns, turns)
        assert episode.verification.grader.startswith("gui@1+")
        seen = [turn.seen[0] for turn in episode.turns if turn.seen]
        assert {read_png_size(one.screenshot) for one in seen} == {(WIDTH, HEIGHT)}
        x, y = seen[0].details["mark"]  # the link on the first page
        assert 0 < x < WIDTH
        assert 0 < y < HEIGHT


@pytest.mark.django_db
def test_nothing_done_and_more_done_than_was_asked_are_both_worth_nothing() -> None:
    prompt = draw_task(Random(2), held_out=False, family="export").prompt
    right = World.solve(prompt, 1).calls
    idle, more = draw_task(Random(3), held_out=False, family="export").prompt, [*right[:-1], *right[4:]]
    (one, other) = play_scripts({idle: [ToolCall(id="c", name="done")], prompt: more})
    assert one.verification is not None
    assert one.verification.outcome == 0.0
    assert one.verification.details["differences"] == ["exports 1: wanted one, found none"]
    assert other.verification is not None
    assert other.verification.outcome == 0.0
    assert other.verification.details["differences"] == ["exports 2: wanted none, found one"]


def test_a_model_is_told_the_first_page_with_its_task(state: GuiState) -> None:
    assert state.view.text == START_TEXT
    assert World.messages_for(REFUND, "Be brief.")[-1]["content"] == f"{REFUND}\n\n{START_TEXT}"


def test_a_page_is_told_with_what_is_written_into_it_and_what_is_out_of_view(state: GuiState) -> None:
    said = follow(state, "Orders")
    assert said.splitlines()[:3] == [
        "[1] link Start",
        "# Orders",
        "[2] combobox Status: all (all, open, paid, sent, cancelled) | [3] button Filter",
    ]
    said = act(state, "select", element=2, option="paid").text
    assert "[2] combobox Status: paid (all" in said
    said = follow(state, "Filter")
    assert "| sent" not in said
    follow(state, "Start", "Products")
    assert act(state, "scroll", direction="down").text == state.view.text  # all of it is in view
    assert (
        act(state, "type", element=2, text='bowl" <b>').text.splitlines()[2].startswith('[2] textbox Search: bowl" <b>')
    )


def test_what_stands_below_the_view_is_scrolled_to_and_told_then(state: GuiState) -> None:
    state.tab.shop["products"] *= 3  # a page of three screens
    said = follow(state, "Products")
    assert said.endswith("(more below)")
    below = act(state, "scroll", direction="down").text
    assert below.startswith("(more above)")
    assert "# Products" not in below
    scrolled = World.hash_state(state)
    assert act(state, "scroll", direction="up").text == said
    assert World.hash_state(state) != scrolled


def test_keys_go_to_what_was_written_into_last(state: GuiState) -> None:
    follow(state, "Customers")
    name = state.tab.shop["customers"][0]["name"]
    act(state, "type", element=2, text=f"{name}x")
    act(state, "key", key="Backspace")
    said = act(state, "key", key="Enter").text
    assert f"Search: {name} |" in said
    assert said.count("link") == 1 + [row["name"] for row in state.tab.shop["customers"]].count(name)


NOT_AS = "the arguments are not as its schema says"
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("click", {"element": 99}, "there is no element 99: this page has elements 1 to 15"),
    ("click", {"element": 2}, "element 2 is the combobox Status: use select"),
    ("type", {"element": 1, "text": "x"}, "element 1 is the link Start: use click"),
    (
        "select",
        {"element": 2, "option": "lost"},
        "Status has the options all, open, paid, sent, cancelled; found 'lost'",
    ),
    ("click", {"element": True}, f"click: {NOT_AS}: /element: type"),
    ("click", {"element": "2"}, f"click: {NOT_AS}: /element: type"),
    ("click", {"element": 0}, f"click: {NOT_AS}: /element: minimum"),
    ("click", {}, f"click: {NOT_AS}: the whole: required"),
    ("click", {"element": 1, "x": 2}, f"click: {NOT_AS}: the whole: additionalProperties"),
    ("type", {"element": 2, "text": "x" * 301}, f"type: {NOT_AS}: /text: maxLength"),
    ("type", {"element": 2, "text": "x" * 1_000_000}, f"type: {NOT_AS}: /text: maxLength"),
    ("select", {"element": 2, "option": "x" * 1_000_000}, "Status has the options all, open, paid, sent, cancelled"),
    ("type", {"element": 2, "text": None}, f"type: {NOT_AS}: /text: type"),
    ("scroll", {"direction": "left"}, f"scroll: {NOT_AS}: /direction: enum"),
    ("key", {"key": "F12"}, f"key: {NOT_AS}: /key: enum"),
    ("done", {"answer": 1}, f"done: {NOT_AS}: the whole: additionalProperties"),
    ("fly", {}, "there is no tool 'fly'; there are click, done, key, scroll, select, type"),
]


def test_a_call_that_cannot_be_done_changes_nothing_and_is_told_why_and_counted(state: GuiState) -> None:
    follow(state, "Orders")
    left = World.hash_state(state)
    for name, arguments, words in BAD:
        said = act(state, name, **arguments)
        assert said.text.startswith(f"error: {words}")
        assert len(said.text) < 300
        assert (said.ends, said.screenshot) == (False, b"")
        assert World.hash_state(state) == left
    for told in ("[]", "{", "null", "[" * 3_999, '{"element": 1e400}', '{"element": NaN}'):
        said = World.act(state, ToolCall(id="c", name="click", arguments=told), told)
        assert said.text.startswith("error: click: ")
        assert World.hash_state(state) == left
    details = verify(state).details
    assert (details["actions"], details["valid_actions"]) == (1 + len(BAD) + 6, 1)


def test_a_number_of_the_page_before_is_told_to_be_of_that_page(state: GuiState) -> None:
    follow(state, "Orders")
    assert follow(state, "Order 1001").startswith("[1] link Start\n# Order 1001")
    said = act(state, "click", element=15)
    assert said.text == "error: element 15 was link Order 1012 of the page before; this page has elements 1 to 7"


def test_enter_in_a_combobox_is_no_way_to_choose(state: GuiState) -> None:
    follow(state, "Orders")
    act(state, "click", element=1)
    follow(state, "Orders")
    act(state, "key", key="Tab")
    act(state, "key", key="Tab")
    said = act(state, "key", key="Enter")
    assert said.text == "error: Enter does nothing in a combobox: use select"


def test_a_snapshot_is_the_page_again_with_what_was_written_and_the_episode_goes_on_from_it() -> None:
    calls = World.solve(REFUND, None).calls
    state = World.reset(REFUND, None)
    for place, call in enumerate(calls[:-2]):  # all is chosen and written, and not sent
        World.act(state, call, str(place))
    snapshot, left, view = World.snapshot(state), World.hash_state(state), state.view
    World.close(state)
    again = World.restore(REFUND, snapshot)
    try:
        assert World.hash_state(again) == left
        assert again.view == view
        for call in calls[-2:]:
            said = World.act(again, call, "key")
            assert World.act(again, call, "key") is said  # asked again under its key, it is not done again
            again.said.clear()
        found = verify(again)
        assert (found.outcome, found.details["actions"]) == (1.0, len(calls))
    finally:
        World.close(again)


def test_the_same_task_begins_alike_and_each_episode_has_a_shop_of_its_own(state: GuiState) -> None:
    other = World.reset(REFUND, 77)
    try:
        assert World.hash_state(other) == (left := World.hash_state(state))
        follow(other, "Exports", "Export orders")
        assert World.hash_state(state) == left != World.hash_state(other)
        assert state.tab.shop == draw_shop(int(REFUND.split()[1].rstrip(":")))
    finally:
        World.close(other)


def test_a_page_reaches_nothing_but_its_own_shop(state: GuiState) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"http://127.0.0.1:{port}/", "http://example.org/", "file:///etc/hostname"):
            with pytest.raises(
                BrowserLostError,
                match=r"Page\.goto: net::ERR_",
            ):
                state.tab.host.ask(state.tab.page.goto(address))
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.django_db
def test_a_browser_that_dies_costs_an_episode_no_reward_and_the_next_one_has_another(state: GuiState) -> None:
    host = state.tab.host
    first = host.pid
    host.kill(first)
    with pytest.raises(BrowserLostError, match="the browser is gone"):
        for number in range(3):  # it may take a call until its death is known
            act(state, "click", under=str(number), element=1)
    (episode,) = play_scripts({REFUND: World.solve(REFUND, 1).calls})
    assert episode.verification is not None
    assert episode.verification.outcome == 1.0
    assert host.pid not in {None, first}


def test_who_drives_the_browser_dies_and_the_next_episode_has_another(state: GuiState) -> None:
    host = state.tab.host
    above = psutil.Process(host.pid).parents()
    (driver,) = [one for one in psutil.Process().children() if one in above]
    driver.kill()
    driver.wait()
    with pytest.raises(BrowserLostError, match="the browser is gone"):
        act(state, "click", element=1)
    World.close(World.reset(REFUND, None))


def test_a_browser_that_hangs_is_ended_and_its_episode_is_lost(state: GuiState) -> None:
    host = state.tab.host
    hanging = host.pid
    assert hanging is not None
    os.kill(hanging, signal.SIGSTOP)
    host.within_s = 0.5
    try:
        with pytest.raises(BrowserLostError, match=r"did not answer within 0\.5 s"):
            act(state, "click", element=1)
    finally:
        host.within_s = WITHIN_S
    World.close(World.reset(REFUND, None))
    assert host.pid not in {None, hanging}


class KillingScript(Script):
    """Kills the browser in the second turn."""

    def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
        if asked[0].turn == 1:
            host = gui._open_host()
            host.kill(host.pid)
        return super().take_turns(asked)


@pytest.mark.django_db
def test_an_episode_whose_browser_is_killed_is_lost_and_neither_right_nor_wrong() -> None:
    opening = World.messages_for(REFUND, "")
    episode = Episode(key="k", prompt=REFUND, seed=1, opening=opening)
    agent = KillingScript({opening[0]["content"]: World.solve(REFUND, 1).calls})
    play([episode], world=World, agent=agent, model="none")
    assert episode.lost.startswith("BrowserLostError: the browser is gone")
    assert episode.verification is None


def test_a_browser_that_nobody_uses_ends_and_knows_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENTALIS_SECRET_KEY", "not-for-browsers")
    host = BrowserHost(find_chromium() or "", idle_s=0.0)
    try:
        tab = host.open_tab(draw_shop(1))
        pid = host.pid
        assert pid is not None
        assert b"not-for-browsers" not in Path(f"/proc/{pid}/environ").read_bytes()
        family = list_family(pid)
        assert len(family) > 3
        tab.close()
        assert all(wait_until_gone(one, timeout_s=120) for one in family)
    finally:
        host.stop()


def test_episodes_that_begin_together_share_one_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    gui._open_host().stop()
    gui._make_host.cache_clear()
    together = Barrier(THREADS)

    def look_slowly(place: Any) -> str:
        time.sleep(0.05)
        return str(find_chromium(place))

    def open_host(_: int) -> BrowserHost:
        together.wait(120)
        return gui._open_host()

    monkeypatch.setattr(gui, "find_chromium", look_slowly)
    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(open_host, range(THREADS)))) == 1


ORPHAN = """
import sys, django
from apps.worlds.gui.browser import BrowserHost
from tentalis.core.gui.shop import draw_shop
host = BrowserHost(sys.argv[1])
host.open_tab(draw_shop(1))
print(host.pid, flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_no_browser() -> None:
    argv = [sys.executable, "-c", ORPHAN, find_chromium() or ""]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        browser = process_identity(int(process.stdout.readline()))
        family = list_family(process.pid)
        assert browser in family
        os.kill(process.pid, signal.SIGKILL)
        assert all(wait_until_gone(one, timeout_s=120) for one in family)


def test_where_there_is_no_browser_the_world_is_offered_to_nobody_and_says_why(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "gui" in WORLDS
    settings.BROWSER = tmp_path / "chromium"
    WORLDS.forget()
    try:
        assert "gui" not in WORLDS
        with pytest.raises(UnknownEnvironmentError) as told:
            get_world("gui")
        assert f"environment: gui lacks Chromium: {tmp_path}/chromium is not there" in str(told.value)
        monkeypatch.setattr(chromium, "DRIVER", "no_such_driver")
        assert World.find_obstacle().startswith("lacks the package no_such_driver (pip install 'tentalis[gui]'; in a ")
    finally:
        settings.BROWSER = None
        WORLDS.forget()


def test_what_is_drawn_to_train_on_is_never_held_out_and_the_panel_always_is() -> None:
    rng = Random(5)
    drawn = {World.draw_prompt(rng) for _ in range(100)}
    assert not any(map(World.is_held_out, drawn))
    panel, skills = World.panel(20, 1), World.skills(20, 1)
    assert all(World.is_held_out(one.prompt) for one in [*panel, *skills])
    assert len({World.find_kind(one.prompt) for one in skills}) == 10
    assert panel == World.panel(20, 1) != World.panel(20, 2)
    for one in [*panel, *skills]:
        World.check_prompt(one.prompt)
    assert World.find_rules(REFUND) in (["glass does not go back into stock"], ["it goes back into stock"])
    assert len(World.say_limits()) == 10
    WeightProfile("gui", World.profile)
