"""Made-up tasks in made-up repositories: a line of text stands for all of one.

A repository is one module with a mistake in one of its functions, tests that show it, and nothing else. What decides
are tests that nobody is shown: they hold this house's way to mend it, and that all else still works.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Final

from tentalis.core.swe.mistakes import MISTAKES, PARAMETERS, Arguments, Mistake, Way
from tentalis.core.swe.modules import FILE_NAMES, HELD_OUT, MODULES, Function
from tentalis.core.swe.patches import Files, write_patch
from tentalis.core.swe.repo_tasks import Case, RepoTask

NUMBERS: Final = 10_000
"""A task's number tells two of a module apart, and decides what its module looks like."""
TIMEOUT_S: Final = 10.0
_AROUND: Final = 3
_TEXT: Final = re.compile(
    r"#(?P<number>0|[1-9][0-9]{0,3}) In (?P<module>[a-z]+)\.py (?P<symptom>[a-z_]+\(\) [a-z ]+\.)"
)


class MiniRepoError(ValueError):
    """No task of these; the message says what was wanted and found."""


@dataclass(frozen=True)
class MiniRepo:
    """One task.

    Args:
        text: all that an agent is told, and all that there is to it.
        module: the file's name, which says nothing; template: of `MODULES`, what the module is made from.
        mistake: what is wrong in it.
        function: that it is in; line: number of the line to be mended, from 1.
        lines: the module's, with the mistake; fixes: way -> that line as it should be.
        shown: expressions that are true of a module that is mended in any way: the tests that everybody sees.
    """

    text: str
    module: str
    template: str
    mistake: Mistake
    function: str
    line: int
    lines: Sequence[str]
    fixes: Mapping[str, str]
    shown: Sequence[str]
    cases: Sequence[Case]
    fail_to_pass: Sequence[str]

    @property
    def path(self) -> str:
        return f"{self.module}.py"

    @property
    def house(self) -> Way:
        return self.mistake.house

    @property
    def is_held_out(self) -> bool:
        return self.template in HELD_OUT

    def mend(self, way: str) -> str:
        """The module's text, mended in one way."""
        lines = [*self.lines]
        lines[self.line - 1] = self.fixes[way]
        return "\n".join(lines) + "\n"

    @property
    def files(self) -> Files:
        source = "\n".join(self.lines) + "\n"
        return {self.path: source.encode(), self.test_path: self.tests.encode()}

    @property
    def test_path(self) -> str:
        return f"tests/test_{self.module}.py"

    @property
    def tests(self) -> str:
        """What everybody sees."""
        checks = [
            f"    def test_{number}(self):\n        self.assertTrue({self.module}.{one})\n"
            for number, one in enumerate(self.shown, 1)
        ]
        name = f"{self.module.title()}Test"
        return f"import unittest\n\nimport {self.module}\n\n\nclass {name}(unittest.TestCase):\n" + "\n".join(checks)

    def as_repo_task(self) -> RepoTask:
        """Its hidden tests decide; the gold patch is the house's way."""
        held = {self.path: self.mend(next(iter(self.mistake.ways))).encode()}
        return RepoTask(
            name=f"{self.module}-{self.mistake.name}-{self.text[1:].split(' ')[0]}",
            issue=self.text,
            gold_patch=write_patch(self.files, held),
            fail_to_pass=self.fail_to_pass,
            pass_to_pass=[one.id for one in self.cases if one.id not in set(self.fail_to_pass)],
            parser="cases",
            cases=self.cases,
            timeout_s=TIMEOUT_S,
        )

    def as_shown_task(self) -> RepoTask:
        """The tests that everybody sees."""
        name = f"tests.test_{self.module}.{self.module.title()}Test"
        tests = [f"{name}.test_{number}" for number in range(1, len(self.shown) + 1)]
        return RepoTask(
            name=f"{self.module}-shown", issue=self.text, fail_to_pass=tests, parser="unittest", timeout_s=TIMEOUT_S
        )  # fmt: skip


def draw_task(rng: Random, *, held_out: bool, mistakes: Sequence[str] = ()) -> MiniRepo:
    """One at random, of these mistakes or of any."""
    while True:
        task = make_task(rng.choice(FILE_NAMES), rng.randrange(NUMBERS))
        if task.is_held_out == held_out and (not mistakes or task.mistake.name in mistakes):
            return task


@lru_cache(maxsize=512)
def read_task(text: str) -> MiniRepo:
    """The task that a text stands for: always the same.

    Raises:
        MiniRepoError: it is none.
    """
    found = _TEXT.fullmatch(text.strip())
    if found and found["module"] in FILE_NAMES:
        task = make_task(found["module"], int(found["number"]))
        if task.text == text.strip():
            return task
        raise MiniRepoError(f"wanted {task.text!r}, found {text.strip()[:200]!r}")
    raise MiniRepoError(f"wanted a task like {write_example()!r}, found {text[:200]!r}")


def is_held_out(text: str) -> bool:
    """Whether a task is only ever measured on: by what its module is made from. Raises MiniRepoError for none."""
    return read_task(text).is_held_out


def write_example() -> str:
    return make_task("depot", 416).text


@lru_cache(maxsize=512)
def make_task(module: str, number: int) -> MiniRepo:
    """The task in a file of this name with this number."""
    rng = Random(f"swe:{module}:{number}")
    template = rng.choice(list(MODULES))
    about = MODULES[template]
    mistake = MISTAKES[rng.choice(list(MISTAKES))]
    name = mistake.form.format(item=about.item, items=about.items)
    parameters = _draw_parameters(mistake, rng)
    places = dict(zip("ab", parameters, strict=False))
    head = f"def {name}({', '.join(parameters)}):"
    functions = [*rng.sample(list(about.functions), _AROUND), Function(head, ())]
    rng.shuffle(functions)
    lines: list[str] = []
    line = 0
    for one in functions:
        lines += ["", *one.source.split("\n")] if lines else one.source.split("\n")
        if one.source == head:
            lines.append(f"    return {_write(mistake.broken, places)}")
            line = len(lines)
    fixes = {way: f"    return {_write(held.code, places)}" for way, held in mistake.ways.items()}
    symptom = rng.choice(list(mistake.symptoms)).format(f=name)
    task = MiniRepo(
        text=f"#{number} In {module}.py {symptom}", module=module, template=template, mistake=mistake,
        function=name, line=line, lines=lines, fixes=fixes, shown=[one.format(f=name) for one in mistake.shows],
        cases=(), fail_to_pass=(),
    )  # fmt: skip
    return _add_cases(task, functions, mistake.draw(rng))


def _write(code: str, places: Mapping[str, str]) -> str:
    for name, word in places.items():
        code = code.replace(f"{{{name}}}", word)
    return code


def _draw_parameters(mistake: Mistake, rng: Random) -> list[str]:
    drawn: list[str] = []
    for kind in mistake.parameters:
        drawn.append(rng.choice([name for name in PARAMETERS[kind] if name not in drawn]))
    return drawn


def _add_cases(task: MiniRepo, functions: Sequence[Function], drawn: Sequence[Arguments]) -> MiniRepo:
    """With its hidden tests: what the house's module gives, for every function in it."""
    calls = [f"{task.function}({', '.join(map(repr, arguments))})" for arguments in drawn]
    own = [f"{one.name}{call}" for one in functions for call in one.calls]
    house, broken = _run(task.mend(next(iter(task.mistake.ways)))), _run("\n".join(task.lines))
    cases, failing = [], []
    for number, call in enumerate([*calls, *own], 1):
        wanted = _evaluate(call, house)
        cases.append(Case(id=f"case-{number}", code=f"import {task.module}\n{task.module}.{call}", wanted=wanted))
        if _evaluate(call, broken) != wanted:
            failing.append(f"case-{number}")
    return MiniRepo(**{**vars(task), "cases": cases, "fail_to_pass": failing})


def _run(source: str) -> dict[str, Any]:
    """Names of a module of ours: nobody else's text is in it."""
    names: dict[str, Any] = {}
    exec(compile(source, "<mini repository>", "exec"), names)  # noqa: S102
    return names


def _evaluate(call: str, names: Mapping[str, Any]) -> str:
    try:
        return repr(eval(call, dict(names)))  # noqa: S307
    except Exception as error:  # noqa: BLE001 - what it raises is what it comes to
        return f"raised {type(error).__name__}"


# --- hints -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def list_hints() -> tuple[str, ...]:
    """Every hint there is, the longest first."""
    found = {way.hint for one in MISTAKES.values() for way in one.ways.values()}
    return tuple(sorted(found, key=lambda hint: (-len(hint), hint)))


def find_hints(text: str) -> tuple[str, ...]:
    """The hints in a manager's words, in order, each once; () when there is none."""
    pattern = "|".join(map(re.escape, list_hints()))
    return tuple(dict.fromkeys(re.findall(rf"(?<!\w)(?:{pattern})(?!\w)", text)))
