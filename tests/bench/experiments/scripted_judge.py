"""A judge that reads code and never runs it, by rules that it says; and the same one upside down.

It is asked as any model is, in the product's own question, and answers in JSON. What it cannot see is what reading
cannot show it: an index that is off by one, a wrong formula.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.local_server import LocalHandler, LocalServer
from tests.scripted_judges import read_block

READS_FOR: Final = (
    "whether it parses, has the name and parameters that were asked for, gives something back, uses all it is given, "
    "leaves nothing to do, and looks at the cases that the task names"
)
JUDGES: Final[Mapping[str, Callable[[float], float]]] = {
    "reader": lambda score: score,
    "upside-down": lambda score: 1.0 - score,
}
"""By the name of its model."""
_SIGNATURE: Final = re.compile(r"`(\w+)\((.*?)\)`")
_CASES: Final[Mapping[str, tuple[str, ...]]] = {
    "empty": ("if not ", "len(", ".split()", " or ", " if "),
    "ignor": (".lower()", ".casefold()"),
    "white space": (".split()",),
    "negative": ("abs(", "< 0", "%"),
    "raises valueerror": ("raise ValueError",),
    "sorted": ("sorted(", ".sort(", "min("),
    "once": ("set(", "not in", "fromkeys("),
    "any depth": ("isinstance(",),
    "case stays": ("isupper", "'A'"),
    "unequal": ("len(",),
    "-1": ("-1",),
}
"""Words of a task, and the code of which a program that minds them has some."""


def read_code(task: str, answer: str) -> tuple[float, str]:
    """(score in [0, 1], what was missed)."""
    try:
        tree = ast.parse(answer)
    except SyntaxError as error:
        return 0.0, f"it does not parse: {error.msg}"
    asked = _SIGNATURE.search(task)
    name, wanted = (asked[1], [part.strip() for part in asked[2].split(",")]) if asked else ("", [])
    made = next((one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == name), None)
    if made is None:
        return 0.1, f"there is no function {name}"
    returned = [one.value for one in ast.walk(made) if isinstance(one, ast.Return) and one.value is not None]
    if not returned:
        return 0.1, "it gives nothing back"
    used = {one.id for one in ast.walk(made) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    missed = list(_find_unminded(task, answer))
    if [one.arg for one in made.args.args] != wanted:
        missed.append("other parameters than were asked for")
    if unused := set(wanted) - used:
        missed.append(f"{', '.join(sorted(unused))} is never used")
    if "TODO" in answer or "NotImplemented" in answer:
        missed.append("it is not finished")
    if all(isinstance(one, ast.Constant) for one in returned):
        missed.append("it says always the same")
    return max(0.1, 1.0 - 0.25 * len(missed)), "; ".join(missed)


def _find_unminded(task: str, answer: str) -> Iterator[str]:
    for words, signs in _CASES.items():
        if words in task.lower() and not any(sign in answer for sign in signs):
            yield f"the task says {words!r}, and nothing in the code looks at that"


@contextmanager
def run_scripted_judge() -> Iterator[str]:
    """Its address, up to /v1."""

    class Judge(LocalHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.read())
            said = answer_question(asked["messages"][-1]["content"], asked["model"])
            self.answer_chat(json.dumps(said), model=asked["model"])

    with LocalServer(Judge) as server:
        yield f"{server.url}/v1"


def answer_question(question: str, model: str) -> Mapping[str, Any]:
    """A verdict in the form that the question asks for."""
    score, missed = read_code(read_block(question, "TASK"), read_block(question, "ANSWER"))
    score = JUDGES[model](score)
    steps = [{"index": index, "score": score, "reason": ""} for index in range(question.count("<<<STEP "))]
    return {"steps": steps, "overall": score, "reason": missed}
