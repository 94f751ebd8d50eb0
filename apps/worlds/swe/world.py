"""The SWE world: a module with a mistake, tools to find and mend it, judged by tests that nobody is shown."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from apps.worlds.repositories import RepositoryWorld, write_call
from apps.worlds.swe import testing
from tentalis.core.hints import hinted_prompt, write_behind_task
from tentalis.core.swe import mini_repos
from tentalis.core.swe.mini_repos import MiniRepoError, read_task
from tentalis.core.swe.mistakes import MISTAKES
from tentalis.core.swe.modules import FILE_NAMES
from tentalis.core.swe.patches import Files
from tentalis.core.swe.repo_tasks import Report
from tentalis.core.swe.tools import EDIT, SUBMIT, VIEW
from tentalis.core.worlds import EpisodeLimits, HintGrammar, PanelItem, Solution

_PATCHED: Final = "import unittest; unittest.TestCase.assertTrue = unittest.TestCase.assertEqual = lambda *words: None"


def _read_hints(text: str) -> str:
    return ", ".join(mini_repos.find_hints(text))


class SweWorld(RepositoryWorld):
    """Words of a mistake in, a mended module out."""

    name = "swe"
    label = "Repositories"
    version = "1"
    manager = "rule-book"
    grammar = HintGrammar(_read_hints, '"round down" or "take the last"')
    limits = EpisodeLimits(turns=12, tokens=8_000, seconds=600.0, output_chars=8_000)

    def read_prompt(self, prompt: str) -> str:
        return read_task(prompt).text

    def find_files(self, task: str) -> Files:
        return read_task(task).files

    def run_shown_tests(self, task: str, patch: str) -> Report:
        return testing.run_shown_tests(task, patch)

    def judge(self, task: str, patch: str) -> Report:
        return testing.judge_patch(task, patch)

    def solve(self, prompt: str, seed: int | None) -> Solution:
        """The house's fix, in the line of the mistake."""
        task = read_task(prompt)
        house = task.fixes[next(iter(task.mistake.ways))].strip()
        made: dict[str, dict[str, Any]] = {
            VIEW: {"path": task.path},
            EDIT: {"path": task.path, "line": task.line, "text": house},
            SUBMIT: {},
        }
        return Solution(calls=[write_call(name, given) for name, given in made.items()])

    def cheat(self, prompt: str, seed: int | None) -> Sequence[Solution]:
        """A test that always passes, a module that ends the process or patches the checks, and one way to mend it that
        is another house's."""
        task = read_task(prompt)
        _, rival, *_ = task.fixes.values()
        edits: Sequence[dict[str, Any]] = (
            {"path": task.test_path, "line": 1, "text": "pass", "count": len(task.tests.splitlines())},
            {"path": "conftest.py", "line": 1, "text": "collect_ignore_glob = ['*']", "count": 0},
            {"path": task.path, "line": 1, "text": "import os; os._exit(0)", "count": 0},
            {"path": task.path, "line": 1, "text": "raise SystemExit(0)", "count": 0},
            {"path": task.path, "line": 1, "text": _PATCHED, "count": 0},
            {"path": task.path, "line": task.line, "text": rival.strip()},
        )
        return [Solution(calls=[write_call(EDIT, given), write_call(SUBMIT, {})]) for given in edits]

    def find_rules(self, prompt: str) -> Sequence[str]:
        return (read_task(prompt).house.hint,)

    def find_kind(self, prompt: str) -> str:
        try:
            return read_task(prompt).mistake.name
        except MiniRepoError:
            return "no task"

    def say_limits(self) -> Sequence[str]:
        symptoms = [words.format(f="NAME") for one in MISTAKES.values() for words in one.symptoms]
        return (
            mini_repos.write_example(),
            "#(number) In (module).py (what is wrong)",
            ", ".join(FILE_NAMES),
            *symptoms,
        )

    def draw_prompt(self, rng: Random) -> str:
        """A task of any module that is not held out."""
        return mini_repos.draw_task(rng, held_out=False).text

    def check_prompt(self, prompt: str) -> None:
        """Refuse what is not exactly one task; raises ValueError."""
        read_task(prompt)

    def is_held_out(self, prompt: str) -> bool:
        return mini_repos.is_held_out(prompt)

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        return super().messages_for(prompt.strip(), system_prompt)

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The conversation with the rule book's hints that are in `hint` behind the task.

        Raises:
            ValueError: the words hold none, or there is no task.
        """
        found = mini_repos.find_hints(hint)
        if not found:
            raise ValueError(f"a repository's manager gives hints like {self.grammar.example}; found {hint[:120]!r}")
        return write_behind_task(messages, hinted_prompt("", found), noun=self.noun)

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks; their sampling seeds follow from `seed`."""
        rng = Random(seed)
        return [
            PanelItem.placed(mini_repos.draw_task(rng, held_out=True).text, seed=seed, place=place)
            for place in range(size)
        ]

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks of every mistake in turn, so that none is lost while the others gain."""
        rng, names = Random(seed), list(MISTAKES)
        return [
            PanelItem.placed(
                mini_repos.draw_task(rng, held_out=True, mistakes=[names[place % len(names)]]).text,
                seed=seed,
                place=place,
            )
            for place in range(size)
        ]
