"""Lessons of no world: to say again what stands in a task, or in what a tool said. All others rest on that."""

from random import Random
from typing import Final

from gpu_workers.apprentice.lessons import Lesson, make_call, make_result
from tentalis.core.terminal.scenes import NAMES
from tentalis.core.terminal.shell import DONE, RUN, TOOLS, show_result

_ENDS: Final = ("", "", ".log", ".csv", ".txt", ".sh", "/app", ".py", ".key")
_MOST_WORDS: Final = 8


def draw_lesson(rng: Random) -> Lesson:
    """Words to print, as they are told; half of the time they stand in a list that is shown first."""
    words = [_draw_word(rng) for _ in range(rng.randint(2, _MOST_WORDS))]
    number = rng.randrange(10_000)
    text = " ".join(words)
    said = make_call(RUN, command=f"echo {text}"), make_result(show_result(text, 0)), make_call(DONE)
    if rng.random() < 0.5:
        return Lesson([{"role": "user", "content": f"#{number} Print {text}."}, *said], TOOLS)
    name = rng.choice(NAMES)
    shown = make_call(RUN, command=f"ls {name}"), make_result(show_result("".join(f"{word}\n" for word in words), 0))
    return Lesson([{"role": "user", "content": f"#{number} Print what is in {name}."}, *shown, *said], TOOLS)


def _draw_word(rng: Random) -> str:
    place = f"{rng.choice(NAMES)}/" if rng.random() < 0.3 else ""
    return f"{place}{rng.choice(NAMES)}{rng.choice(_ENDS)}"
