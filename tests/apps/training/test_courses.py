"""Courses: rounds follow one another from the rows alone, what teaches nothing is set aside, each end says why."""

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.base.errors import BadInputError, ConflictError, NotFoundError
from apps.evals.benchmarks import install_benchmark
from apps.evals.models import Benchmark, ChosenPanel, Item, Taskset
from apps.evals.panels import choose_panel
from apps.feedback.hints import extract_hints
from apps.pipeline.courses import go_on_with_courses, start_course
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from apps.training import courses
from apps.training.models import Course, CourseRound, TrainingRun
from apps.workers.models import Worker
from tentalis.core.learning.gate import GatePolicy
from tests.factories import make_attempt, make_measured, make_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACTS = tmp_path


@pytest.fixture
def worker(project: Project) -> Worker:
    return make_worker(project, "learner", Worker.Kind.CHAT, base_model="apprentice")


@pytest.fixture
def benchmark(project: Project) -> Benchmark:
    return make_benchmark(project)


def make_benchmark(project: Project, *, train: int = 6, held_out: int = 12) -> Benchmark:
    taskset = Taskset.objects.create(project=project, name="numbers", environment="chat")
    checks = [{"check": "grader", "name": "choice", "reference": "A"}]
    Item.objects.bulk_create(
        Item(taskset=taskset, split=split, prompt=f"Say {n}", checks=checks, content_hash=f"{n:064x}", bands=[])
        for n, split in enumerate(["train"] * train + ["held_out"] * held_out)
    )
    project.has_held_out = True
    project.save(update_fields=["has_held_out"])
    return Benchmark.objects.create(
        project=project, name="numbers", entry="numbers", entry_version="1", taskset=taskset, licence="MIT", source=""
    )


def work(current: CourseRound, right: dict[int, int]) -> None:
    """Have all tasks of a round done; `right`: item -> how many of its four tries are right, 1 where it is not said."""
    for item, pk in current.items:
        task = Task.objects.get(pk=pk)
        for index in range(task.group_size):
            make_attempt(task, index, outcome=float(index < right.get(item, 1)))
        Task.objects.filter(pk=pk).update(state=Task.State.DONE)


def last_round(course: Course) -> CourseRound:
    return course.rounds.latest("number")


def start(worker: Worker, benchmark: Benchmark, by: User, **asked: Any) -> Course:
    return start_course(worker=worker, benchmark=benchmark, by=by, **{"tasks": 4, "group_size": 4} | asked)


def test_a_round_is_of_train_items_and_the_gate_measures_the_held_out_ones(
    worker: Worker, benchmark: Benchmark, alice: User
) -> None:
    course = start(worker, benchmark, alice)
    begun = last_round(course)
    train = set(benchmark.taskset.items.filter(split="train").values_list("pk", flat=True))
    assert {item for item, _ in begun.items} < train
    tasks = Task.objects.filter(pk__in=[task for _, task in begun.items])
    assert {(task.worker, task.group_size, task.state) for task in tasks} == {(worker, 4, "queued")}
    assert all(task.checks == [{"check": "grader", "name": "choice", "reference": "A"}] for task in tasks)
    panel = choose_panel(worker, version=1, policy=GatePolicy())
    assert panel is not None
    assert len(panel.items) == 12
    assert not {item.prompt for item in panel.items} & {task.prompt for task in tasks}


def test_rounds_go_on_from_the_rows_and_what_teaches_nothing_is_set_aside(
    worker: Worker, benchmark: Benchmark, alice: User
) -> None:
    course = start(worker, benchmark, alice, rounds=3)
    go_on_with_courses()
    assert course.rounds.count() == 1, "its tasks are not done"
    first = last_round(course)
    solved = first.items[0][0]
    work(first, {solved: 4})
    go_on_with_courses()  # nothing was built of these tries: there is nothing to train on, which ends the round
    first.refresh_from_db()
    assert first.results[str(solved)] == [4, 4]
    assert (first.is_better, first.run) == (False, None)
    assert "nothing to train on" in first.words

    go_on_with_courses()
    second = last_round(course)
    assert second.number == 2
    assert second.choice["solved"] == 1
    assert solved not in {item for item, _ in second.items}


def test_it_ends_when_nothing_gets_better_and_says_so(worker: Worker, benchmark: Benchmark, alice: User) -> None:
    course = start(worker, benchmark, alice, patience=2)
    for _ in range(2):
        work(last_round(course), {})
        go_on_with_courses()
        go_on_with_courses()
    course.refresh_from_db()
    assert (course.state, course.reason) == ("done", "no gain in 2 rounds")
    assert course.finished_at is not None
    go_on_with_courses()
    assert course.rounds.count() == 2


def test_it_ends_when_every_item_is_solved_however_many_there_are(
    worker: Worker, benchmark: Benchmark, alice: User
) -> None:
    course = start(worker, benchmark, alice)
    for _ in range(2):  # six items, four a round
        current = last_round(course)
        work(current, {item: 4 for item, _ in current.items})
        go_on_with_courses()
        go_on_with_courses()
    course.refresh_from_db()
    assert (course.state, course.reason) == ("done", "every item is solved")
    assert course.rounds.count() == 2


def test_a_run_of_its_tasks_ends_the_round_with_the_gates_word(
    worker: Worker, benchmark: Benchmark, alice: User
) -> None:
    course = start(worker, benchmark, alice)
    begun = last_round(course)
    work(begun, {})
    courses.note_results(begun)
    run = TrainingRun.objects.create(
        project=worker.project, worker=worker, recipe={}, recipe_hash="0", purpose="manager", state="running"
    )
    CourseRound.objects.filter(pk=begun.pk).update(run=run)
    go_on_with_courses()
    assert last_round(course).finished_at is None
    TrainingRun.objects.filter(pk=run.pk).update(state="succeeded")
    adapter = Adapter.objects.create(
        project=worker.project, worker=worker, name="shop.learner@v1-0", version=1, line_version=1, run_id=run.pk,
        uri="file:///nowhere", sha256="0" * 64, manifest={}, state="candidate",
    )  # fmt: skip
    go_on_with_courses()
    assert last_round(course).finished_at is None, "the gate has not judged it"
    Adapter.objects.filter(pk=adapter.pk).update(state="deployed")
    make_measured(worker, None, [0.0] * 6 + [1.0] * 6, items="own/chat/1")
    make_measured(worker, adapter, [1.0] * 12, items="own/chat/1")
    go_on_with_courses()
    begun.refresh_from_db()
    assert (begun.is_better, begun.words) == (True, "shop.learner@v1-0 deployed")
    base, point = courses.list_curve(course)[:2]
    assert (base.round, base.mean, point.mean, point.train_mean) == (0, 0.5, 1.0, 0.25)
    assert point.interval is not None
    assert point.interval.high == 1.0
    Adapter.objects.filter(pk=adapter.pk).update(state="refused")
    adapter.verdicts.create(question="safe", outcome="no", words="+3.3 points [−3.8, +10.0]: refused: it forgets")
    refused = (False, "shop.learner@v1-0 refused: +3.3 points [−3.8, +10.0]: refused: it forgets")
    run.refresh_from_db()
    assert courses.find_verdict(run) == refused


def test_a_paused_course_ends_its_round_and_begins_no_other(worker: Worker, benchmark: Benchmark, alice: User) -> None:
    course = start(worker, benchmark, alice)
    courses.pause_course(course=course, by=alice)
    work(last_round(course), {})
    for _ in range(2):
        go_on_with_courses()
    assert course.rounds.count() == 1
    assert last_round(course).finished_at is not None
    courses.resume_course(course=course, by=alice)
    go_on_with_courses()
    assert course.rounds.count() == 2


def test_known_answers_are_imitated_in_the_first_round_and_own_work_in_the_next(
    worker: Worker, benchmark: Benchmark, alice: User
) -> None:
    benchmark.taskset.items.filter(split="train").update(answer="Answer: A")
    with pytest.raises(BadInputError, match="wanted at most 6, whose right answer is known"):
        start(worker, benchmark, alice, shown=7)
    course = start(worker, benchmark, alice, shown=5, shown_recipe={"learning_rate": 0.002, "minibatches": 2})
    shown = last_round(course)
    assert (shown.choice, len(shown.items)) == ({"shown": 5}, 5)
    prompts = dict(benchmark.taskset.items.filter(split="train").values_list("pk", "prompt"))
    told = {pk: Task.objects.get(pk=task) for pk, task in shown.items}
    assert {(one.prompt, one.answer, one.state) for one in told.values()} == {
        (prompts[pk], "Answer: A", "learning") for pk in told
    }
    for task in told.values():
        extract_hints([task.pk])
        build_rollouts([task.pk], by="test")
    go_on_with_courses()
    shown.refresh_from_db()
    assert shown.run is not None
    assert shown.run.batch is not None
    assert shown.run.batch.kind == "demonstrations"
    learnt = {name: shown.run.recipe[name] for name in ("algorithm", "learning_rate", "epochs", "minibatches")}
    assert learnt == {"algorithm": "sft", "learning_rate": 0.002, "epochs": 4, "minibatches": 2}
    assert set(shown.run.batch.demonstrations.values_list("task", flat=True)) == {one.pk for one in told.values()}
    TrainingRun.objects.filter(pk=shown.run.pk).update(state="cancelled")
    for _ in range(2):
        go_on_with_courses()
    own = last_round(course)
    assert (own.number, own.choice["fresh"]) == (2, 4)
    assert {Task.objects.get(pk=task).state for _, task in own.items} == {"queued"}


def test_a_benchmark_tells_the_answers_of_what_is_trained_on_alone(project: Project, alice: User) -> None:
    rows = [
        {"prompt": f"{says} {n}", "reference": str(n), "grader": "exact", "answer": str(n), "split": split}
        for says, split in (("Say", "train"), ("Name", "held_out"))
        for n in range(3)
    ]
    made = install_benchmark(project=project, name="own/said", by=alice, rows=rows)
    told = {item.prompt: item.answer for item in made.taskset.items.all()}
    assert told == {f"Say {n}": str(n) for n in range(3)} | {f"Name {n}": "" for n in range(3)}


def test_what_cannot_be_trained_ends_a_course_as_failed_and_costs_no_round(
    worker: Worker, benchmark: Benchmark, alice: User, settings: Settings
) -> None:
    course = start(worker, benchmark, alice)
    courses.pause_course(course=course, by=alice)
    work(last_round(course), {})
    settings.TENTALIS = settings.TENTALIS | {"INFERENCE_BACKEND": "openai"}
    go_on_with_courses()
    course.refresh_from_db()
    assert course.state == "failed"
    assert "has no base weights" in course.reason
    assert last_round(course).finished_at is None


def test_a_course_that_is_taken_up_again_is_measured_on_its_own_benchmark(
    worker: Worker, benchmark: Benchmark, alice: User, project: Project
) -> None:
    course = start(worker, benchmark, alice)
    Course.objects.filter(pk=course.pk).update(state="failed")
    other = Taskset.objects.create(project=project, name="others", environment="chat")
    ChosenPanel.objects.update(taskset=other)
    course.refresh_from_db()
    courses.resume_course(course=course, by=alice)
    assert ChosenPanel.objects.get().taskset == benchmark.taskset


def test_what_nothing_could_be_learnt_from_is_refused(
    worker: Worker, benchmark: Benchmark, alice: User, charlie: User, project: Project
) -> None:
    with pytest.raises(NotFoundError):
        start(worker, benchmark, charlie)
    for asked, words in (
        ({"rounds": 0}, "wanted 1 to 1,000, found 0"),
        ({"group_size": 1}, "wanted at least 2 attempts, which are compared, found 1"),
        ({"backend": "magic"}, "wanted one of standalone"),
        ({"recipe": {"colour": "red"}}, "colour"),
    ):
        with pytest.raises(BadInputError, match=words):
            start(worker, benchmark, alice, **asked)
    benchmark.taskset.items.filter(split="train").update(split="skills")
    with pytest.raises(BadInputError, match="wanted items to train on, found none"):
        start(worker, benchmark, alice)
    assert not ChosenPanel.objects.exists()
    benchmark.taskset.items.filter(split="skills").update(split="train")
    start(worker, benchmark, alice)
    with pytest.raises(ConflictError, match="learner is in a course already"):
        start(worker, benchmark, alice)
    assert Course.objects.count() == 1


def test_a_course_whose_project_is_closed_fails_with_its_reason(
    worker: Worker, benchmark: Benchmark, alice: User
) -> None:
    course = start(worker, benchmark, alice)
    work(last_round(course), {})
    go_on_with_courses()
    Worker.objects.filter(pk=worker.pk).update(is_active=False)
    go_on_with_courses()
    course.refresh_from_db()
    assert course.state == "failed"
    assert course.reason
    assert course.rounds.count() == 1


def test_a_world_that_makes_its_tasks_up_verifies_them_for_the_gate(project: Project, alice: User) -> None:
    worker = make_worker(project, "helper", "desk")
    benchmark = install_benchmark(project=project, name="desk/order", by=alice)
    start(worker, benchmark, alice)
    panel = choose_panel(worker, version=1, policy=GatePolicy())
    assert panel is not None
    assert {item.prompt for item in panel.items} <= set(
        benchmark.taskset.items.filter(split="held_out").values_list("prompt", flat=True)
    )


def test_items_that_nothing_checks_are_no_course(worker: Worker, benchmark: Benchmark, alice: User) -> None:
    benchmark.taskset.items.update(checks=None)
    with pytest.raises(BadInputError, match="its held-out items cannot be measured on"):
        start(worker, benchmark, alice)
    assert not Course.objects.exists()
    assert not ChosenPanel.objects.exists()
