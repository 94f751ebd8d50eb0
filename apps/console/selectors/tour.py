"""The first five minutes: four steps from a task to what its review changed, as far as somebody has come."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Subquery
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, User
from apps.feedback.models import Feedback, Review
from apps.tasks.models import Task
from apps.workers.models import Worker


@dataclass(frozen=True)
class TourStep:
    """One step. `page` is the name of the path that leads there; `args` what it takes beside the project."""

    title: str | Promise
    about: str | Promise
    page: str
    args: tuple[int, ...]
    is_done: bool


@dataclass(frozen=True)
class Tour:
    steps: tuple[TourStep, ...]

    @property
    def done_count(self) -> int:
        return sum(step.is_done for step in self.steps)

    @property
    def now(self) -> TourStep | None:
        """The step that is next; None at the end."""
        return next((step for step in self.steps if not step.is_done), None)


_ADD_WORKER = TourStep(
    _("Add a worker"), _("Somebody who does the tasks: a model of yours, your own agent, or the built-in one."),
    "worker-new", (), False,
)  # fmt: skip


def find_tour(project: Project, user: User) -> Tour:
    """One short read."""
    tasks = Task.objects.filter(project=OuterRef("pk"))
    mine = Feedback.objects.standing().filter(project=OuterRef("pk"), author=user.handle)
    judged = (Task.State.IN_REVIEW, Task.State.LEARNING, Task.State.DONE)
    worked_task = tasks.filter(state__in=judged).order_by("-id").values("pk")[:1]
    task_id, worked_id, waits, has_worker, said, learned = (
        Project.objects.filter(pk=project.pk)
        .values_list(
            Subquery(tasks.order_by("-id").values("pk")[:1]),
            Subquery(worked_task),
            Exists(Review.objects.filter(project=OuterRef("pk"), state=Review.State.OPEN)),
            Exists(Worker.objects.filter(project=OuterRef("pk"), is_active=True)),
            Exists(mine),
            Exists(mine.filter(task__rollouts__training_use__isnull=False)),
        )
        .get()
    )
    is_ai = bool(worked_id) and not waits
    first = () if has_worker or task_id else (_ADD_WORKER,)
    return Tour(
        (
            *first,
            TourStep(
                _("Submit a task"),
                _("Give the worker something to do, such as a ticket of the desk. It takes a minute."),
                "task-new", (), task_id is not None,
            ),
            TourStep(
                _("See it worked"),
                _("Its page follows the attempts, step by step, while they are made and scored."),
                "task" if task_id else "task-list", (task_id,) if task_id else (), worked_id is not None,
            ),
            TourStep(
                _("Review it"),
                _("Say which steps are right and what should be learned. Press ? there to see its keys.")
                if not is_ai
                else _("An AI manager reviews here, so nothing waits for you. Your word on a task counts too."),
                "task-feedback" if is_ai else "review-list", (worked_id,) if is_ai else (), said,
            ),
            TourStep(
                _("See what it changed"),
                _("When enough is judged a run starts, and your words are in what the worker does next."),
                "run-list", (), learned,
            ),
        )
    )  # fmt: skip
