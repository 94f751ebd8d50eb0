"""A shell that is none: it knows the commands of a task's ways alone, and is quick. For makers of models."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tentalis.core.terminal.tasks import Task

_UNKNOWN: Final = 127


@dataclass
class PretendShell:
    """What a task's shell would say to what the task's ways consist of."""

    task: Task
    ran: list[str] = field(default_factory=list)

    def run(self, command: str) -> tuple[str, int]:
        """Output and exit code."""
        for known, output in self._known:
            if command == known:
                self.ran.append(command)
                return output, 0
        self.ran.append(command)
        return "", _UNKNOWN

    @property
    def is_done(self) -> bool:
        """Whether what changes something is what the house does, and nothing else."""
        looks = {command for command, _ in self.task.scene.looks}
        return [one for one in self.ran if one not in looks] == [command for command, _ in self.task.house.commands]

    @property
    def _known(self) -> Sequence[tuple[str, str]]:
        return [*self.task.scene.looks, *(one for way in self.task.scene.ways.values() for one in way.commands)]
