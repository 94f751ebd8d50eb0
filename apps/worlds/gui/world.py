"""A shop and its office in a browser, as a world with turns: a page is told as text with numbered elements."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from random import Random
from threading import Lock
from typing import Any, ClassVar, Final

from django.conf import settings

from apps.worlds.calls import find_call_fault
from apps.worlds.gui.browser import SCROLL_PX, BrowserHost, Tab, View
from tentalis.core.canon import canonical_json, content_hash
from tentalis.core.gui.shop import Shop
from tentalis.core.gui.site import MOST_TEXT
from tentalis.core.gui.solving import solve_task
from tentalis.core.gui.tasks import FAMILIES, GuiTaskError, Task, draw_task, is_held_out, read_task, settle_task
from tentalis.core.tool_calls import WrittenCall, read_arguments, write_closed_tool
from tentalis.core.worlds import (
    AttemptDraft,
    EpisodeLimits,
    Observation,
    PanelItem,
    Solution,
    ToolCall,
    Verification,
    World,
)
from tentalis.platform.chromium import find_chromium, find_lack

KEYS: Final = ("Enter", "Tab", "Escape", "Backspace")
START_TEXT: Final = (
    "# Start\n[1] link Shop | [2] link Cart | [3] link Coupons\n"
    "[4] link Products | [5] link Orders | [6] link Customers | [7] link Messages | [8] link Exports"
)
"""What the first page of every shop says."""
_ERROR: Final = "error: "
_MOST_TOLD: Final = 8
"""Differences of a shop that a verification tells of."""
_ELEMENT: Final = {"type": "integer", "minimum": 1, "description": "its number on the page"}


TOOLS: Final = (
    write_closed_tool("click", "Click a link, button or checkbox. The page is shown then.", element=_ELEMENT),
    write_closed_tool(
        "type",
        "Write into a textbox, in place of what is there.",
        element=_ELEMENT,
        text={"type": "string", "maxLength": MOST_TEXT},
    ),
    write_closed_tool("select", "Choose an option of a combobox.", element=_ELEMENT, option={"type": "string"}),
    write_closed_tool("scroll", "Scroll the page.", direction={"enum": ["up", "down"]}),
    write_closed_tool(
        "key", "Press a key in the element that was clicked or written into last.", key={"enum": list(KEYS)}
    ),
    write_closed_tool("done", "Say that the task is done."),
)


_PARAMETERS: Final = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


class _BadCallError(Exception):
    """What a model is told of a call that nothing was done of."""


@dataclass(eq=False)
class GuiState:
    """An episode: its page, and what was made of it.

    Attributes:
        view: of the page as it is now.
        before: the elements of the page before, as they were told.
        calls, valid: calls that were made, and those of them that could be done.
        said: key of a call -> what the world said to it.
    """

    tab: Tab
    view: View
    before: list[str] = field(default_factory=list)
    calls: int = 0
    valid: int = 0
    said: dict[str, Observation] = field(default_factory=dict)


class GuiWorld(World):
    """Tasks in a shop's site, done in Chromium, and judged by the shop's database."""

    name = "gui"
    label = "Web shop (GUI)"
    made_of = ("tentalis.core.gui",)
    version = "1"
    profile: ClassVar = {"outcome": 1.0}
    manager = "rule-book"
    limits = EpisodeLimits(turns=30, tokens=6_000, seconds=900.0, output_chars=4_000)
    idempotent = True

    def find_obstacle(self) -> str:
        lack = find_lack(settings.BROWSER)
        return f"lacks {lack}" if lack else ""

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return TOOLS

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        """With the first page, which is the same in every shop."""
        return super().messages_for(f"{prompt.strip()}\n\n{START_TEXT}", system_prompt)

    def reset(self, prompt: str, seed: int | None) -> GuiState:
        tab = _open_host().open_tab(deepcopy(settle_task(read_task(prompt)).before))
        return _reading(tab)

    def act(self, state: GuiState, call: ToolCall, key: str) -> Observation:
        if key in state.said:
            return state.said[key]
        state.calls += 1
        try:
            found = _do_call(state, call)
            state.valid += 1
        except _BadCallError as error:
            found = Observation(text=f"{_ERROR}{error}")
        state.said[key] = found
        return found

    def hash_state(self, state: GuiState) -> str:
        """Of the shop's database, the page and what is written into it."""
        return content_hash([state.tab.shop, state.tab.path, state.view.left])

    def snapshot(self, state: GuiState) -> bytes:
        counts = {"before": state.before, "calls": state.calls, "valid": state.valid}
        return canonical_json({"shop": state.tab.shop, "path": state.tab.path, "left": state.view.left, **counts})

    def restore(self, prompt: str, snapshot: bytes) -> GuiState:
        told = json.loads(snapshot)
        tab = _open_host().open_tab(told["shop"], told["path"])
        state = _reading(tab, left=told["left"])
        state.before, state.calls, state.valid = told["before"], told["calls"], told["valid"]
        return state

    def close(self, state: GuiState) -> None:
        state.tab.close()

    def verify_state(self, prompt: str, reference: Any, state: GuiState, draft: AttemptDraft) -> Verification:
        """By the database alone: it is as the task wants it, and nothing else in it was changed."""
        task = read_task(prompt)
        wrong = _compare(settle_task(task).after, state.tab.shop)
        bad = [step.kind == "call" and step.tool_result.startswith(_ERROR) for step in draft.steps]
        return Verification(
            outcome=float(not wrong),
            step_scores=[0.0 if is_bad else None for is_bad in bad],
            step_reasons=["it could not be done" if is_bad else "only the shop was checked" for is_bad in bad],
            details={
                "actions": state.calls,
                "valid_actions": state.valid,
                "expected_steps": len(solve_task(task)[0]),
                "differences": wrong[:_MOST_TOLD],
            },
        )

    def solve(self, prompt: str, seed: int | None) -> Solution:
        calls = [
            ToolCall(id=str(place), name=call.name, arguments=json.dumps(call.arguments))
            for place, call in enumerate(solve_task(read_task(prompt))[0])
        ]
        return Solution(calls=calls)

    def find_rules(self, prompt: str) -> Sequence[str]:
        return [settle_task(read_task(prompt)).hint]

    def find_kind(self, prompt: str) -> str:
        try:
            return read_task(prompt).family
        except GuiTaskError:
            return "no task"

    def say_limits(self) -> Sequence[str]:
        return [f"Shop NUMBER: {family.form}" for family in FAMILIES.values()]

    def check_prompt(self, prompt: str) -> None:
        settle_task(read_task(prompt))

    def draw_prompt(self, rng: Random) -> str:
        return draw_task(rng, held_out=False).prompt

    def is_held_out(self, prompt: str) -> bool:
        return is_held_out(read_task(prompt))

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        return _draw(size, seed)

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        return _draw(size, seed, in_turn=True)


_OPENING: Final = Lock()


def _open_host() -> BrowserHost:
    """The browser of this process, one for all its threads, also those that ask for it first together."""
    with _OPENING:
        return _make_host()


@cache
def _make_host() -> BrowserHost:
    if why := GuiWorld().find_obstacle():
        raise RuntimeError(f"{GuiWorld.name} {why}")
    return BrowserHost(find_chromium(settings.BROWSER) or "")


def _draw(size: int, seed: int, *, in_turn: bool = False) -> list[PanelItem]:
    rng, names = Random(f"gui panel/{seed}"), list(FAMILIES)
    tasks: list[Task] = [
        draw_task(rng, held_out=True, family=names[place % len(names)] if in_turn else "") for place in range(size)
    ]
    return [PanelItem(prompt=task.prompt, seed=rng.randrange(2**31)) for task in tasks]


def _reading(tab: Tab, *, left: Mapping[str, Any] | None = None) -> GuiState:
    """A tab as an episode's state; whatever goes wrong meanwhile, it is not left open."""
    try:
        if left is not None:
            tab.write(left)
        return GuiState(tab, tab.read())
    except BaseException:
        tab.close()
        raise


# --- calls -----------------------------------------------------------------------------------------------------------


def _do_call(state: GuiState, call: ToolCall) -> Observation:
    told = _read_arguments(call)
    tab, number = state.tab, int(told.get("element", 0))
    element = _find_element(state, call.name, number) if number else {}
    option = _find_option(element, told["option"]) if call.name == "select" else ""
    opens = call.name == "click" and element["role"] in {"link", "button"}
    if call.name == "key" and told["key"] == "Enter":
        opens = _find_entered(state)
    mark = tab.find(number) if number else None
    screenshot = tab.take_screenshot()
    if mark and call.name == "click":
        tab.click(*mark, opens=opens)
    elif call.name == "type":
        tab.fill(number, told["text"])
    elif call.name == "select":
        tab.select(number, option)
    elif call.name == "scroll":
        tab.scroll(SCROLL_PX if told["direction"] == "down" else -SCROLL_PX)
    elif call.name == "key":
        tab.press(told["key"], opens=opens)
    if opens:
        state.before = [f"{one['role']} {one['name']}" for one in state.view.elements]
    state.view = tab.read()
    details = {"mark": list(mark)} if mark else {}
    text = "It is said to be done." if call.name == "done" else state.view.text
    return Observation(text=text, ends=call.name == "done", details=details, screenshot=screenshot)


def _read_arguments(call: ToolCall) -> dict[str, Any]:
    """What a call says, if it kept to its tool's schema."""
    if fault := find_call_fault(WrittenCall(call.name, call.arguments), _PARAMETERS):
        raise _BadCallError(fault)
    return read_arguments(call.arguments) or {}


_WAYS: Final = {"link": "click", "button": "click", "checkbox": "click", "textbox": "type", "combobox": "select"}


def _find_element(state: GuiState, tool: str, number: int) -> Mapping[str, Any]:
    elements = state.view.elements
    if number > len(elements):
        there = f"this page has elements 1 to {len(elements)}"
        if number <= len(state.before):
            raise _BadCallError(f"element {number} was {state.before[number - 1]} of the page before; {there}")
        raise _BadCallError(f"there is no element {number}: {there}")
    one = elements[number - 1]
    if (way := _WAYS[one["role"]]) != tool:
        raise _BadCallError(f"element {number} is the {one['role']} {one['name']}: use {way}")
    return one


def _find_option(element: Mapping[str, Any], told: str) -> str:
    if told not in element["options"]:
        options = ", ".join(element["options"])
        raise _BadCallError(f"{element['name']} has the options {options}; found {told!r:.60}")
    return told


def _find_entered(state: GuiState) -> bool:
    """Whether Enter opens another page, as it does in whatever belongs to a form."""
    role = state.view.elements[state.view.focus]["role"] if state.view.focus >= 0 else ""
    if role == "combobox":
        raise _BadCallError("Enter does nothing in a combobox: use select")
    return bool(role)


def _compare(wanted: Shop, found: Shop) -> list[str]:
    """What is not as it should be, a row each."""
    wrong = []
    for table in wanted:
        if table == "cart":
            rows = {"": (wanted[table], found[table])}
        else:
            by_id = [{row["id"]: row for row in one[table]} for one in (wanted, found)]
            rows = {f" {key}": (by_id[0].get(key), by_id[1].get(key)) for key in sorted({*by_id[0], *by_id[1]})}
        wrong += [f"{table}{key}: {_say(*pair)}" for key, pair in rows.items() if pair[0] != pair[1]]
    return wrong


def _say(wanted: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
    if wanted is None or found is None:
        return "wanted none, found one" if wanted is None else "wanted one, found none"
    names = [name for name in wanted if wanted[name] != found.get(name)]
    return "; ".join(f"{name}: wanted {wanted[name]!r:.80}, found {found.get(name)!r:.80}" for name in names)
