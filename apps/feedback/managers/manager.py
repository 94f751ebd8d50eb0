"""What an AI manager is asked and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from apps.tasks.models import Attempt, Task


@dataclass(frozen=True)
class ManagerScore:
    """A score in [0, 1] (None: none given), words ("": none), and the rubric's items it was made of ({}: of none)."""

    score: float | None
    comment: str = ""
    items: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ManagerWord:
    """A manager's judgement of a task.

    Args:
        score: of the group as a whole, in [0, 1].
        trust: how far it counts, in [0, 1]: 0 for a manager whose word is only audited yet.
        judge: the model whose word it is, as `tell_judge` tells it; {}: no model was asked, or one that is no judge.
        attempts: by attempt id.
        steps: by (attempt id, step id).
    """

    text: str
    score: float | None
    attempts: Mapping[int, ManagerScore] = field(default_factory=dict)
    steps: Mapping[tuple[int, int], ManagerScore] = field(default_factory=dict)
    trust: float = 1.0
    judge: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NoWord:
    """The manager could not judge; nothing is made up for it."""

    reason: str


@dataclass(frozen=True)
class MissingManager:
    """Stands for one that a project's policy names and nobody has installed."""

    name: str

    @property
    def author(self) -> str:
        return f"agent:{self.name}"

    def review(self, task: Task, attempts: list[Attempt]) -> NoWord:
        return NoWord(f"there is no AI manager {self.name!r} here: its package is not installed, or is broken")


class Manager(Protocol):
    """An AI manager. It may ask a model; what it can name goes wrong comes back as NoWord."""

    @property
    def author(self) -> str:
        """Its handle in feedback and audit."""
        ...

    def review(self, task: Task, attempts: list[Attempt]) -> ManagerWord | NoWord:
        """Judge the attempts, whose steps are loaded. Reads and writes no row."""
        ...
