"""What calls of an episode were done on, as pages show it: a screenshot, and where in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import prefetch_related_objects
from django.utils.translation import gettext as _

from apps.tasks.models import Attempt, Task
from apps.tasks.observations import find_observed
from apps.worlds.registry import find_world


@dataclass(frozen=True)
class Screenshot:
    """Args:
    index: of its attempt.
    mark: (x, y) of the call in it, in pixels; None where it was done at no place.
    is_kept: its file is still there.
    """

    task_id: int
    index: int
    sha256: str
    width: int
    height: int
    mark: tuple[float, float] | None
    is_kept: bool

    @property
    def words(self) -> str:
        if self.mark is None:
            return _("The page at this call")
        at = {"x": round(self.mark[0]), "y": round(self.mark[1])}
        return _("The page at this call, which was done at %(x)s, %(y)s") % at


def find_screenshots(task: Task, attempts: Sequence[Attempt]) -> dict[int, Screenshot]:
    """Of calls among these attempts' steps, by the step's primary key; in one query at most."""
    if not find_world(task.environment).has_turns:
        return {}
    prefetch_related_objects(attempts, "turns")
    found = {}
    for attempt in attempts:
        steps = sorted((step for step in attempt.steps.all() if step.kind == "call"), key=lambda one: one.index)
        told = [seen for turn in attempt.turns.all() for _call, seen in turn.told]
        for step, seen in zip(steps, told, strict=False):
            if seen and (screenshot := seen.get("screenshot")):
                found[step.pk] = _read(task, attempt, screenshot, seen.get("details"))
    return found


def find_file(attempt: Attempt, sha256: str) -> bytes | None:
    """A screenshot's PNG; None where the attempt has no such one, or it was deleted."""
    seen = [one for turn in attempt.turns.only("observations") for one in turn.observations or ()]
    if not any(one.get("screenshot", {}).get("sha256") == sha256 for one in seen):
        return None
    path = find_observed(attempt.pk, sha256)
    return path.read_bytes() if path else None


def _read(task: Task, attempt: Attempt, told: Mapping[str, Any], details: Any) -> Screenshot:
    width, height = told["width"], told["height"]
    return Screenshot(
        task_id=task.pk,
        index=attempt.index,
        sha256=told["sha256"],
        width=width,
        height=height,
        mark=_read_mark(details, width, height),
        is_kept=find_observed(attempt.pk, told["sha256"]) is not None,
    )


def _read_mark(details: Any, width: int, height: int) -> tuple[float, float] | None:
    """A world says where, and may say anything: what is no place in the screenshot is none."""
    mark = details.get("mark") if isinstance(details, dict) else None
    if not isinstance(mark, list) or len(mark) != 2 or not all(type(one) in {int, float} for one in mark):
        return None
    return (mark[0], mark[1]) if 0 <= mark[0] <= width and 0 <= mark[1] <= height else None
