"""The way from a new project to what a review changed: five steps, as far as somebody has come."""

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
    """Args: page: of the step one is at; "" on the dashboard, which shows them all at length."""

    steps: tuple[TourStep, ...]
    page: str = ""

    @property
    def done_count(self) -> int:
        return sum(step.is_done for step in self.steps)

    @property
    def now(self) -> TourStep | None:
        """The step that is next; None at the end."""
        return next((step for step in self.steps if not step.is_done), None)


def find_tour(project: Project, user: User) -> Tour:
    """One short read."""
    tasks = Task.objects.filter(project=OuterRef("pk"))
    reviews = Review.objects.filter(project=OuterRef("pk"))
    mine = Feedback.objects.standing().filter(project=OuterRef("pk"), author=user.handle)
    judged = (Task.State.IN_REVIEW, Task.State.LEARNING, Task.State.DONE)
    worked_task = tasks.filter(state__in=judged).order_by("-id").values("pk")[:1]
    task_id, worked_id, waits, was_reviewed, has_worker, said, learned = (
        Project.objects.filter(pk=project.pk)
        .values_list(
            Subquery(tasks.order_by("-id").values("pk")[:1]),
            Subquery(worked_task),
            Exists(reviews.filter(state=Review.State.OPEN)),
            Exists(reviews),
            Exists(Worker.objects.filter(project=OuterRef("pk"), is_active=True)),
            Exists(mine),
            Exists(mine.filter(task__rollouts__training_use__isnull=False)),
        )
        .get()
    )
    is_free = bool(worked_id) and not waits
    args: tuple[int, ...]
    if task_id is not None and worked_id is None:
        about, page, args = _("The task is at work: a review opens when it was worked."), "task", (task_id,)
    elif is_free:
        about = _("No review waits for you. Your word on a task counts too.")
        page, args = "task-feedback", (worked_id,)
    else:
        about = _("Say which steps are right and what should be learned. Press ? there to see its keys.")
        page, args = "review-list", ()
    return Tour(
        (
            TourStep(
                _("Connect"),
                _("A model server of yours, an agent that calls a model, or tasks that you hand in."),
                "connect", (), has_worker or task_id is not None,
            ),
            TourStep(
                _("Your tasks"),
                _("Paste them, choose a file, take them from recorded sessions, or write one."),
                "task-import", (), task_id is not None,
            ),
            TourStep(
                _("Who judges"),
                _("A person, an AI manager or both, and how much of the work."),
                "who-judges", (), "who" in project.review_policy or was_reviewed or said,
            ),
            TourStep(_("First review"), about, page, args, said),
            TourStep(
                _("See what it changed"),
                _("When enough is judged a run starts, and your words are in what the worker does next."),
                "run-list", (), learned,
            ),
        )
    )  # fmt: skip
