"""Answers to the questions of reasoning-gym, by the generator that made them."""

from collections.abc import Mapping
from typing import Any, Final

from apps.evals.reasoning import find_answer, score
from tentalis.core.grading import Grade, GradedTask, Grader, decide_grade
from tentalis.core.scoring.protocol import AttemptContext

_PARTS: Final = {"generator", "settings", "answer", "metadata"}


def check_reasoning(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    if not isinstance(reference, Mapping) or reference.keys() != _PARTS:
        raise ValueError(f"reference: wanted {', '.join(sorted(_PARTS))}, found {reference!r:.120}")
    if not isinstance(reference["generator"], str) or not reference["generator"].isidentifier():
        raise ValueError(f"generator: wanted its name, found {reference['generator']!r:.80}")
    if reference["generator"] == "game_of_life_halting":
        raise ValueError("generator: game_of_life_halting takes any answer for right, and is left out")
    for name in ("settings", "metadata"):
        if not isinstance(reference[name], Mapping):
            raise ValueError(f"{name}: wanted an object, found {reference[name]!r:.80}")
    if reference["answer"] is not None and not isinstance(reference["answer"], str):
        raise ValueError(f"answer: wanted a text, or none, found {reference['answer']!r:.80}")


def grade_reasoning(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the generator finds the answer wholly right: in its last answer tag, or all of it without one."""
    reference = task.reference
    entry = {"question": task.prompt, "answer": reference["answer"], "metadata": reference["metadata"]}
    answer = find_answer(episode.answer or "")
    return decide_grade(correct=score(reference["generator"], answer, entry, reference["settings"]))


GRADERS: Final = (
    Grader(
        name="reasoning_gym",
        version="2",
        about="Right where the generator of reasoning-gym that made the question says so.",
        grade=grade_reasoning,
        check=check_reasoning,
    ),
)
