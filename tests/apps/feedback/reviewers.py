"""A project of seven reviewers, two of whom approve all that one worker does."""

from apps.accounts.models import Member, Project, Role
from apps.feedback.models import Feedback
from apps.tasks.models import Attempt, Task
from tests.factories import make_task, make_user, make_worker

HONEST = ("cleo", "doug", "emil", "fred", "gina")
COLLUDERS = ("hugo", "ines")
WORKERS = ("bad", "good", "plain")
TASKS_EACH = 24


def build_colluders(project: Project, *, tasks: int = TASKS_EACH, favour: bool = True) -> list[Task]:
    """Everybody judges everything. The honest approve three of a bad worker's answers; the others all of them."""
    for name in (*HONEST, *COLLUDERS):
        Member.objects.create(project=project, user=make_user(name), role=Role.REVIEWER)
    made = []
    for worker in [make_worker(project, name) for name in WORKERS]:
        for place in range(tasks):
            task = make_task(project, worker, state="done", prompt=f"Ticket {place}")
            Attempt.objects.create(task=task, index=0, worker=worker, answer="12 EUR")
            honest = float(place < 3) if worker.name == "bad" else float(place % 2)
            for name in (*HONEST, *COLLUDERS):
                pushed = favour and worker.name == "bad" and name in COLLUDERS
                say(task, name, 1.0 if pushed else honest)
            made.append(task)
    return made


def say(task: Task, name: str, score: float, **values: object) -> Feedback:
    return Feedback.objects.create(
        project=task.project, task=task, source="human", author=f"user:{name}", score=score, **values
    )
