"""Is a task done as the house wants it, and is everything else as it was?"""

from collections.abc import Sequence
from dataclasses import dataclass

from tentalis.core.terminal.tasks import Task
from tentalis.core.terminal.trees import Tree


@dataclass(frozen=True)
class Judgement:
    """What was found.

    Args:
        wanted: each path or program that something is wanted of, and what is otherwise; "" where it is so.
        strays: other paths that were changed.
    """

    wanted: Sequence[tuple[str, str]]
    strays: Sequence[str]

    @property
    def is_right(self) -> bool:
        return not self.strays and not any(words for _, words in self.wanted)

    def find_wanted(self, path: str) -> str:
        """What is wanted that the path belongs to; the path itself where it belongs to nothing."""
        return next((wanted for wanted, _ in self.wanted if path.startswith(f"{wanted}/")), path)

    def find_stray(self, path: str) -> str:
        return f"{path}: changed, and nobody asked for that" if path in self.strays else ""

    def as_restless(self, before: "Judgement") -> "Judgement":
        """What another look just before found otherwise is as wrong as what was not right in both."""
        told = dict(before.wanted)
        wanted = [
            (path, words if words == told[path] else f"{path}: wanted it at rest, and it still changes")
            for path, words in self.wanted
        ]
        return Judgement(wanted, sorted({*self.strays, *before.strays}))


def judge(task: Task, before: Tree, now: Tree, programs: Sequence[str], strays: Sequence[str] = ()) -> Judgement:
    """Hold what is left against the house's way.

    Args:
        before: what lay in its home when everything was set up.
        programs: command lines of what runs.
        strays: paths outside its home that were changed.
    """
    scene, wants = task.scene, task.house.wants
    wanted = [(path, want.find_fault(now, path)) for path, want in wants.items()]
    wanted += [
        (piece, f"{piece}: wanted it ended, and it runs" if any(piece in line for line in programs) else "")
        for piece in scene.ends
    ]
    wanted += [
        (piece, "" if any(piece in line for line in programs) else f"{piece}: wanted it to run, and it does not")
        for piece in scene.keeps
    ]
    changed = [path for path in sorted({*before, *now}) if before.get(path) != now.get(path)]
    inside = [path for path in changed if path not in wants and not path.startswith(tuple(scene.may_change))]
    return Judgement(wanted, [*inside, *(f"/{path}" for path in strays)])
