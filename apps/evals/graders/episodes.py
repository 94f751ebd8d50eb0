"""What a world found of an episode, as a grade."""

from collections.abc import Mapping
from typing import Any, Final

from tentalis.core.graders.reading import is_number, read_least
from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError
from tentalis.core.scoring.protocol import AttemptContext


def check_episode(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    if reference is not None:
        raise ValueError(f"reference: wanted none, for the world knows what is right, found {reference!r:.80}")
    if not isinstance(options.get("fact", "outcome"), str) or not options.get("fact", "outcome").strip():
        raise ValueError(f"fact: wanted the name of one, found {options['fact']!r:.80}")
    read_least(options)


def grade_episode(task: GradedTask, episode: AttemptContext) -> Grade:
    """The world's outcome, or another of the facts it found, in [0, 1]."""
    name = task.options.get("fact", "outcome")
    value: Any = episode.facts.get(name)
    if isinstance(value, bool):
        value = float(value)
    if not is_number(value):
        unverified = episode.facts.get("unverified")
        raise UngradedError(
            str(unverified) if unverified else f"{name}: wanted a number that the world found, found none"
        )
    if not 0 <= value <= 1:
        raise UngradedError(f"{name}: wanted a number from 0 to 1, found {value:g}")
    return Grade(value=float(value), correct=value >= read_least(task.options))


GRADERS: Final = (
    Grader(
        name="episode",
        version="1",
        about="What the world found of the episode.",
        grade=grade_episode,
        check=check_episode,
        wants_reference=False,
        options={
            "fact": "which of the world's facts; its outcome where this is not given",
            "least": "right from there on; 1",
        },
    ),
)
