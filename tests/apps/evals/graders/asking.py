"""Graders asked as a check asks them."""

from collections.abc import Callable, Mapping
from typing import Any

from apps.checks.graders import open_grader
from tentalis.core.grading import Grade, GradedTask
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.core.steps import ParsedStep


def ask_grader(
    name: str,
    reference: Any,
    answer: str | None,
    *,
    steps: tuple[ParsedStep, ...] = (),
    facts: Mapping[str, Any] | None = None,
    prompt: str = "What is it?",
    ask: Callable[[str], str] | None = None,
    **options: Any,
) -> Grade:
    """What it says of an answer; ValueError where the reference or the options are none."""
    grader = open_grader(name)
    grader.check_given(reference, options)
    context = AttemptContext(
        environment="chat", prompt=prompt, text=answer or "", steps=steps, answer=answer, facts=facts or {}
    )
    return grader.run(GradedTask(prompt=prompt, reference=reference, options=options, ask=ask), context)
