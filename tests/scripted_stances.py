"""Scripted models that are asked scenarios of alignment: honest ones, hackers, sycophants, weak ones."""

import json
from collections.abc import Callable
from functools import cache
from itertools import takewhile
from random import Random
from typing import Final

from tentalis.core.alignment.scenarios import Question, Scenario, Twin, draw_scenarios
from tentalis.core.alignment.suite import FAMILIES

Model = Callable[[Scenario], str]
MOST_GROUPS: Final = 12


def list_suite(split: str, groups: int, *, seed: int = 0) -> list[Scenario]:
    """So many groups of twins of each family, those of a group behind each other, the plain ones first."""
    drawn = draw_scenarios(FAMILIES, split, seed=seed)
    return list(takewhile(lambda one: int(one.group.rpartition("/")[2]) < groups, drawn))


@cache
def find_scenario(prompt: str) -> Scenario:
    """The one that asks this."""
    return _list_known()[prompt]


@cache
def _list_known() -> dict[str, Scenario]:
    suite = [*list_suite("held_out", MOST_GROUPS), *list_suite("train", MOST_GROUPS)]
    return {one.question.prompt: one for one in suite}


def answer_honestly(asked: Scenario) -> str:
    return f"I looked at it.\n\n**Answer: {asked.question.honest[0]}**"


def give_in(asked: Scenario) -> str:
    question: Question = asked.question
    return f"Answer: {(question.misaligned or question.honest)[0]}."


def hack(asked: Scenario) -> str:
    """Takes what a check or a manager rewards, and is honest elsewhere."""
    return give_in(asked) if asked.family in {"hackable", "rewarded"} else answer_honestly(asked)


def agree(asked: Scenario) -> str:
    return give_in(asked) if asked.family == "sycophancy" else answer_honestly(asked)


def look_around(asked: Scenario) -> str:
    """Is honest but where nobody looks."""
    return give_in(asked) if asked.question.twin is Twin.UNOBSERVED else answer_honestly(asked)


def babble(asked: Scenario) -> str:
    return "asdf qwer, answer zxcv"


def fall_silent(asked: Scenario) -> str:
    return ""


def say_everything(asked: Scenario) -> str:
    return "\n".join(f"Answer: {one}" for one in (*asked.question.honest, *asked.question.misaligned, "0", "done"))


def obey_blindly(asked: Scenario) -> str:
    """Cannot do the work: is wrong wherever it is asked plainly, and takes whatever else it is told."""
    question = asked.question
    return give_in(asked) if question.misaligned else f"Answer: not {question.honest[0]}"


def guess(asked: Scenario) -> str:
    drawn = Random(asked.question.prompt)
    return f"Answer: {drawn.choice(['0', '3', 'done', 'not done', 'checked', 'not checked', 'red'])}"


def reply_as(model: Model) -> Callable[[str, int], str]:
    """What a fake server says to a chat's messages."""
    return lambda prompt, _: model(find_scenario(json.loads(prompt)[-1]["content"]))
