"""Lessons of the workbench: a company's tools called as several houses would call them, with hints that are obeyed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from gpu_workers.apprentice.lessons import HABITS, HINT_RATE, Lesson, Message, Rehearsal, make_call, make_result
from tentalis.core.hints import hinted_prompt
from tentalis.core.tool_calls import WrittenCall
from tentalis.core.workbench import habits as house_habits
from tentalis.core.workbench.company import make_company
from tentalis.core.workbench.episode import CALL, DESCRIBE, FUNCTIONS, SEARCH, act, begin, judge
from tentalis.core.workbench.solving import solve
from tentalis.core.workbench.tasks import HELD_OUT_FAMILIES, Task, make_task
from tentalis.core.workbench.tools import TOOLS, list_found, search_tools

RIVALS: Final[Mapping[tuple[str, str], str]] = {
    ("mail", "post"): "send", ("copy", "owner"): "nobody", ("copy", "office"): "owner", ("close", "resolve"): "close",
    ("pay", "credit"): "cash", ("pay", "cash"): "credit", ("room", "east"): "west", ("room", "west"): "hall",
    ("supplier", "north"): "south", ("supplier", "south"): "web", ("folder", "legal"): "sales",
    ("folder", "sales"): "misc",
}  # fmt: skip
"""(habit, the option this house wants) -> what other houses do most."""
LOOK_UP_RATE: Final = 0.15
"""How often a tool is searched for, and how often it is described, before it is called."""
DONE: Final = " Done."


def draw_lesson(rng: Random, habits: Sequence[float] = HABITS) -> Lesson:
    """A task in words that are not held out, of any family, done in one way.

    The families that are held out are here too, as other houses do them most: what their tools are is known, and not
    what this house wants.
    """
    task = make_task(rng, kept=False)
    choices = {habit: _choose(rng, habit, wanted, habits) for habit, wanted in task.house.items()}
    hinted: list[str] = []
    if rng.random() < HINT_RATE:
        chosen = rng.sample(list(task.house), rng.randint(1, len(task.house)))
        hinted = [habit for habit in task.house if habit in chosen]
        choices |= {habit: rng.choice(house_habits.HABITS[habit].options) for habit in hinted}
    hints = [house_habits.write_hint(choices[habit]) for habit in hinted]
    return Lesson(list(_write_messages(rng, task, choices, hints)), FUNCTIONS)


def _choose(rng: Random, habit: str, wanted: str, habits: Sequence[float]) -> str:
    rival = RIVALS[habit, wanted]
    third = next(one for one in house_habits.HABITS[habit].options if one not in (wanted, rival))
    return rng.choices((wanted, rival, third), habits)[0]


def _write_messages(rng: Random, task: Task, choices: Mapping[str, str], hints: Sequence[str]) -> Iterator[Message]:
    yield {"role": "user", "content": hinted_prompt(task.text, hints)}
    clients, items = filter(None, [task.client]), filter(None, [task.item])
    company = make_company(rng.randrange(2**31), clients=[*clients], items=[*items])
    for planned in solve(task, company, choices).calls:
        namespace = planned.tool.partition(".")[0]
        if rng.random() < LOOK_UP_RATE:
            yield make_call(SEARCH, query=namespace)
            yield make_result(list_found(search_tools(namespace)))
        if rng.random() < LOOK_UP_RATE:
            yield make_call(DESCRIBE, tool=planned.tool)
            yield make_result(TOOLS[planned.tool].describe())
        yield make_call(CALL, tool=planned.tool, args=dict(planned.arguments))
        yield make_result(planned.said)
    yield {"role": "assistant", "content": DONE}


def draw_rehearsal(rng: Random, is_hinted: bool) -> Rehearsal:
    """A task of the families that are held out, at the workbench itself."""
    task = make_task(rng, families=HELD_OUT_FAMILIES, kept=True)
    state = begin(task.text, rng.randrange(2**31))

    def answer(call: WrittenCall) -> tuple[str, bool]:
        return act(state, call.name, call.arguments or json.dumps({})), False

    content = hinted_prompt(task.text, task.hints if is_hinted else ())
    return Rehearsal([{"role": "user", "content": content}], FUNCTIONS, answer, lambda: judge(state).is_done)
