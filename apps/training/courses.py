"""Courses: a worker learns a benchmark, round by round. What is tried next, what came of a round, when it ends."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter, Verdict
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError, ConflictError
from apps.evals.models import PASSED, Benchmark, ChosenPanel, Evaluation, Item
from apps.evals.panels import LEAST_OWN, choose_panel, has_past, say_missing
from apps.tasks.models import Attempt, Task
from apps.training.models import Course, CourseRound, TrainingRun
from apps.training.provenance import OVER
from apps.training.services import read_recipe
from apps.workers.models import Worker
from apps.workers.rules import find_environment_error
from tentalis.core.learning.curriculum import Choice, CurriculumRule, ItemRound, choose_items
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.scoring.calibration import Interval
from tentalis.core.task_files import TaskRow
from tentalis.plugins import name_backends

MOST_ROUNDS, MOST_TASKS, MOST_PATIENCE, MOST_SHOWN = 1_000, 1_000, 100, 2_000
SHOWN_TOGETHER, SHOWN_EPOCHS = 16, 4
"""Where nobody says otherwise: answers that are imitated in an update, and how often each."""
OPEN_ADAPTERS: Final = (Adapter.State.CANDIDATE, Adapter.State.VERIFIED)


def start_course(
    *,
    worker: Worker,
    benchmark: Benchmark,
    by: User,
    rounds: int = 20,
    tasks: int = 24,
    group_size: int | None = None,
    patience: int = 5,
    backend: str = "",
    recipe: Mapping[str, Any] | None = None,
    shown: int = 0,
    shown_recipe: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Course:
    """Have a worker learn a benchmark; its gate measures on the benchmark's held-out items from now on.

    Args:
        rounds: at most; tasks: of each; group_size: attempts at a task, None as the project has it.
        patience: rounds in a row without a better adapter, after which it ends.
        backend, recipe: of the trainings, where they differ from the worker's.
        shown: of so many train items the known answers are imitated first; the rest of its rounds learns from what the
            worker does itself. shown_recipe: of that training, beside `recipe`.
    Raises:
        BadInputError, ConflictError: saying what was wanted and what was found.
    """
    require_right(by, worker.project, Right.RUNS_WRITE)
    require_right(by, worker.project, Right.TASKS_WRITE)
    for name, value, most in (
        ("rounds", rounds, MOST_ROUNDS), ("tasks", tasks, MOST_TASKS), ("patience", patience, MOST_PATIENCE),
    ):  # fmt: skip
        if not 1 <= value <= most:
            raise BadInputError.at(name, f"wanted 1 to {most:,}, found {value}")
    if worker.learns_with_id is not None:
        raise BadInputError.at("worker", f"wanted one with a line of its own, found {worker.name}")
    if backend and backend not in (known := name_backends()):
        raise BadInputError.at("backend", f"wanted one of {', '.join(known)}, found {backend!r:.40}")
    if words := find_environment_error(worker, benchmark.taskset.environment):
        raise BadInputError.at("benchmark", words)
    read_recipe(worker, recipe)
    group = worker.project.group_size if group_size is None else group_size
    if group < 2:
        raise BadInputError.at("group_size", f"wanted at least 2 attempts, which are compared, found {group}")
    train = sum(not has_past(item) for item in benchmark.taskset.items.filter(split=Item.Split.TRAIN))
    held_out = benchmark.taskset.items.filter(split=Item.Split.HELD_OUT).count()
    answers = min(MOST_SHOWN, _list_known(benchmark).count())
    if not 0 <= shown <= answers:
        words = f"wanted at most {answers}, whose right answer is known, of {benchmark}; found {shown}"
        raise BadInputError.at("shown", words)
    if shown:
        read_recipe(worker, recipe_of_shown(shown, {**(recipe or {}), **(shown_recipe or {})}))
    elif shown_recipe:
        raise BadInputError.at("shown_recipe", "wanted with it how many answers are shown (shown), found none")
    if not train:
        raise BadInputError.at("benchmark", f"wanted items to train on, found none in {benchmark}: it only measures")
    if held_out < LEAST_OWN:
        words = f"wanted at least {LEAST_OWN} held-out items for the gate, found {held_out} in {benchmark}"
        raise BadInputError.at("benchmark", words)
    try:
        with transaction.atomic():
            course = Course.objects.create(
                project=worker.project,
                worker=worker,
                benchmark=benchmark,
                started_by=by,
                rounds_wanted=rounds,
                tasks_a_round=tasks,
                group_size=group,
                patience=patience,
                backend=backend,
                recipe=dict(recipe or {}),
                shown=shown,
                shown_recipe=dict(shown_recipe or {}),
                rule=CurriculumRule().to_json(),
                seed=seed,
            )
            ChosenPanel.objects.update_or_create(worker=worker, defaults={"taskset": benchmark.taskset})
            if choose_panel(worker, version=1, policy=GatePolicy()) is None:
                raise BadInputError.at("benchmark", f"its held-out items cannot be measured on: {say_missing(worker)}")
            payload = {"benchmark": str(benchmark), "worker": worker.name, "rounds": rounds, "tasks": tasks}
            payload |= {"shown": shown} if shown else {}
            record(Kind.COURSE_STARTED, subject=course, by=by.handle, payload=payload)
    except IntegrityError:
        raise ConflictError(f"{worker.name} is in a course already: cancel that one, or wait for its end") from None
    return course


def pause_course(*, course: Course, by: User) -> Course:
    """Begin no further round; the one under way goes on to its end."""
    return _move(course, Course.State.PAUSED, by=by, reason=f"paused by {by.handle}")


def resume_course(*, course: Course, by: User) -> Course:
    """Let a paused or failed one go on; its gate measures on its benchmark again."""
    chosen = {"taskset": course.benchmark.taskset}
    try:
        with transaction.atomic():
            _move(course, Course.State.RUNNING, by=by, reason="")
            ChosenPanel.objects.update_or_create(worker=course.worker, defaults=chosen)
        return course
    except IntegrityError:
        raise ConflictError(f"{course.worker.name} is in another course: cancel that one first") from None


def cancel_course(*, course: Course, by: User) -> Course:
    """End it for good; what is under way goes on by itself."""
    return _move(course, Course.State.CANCELLED, by=by, reason=f"cancelled by {by.handle}", finished_at=timezone.now())


def _move(course: Course, state: Course.State, *, by: User, **values: Any) -> Course:
    require_right(by, course.project, Right.RUNS_WRITE)
    with transaction.atomic():
        move(course, state, by=by.handle, **values)
    return course


def find_running() -> list[int]:
    """Ids of those that go on, or whose last round does."""
    open_rounds = CourseRound.objects.filter(finished_at=None, course__state=Course.State.PAUSED)
    running = Q(state=Course.State.RUNNING) | Q(pk__in=open_rounds.values("course"))
    return list(Course.objects.filter(running).order_by("pk").values_list("pk", flat=True))


def lock_course(course_id: int) -> Course | None:
    """One that goes on, for one at a time; None while another is at it, and where it ended meanwhile."""
    rows = Course.objects.filter(state__in=(Course.State.RUNNING, Course.State.PAUSED)).select_related(
        "worker__project", "benchmark__taskset", "started_by", "project"
    )
    return rows.filter(pk=course_id).select_for_update(skip_locked=True, of=("self",)).first()


def find_last_round(course: Course) -> CourseRound | None:
    return course.rounds.select_related("run").order_by("-number").first()


def find_end(course: Course) -> str:
    """Why no further round begins; "" where one does."""
    rounds = list(course.rounds.order_by("number"))
    if len(rounds) >= course.rounds_wanted:
        return f"all {course.rounds_wanted} rounds are done"
    last = rounds[-course.patience :]
    if len(last) == course.patience and not any(one.is_better for one in last):
        return f"no gain in {course.patience} rounds"
    return ""


def choose_round(course: Course) -> tuple[Choice, list[TaskRow]]:
    """The items of the next round, and the tasks they are. Nothing is chosen where nothing is left to learn from."""
    items = {
        item.pk: item for item in course.benchmark.taskset.items.filter(split=Item.Split.TRAIN) if not has_past(item)
    }
    history: dict[int, list[ItemRound]] = {pk: [] for pk in items}
    rounds = list(course.rounds.order_by("number"))
    for one in rounds:
        for pk, (tries, right) in one.results.items():
            if int(pk) in history:
                history[int(pk)].append(ItemRound(tries, right))
    rng = Random(f"{course.seed}:{len(rounds)}")
    choice = choose_items(history, count=course.tasks_a_round, rule=CurriculumRule(**course.rule), rng=rng)
    rows = [
        TaskRow(
            line=place,
            prompt=items[pk].prompt,
            reference=items[pk].reference,
            metadata={"benchmark": str(course.benchmark), "course": course.pk, "item": pk},
            seed=rng.randrange(2**31),
            checks=items[pk].checks,
        )
        for place, pk in enumerate(choice.items, start=1)
    ]
    return choice, rows


def recipe_of_shown(shown: int, changes: Mapping[str, Any]) -> dict[str, Any]:
    """How so many known answers are imitated: by `changes`, and where these say nothing by many small updates."""
    updates = max(1, shown // SHOWN_TOGETHER)
    return {
        "epochs": SHOWN_EPOCHS, "minibatches": updates, "schedule": "linear", **changes, "algorithm": "sft",
    }  # fmt: skip


def choose_shown(course: Course) -> list[Item]:
    """The items whose known answers are imitated, in an order of the course's seed."""
    items = list(_list_known(course.benchmark))
    return Random(f"{course.seed}:shown").sample(items, min(course.shown, len(items)))


def _list_known(benchmark: Benchmark) -> QuerySet[Item]:
    return benchmark.taskset.items.filter(split=Item.Split.TRAIN).exclude(answer="").order_by("pk")


def open_round(course: Course, choice: Mapping[str, Any], items: Sequence[int], tasks: Sequence[Task]) -> CourseRound:
    """Write a round down, in the running transaction."""
    pairs = [[item, task.pk] for item, task in zip(items, tasks, strict=True)]
    number = course.rounds.count() + 1
    return CourseRound.objects.create(course=course, number=number, items=pairs, choice=dict(choice))


def is_worked(current: CourseRound) -> bool:
    """Whether all of its tasks came to their end, people's judgement included."""
    tasks = Task.objects.filter(pk__in=[task for _, task in current.items])
    return not tasks.exclude(state__in=Task.FINAL).exists()


def note_results(current: CourseRound) -> None:
    """Write down how its items went, which is what the next ones are chosen by."""
    item_of = {task: item for item, task in current.items}
    scored = Attempt.objects.filter(task__in=item_of, outcome__isnull=False)
    counts = scored.values_list("task").annotate(tries=Count("pk"), right=Count("pk", filter=Q(outcome__gte=PASSED)))
    current.results = {str(item_of[task]): [tries, right] for task, tries, right in counts}
    current.save(update_fields=["results"])


def find_run(current: CourseRound) -> TrainingRun | None:
    """The training that learnt from its tasks last; None where none did yet."""
    tasks = [task for _, task in current.items]
    learnt = (
        Q(batch__demonstrations__task__in=tasks)
        if current.is_shown
        else Q(batch__uses__rollout__attempt__task__in=tasks)
    )
    return TrainingRun.objects.filter(learnt).order_by("-pk").first()


def find_verdict(run: TrainingRun) -> tuple[bool, str] | None:
    """Whether what a run trained was let through, and in words, with why it was not; None while nobody knows."""
    if run.state in OVER:
        return False, f"run {run.pk} {run.get_state_display().lower()}: {run.failure}"
    if run.state != TrainingRun.State.SUCCEEDED:
        return None
    adapter = Adapter.objects.filter(run_id=run.pk).first()
    if adapter is None or adapter.state in OPEN_ADAPTERS:
        return None
    words = f"{adapter.name} {adapter.get_state_display().lower()}"
    if adapter.state in (Adapter.State.DEPLOYED, Adapter.State.RETIRED):
        return True, words
    said = adapter.verdicts.filter(question=Verdict.Question.SAFE).first()
    return False, f"{words}: {said.words}" if said else words


def end_round(current: CourseRound, *, is_better: bool, reason: str, by: str) -> None:
    """Write down what came of a round, in the running transaction."""
    current.is_better, current.words, current.finished_at = is_better, reason[:500], timezone.now()
    current.save(update_fields=["is_better", "words", "finished_at", "run"])
    payload = {"round": current.number, "better": is_better, "words": current.words}
    record(Kind.COURSE_ROUND_ENDED, subject=current.course, by=by, payload=payload)


class CurvePoint(NamedTuple):
    """A point of a learning curve.

    Args:
        round: 0 is the base model. adapter: "" for that.
        mean, interval: of the held-out items, as the gate measured them; None where it did not.
        train_mean: share of the round's own tries that were right in full.
    """

    round: int
    adapter: str
    is_better: bool | None
    words: str
    mean: float | None
    interval: Interval | None
    tasks: int
    tries: int
    train_mean: float | None
    choice: Mapping[str, int]


def list_curve(course: Course) -> list[CurvePoint]:
    """What a course came to so far, round by round. Three queries."""
    rounds = list(course.rounds.order_by("number"))
    adapters = {
        one.run_id: one for one in Adapter.objects.filter(run_id__in=[one.run_id for one in rounds if one.run_id])
    }
    rows = Evaluation.objects.filter(worker=course.worker_id, purpose=Evaluation.Purpose.PANEL, items__gt=0)
    by_set: defaultdict[str, dict[int | None, Evaluation]] = defaultdict(dict)
    wanted = {None, *(one.pk for one in adapters.values())}
    for row in rows.order_by("pk"):
        if row.adapter_id in wanted:
            by_set[row.item_set_hash][row.adapter_id] = row
    of_course = [one for one in by_set.values() if one.keys() - {None}]
    measured = max(of_course, key=len, default={})  # on the panel that most of them were measured on
    return [
        _point(0, "", None, "", measured.get(None), None),
        *(
            _point(
                one.number,
                adapter.name if (adapter := adapters.get(one.run_id)) else "",
                one.is_better,
                one.words,
                measured.get(adapter.pk) if adapter else None,
                one,
            )
            for one in rounds
        ),
    ]


def _point(
    number: int, adapter: str, is_better: bool | None, words: str, found: Evaluation | None, of: CourseRound | None
) -> CurvePoint:
    tries, right = (sum(pair[place] for pair in of.results.values()) if of else 0 for place in (0, 1))
    return CurvePoint(
        round=number,
        adapter=adapter,
        is_better=is_better,
        words=words,
        mean=found.mean_outcome if found else None,
        interval=found.interval if found else None,
        tasks=len(of.items) if of else 0,
        tries=tries,
        train_mean=right / tries if tries else None,
        choice=of.choice if of else {},
    )
