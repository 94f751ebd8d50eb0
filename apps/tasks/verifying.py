"""What is known of an answer to a task without asking anybody: found out once, and read where it is stored."""

from apps.checks.graders import Graders
from apps.tasks.models import Attempt, Task
from apps.worlds.verifying import verify_answer
from tentalis.core.worlds import AttemptDraft, Verification


def verify_draft(task: Task, draft: AttemptDraft, graders: Graders | None = None) -> Verification | None:
    """Of a new answer: one whose scores are not stored yet, or that is nobody's attempt. None: there is nothing to know
    it by. See `verify_answer`."""
    return verify_answer(
        environment=task.environment,
        prompt=task.prompt,
        reference=task.reference,
        checks=task.checks,
        draft=draft,
        graders=graders,
    )


def read_verification(attempt: Attempt) -> Verification | None:
    """What was found out when the attempt was scored. Of attempts scored before that was kept, the outcome alone."""
    if attempt.verification is not None:
        return Verification.from_json(attempt.verification)
    return None if attempt.outcome is None else Verification(outcome=attempt.outcome)
