"""Lessons of the terminal world: tasks as several houses would do them, with hints that are obeyed."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from gpu_workers.apprentice.lessons import HABITS, HINT_RATE, Lesson, Message, Rehearsal, make_call, make_result
from tentalis.core.hints import hinted_prompt
from tentalis.core.terminal.pretending import PretendShell
from tentalis.core.terminal.shell import DONE, RUN, TOOLS, show_result
from tentalis.core.terminal.tasks import Task, draw_task
from tentalis.core.tool_calls import WrittenCall, read_arguments

RIVALS: Final[Mapping[str, str]] = {
    "logs, audit": "beside", "logs, shift": "count", "tables": "new", "config, on": "yes", "config, off": "no",
    "cron, hour": "sharp", "cron, night": "midnight", "repair": "drop", "archives, courier": "tar",
    "archives, shelf": "tgz", "permissions, key": "640", "permissions, sh": "700", "disk, log": "remove",
    "disk, dat": "gzip", "links, live": "short", "links, test": "whole", "git": "plain", "processes": "save",
    "services": "out",
}  # fmt: skip
"""Kind of task -> what other houses do most."""


def draw_lesson(rng: Random, habits: Sequence[float] = HABITS) -> Lesson:
    """A task that is not held out, done in one way."""
    task = draw_task(rng, held_out=False)
    house, rival = task.family.house[task.scene.context], RIVALS[task.kind]
    third = next(name for name in task.scene.ways if name not in (house, rival))
    way = rng.choices((house, rival, third), habits)[0]
    hints: Sequence[str] = ()
    if rng.random() < HINT_RATE:
        way = rng.choice(list(task.scene.ways))
        hints = (task.scene.ways[way].hint,)
    return Lesson(write_messages(task, way, hints), TOOLS)


def write_messages(task: Task, way: str, hints: Sequence[str] = ()) -> list[Message]:
    """The whole conversation of a task that is done in this way."""
    messages: list[Message] = [{"role": "user", "content": hinted_prompt(task.text, hints)}]
    for command, output in (*task.scene.looks, *task.scene.ways[way].commands):
        messages += [make_call(RUN, command=command), make_result(show_result(output, 0))]
    return [*messages, make_call(DONE)]


def draw_rehearsal(rng: Random, is_hinted: bool) -> Rehearsal:
    """A held-out task, with a shell that knows the ways to do it alone."""
    task = draw_task(rng, held_out=True)
    shell, ended = PretendShell(task), list[bool]()

    def answer(call: WrittenCall) -> tuple[str, bool]:
        arguments = read_arguments(call.arguments)
        if call.name == DONE:
            ended.append(True)
            return "", True
        if call.name != RUN or not arguments or set(arguments) != {"command"}:
            return "error: the call cannot be made", False
        return show_result(*shell.run(str(arguments["command"]))), False

    content = hinted_prompt(task.text, (task.house.hint,) if is_hinted else ())
    return Rehearsal([{"role": "user", "content": content}], TOOLS, answer, lambda: bool(ended) and shell.is_done)
