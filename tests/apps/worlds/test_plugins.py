"""What other packages add: it works without a word of it in the repository, and what is broken harms nobody."""

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.urls import reverse

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.rules import check_project_settings
from apps.accounts.services import change_project
from apps.accounts.tokens import create_token
from apps.api.serializers.work import TaskIn
from apps.base.errors import BadInputError
from apps.evals.results import describe_asking
from apps.feedback.create_reviews import open_reviews
from apps.feedback.managers import NoWord, find_manager
from apps.feedback.rules import validate_review_policy
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from apps.tasks.services import work_tasks
from apps.workers.kinds import KINDS
from apps.worlds.identity import name_world
from apps.worlds.registry import WORLDS, get_world, name_choices
from gpu_workers.backends import find_backend
from gpu_workers.backends.errors import BackendNotInstalledError
from tentalis.plugins import REGISTRIES, name_backends
from tests.apps.console.builders import sign_in
from tests.apps.feedback.builders import make_chat_task
from tests.edges.caller import Caller
from tests.factories import make_worker

PACKAGE = Path(__file__).with_name("counter_package.py")
POINTS = """[tentalis.worlds]
counter = tentalis_counter:CounterWorld
[tentalis.agents]
counting = tentalis_counter:AGENT
[tentalis.scorers]
thrift = tentalis_counter:ThriftScorer
[tentalis.managers]
strict = tentalis_counter:StrictManager
"""
BROKEN = """[tentalis.worlds]
chat = tentalis_counter:CounterWorld
lost = nowhere:World
other = tentalis_counter:CounterWorld
plain = tentalis_counter:AGENT
Loud! = tentalis_counter:CounterWorld
[tentalis.agents]
exits = exiting:AGENT
[tentalis.scorers]
prm = tentalis_counter:ThriftScorer
[tentalis.managers]
mild = tentalis_counter:StrictManager
[tentalis.backends]
moon = nowhere:train
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a package with these entry points beside us, as pip would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TENTALIS_TRUSTED_PLUGINS", "tentalis-counter, a-counter, b-counter")

    def put(points: str, name: str = "tentalis-counter") -> None:
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        (tmp_path / "tentalis_counter.py").write_text(PACKAGE.read_text())
        (tmp_path / "exiting.py").write_text("raise SystemExit(3)\n")
        _look_again()

    yield put
    monkeypatch.undo()
    sys.modules.pop("tentalis_counter", None)
    _look_again()


def _look_again() -> None:
    importlib.invalidate_caches()
    for registry in REGISTRIES.values():
        registry.forget()


def test_a_world_of_another_package_takes_tasks_and_is_scored(install: Install, alice: User, project: Project) -> None:
    install(POINTS)
    assert len(PACKAGE.read_text().splitlines()) <= 80
    as_alice = Caller(create_token(user=alice, name="t", scopes=Right.values, project=None, by=alice)[1])
    worker = as_alice.post("workers", {"project": project.slug, "name": "abacus", "kind": "counting"})
    assert (worker.status, worker.body["environment"]) == (201, "counter")
    given = {"project": project.slug, "worker": "abacus", "environment": "counter", "group_size": 2}
    refused = as_alice.post("tasks", given | {"prompt": "many"})
    assert (refused.status, refused.body["errors"]) == (400, {"prompt": ["wanted a number to count to, found 'many'"]})
    elsewhere = as_alice.post("tasks", given | {"prompt": "3", "environment": "chat"})
    assert "only knows Counting (counter), found environment 'chat'" in str(elsewhere.body["errors"])
    made = as_alice.post("tasks", given | {"prompt": "3"})
    assert made.status == 201, made.body

    work_tasks([made.body["id"]], by="test")
    score_tasks([made.body["id"]])
    task = Task.objects.get(pk=made.body["id"])
    assert list(task.attempts.values_list("answer", "outcome", "score")) == [("3", 1.0, 0.75)] * 2
    scores = task.attempts.first().step_scores.filter(step=None).values_list("scorer", "score")  # type: ignore[union-attr]
    assert {"thrift", "outcome"} <= dict(scores).keys()
    assert dict(name_choices())["counter"] == "Counting"
    assert "counter" in TaskIn().fields["environment"].choices  # type: ignore[attr-defined]

    pages = sign_in(alice)
    form = pages.get(reverse("console:task-new", args=[project.slug])).content.decode()
    assert '<option value="counter"' in form
    assert "Counting" in pages.get(reverse("console:task", args=[project.slug, task.pk])).content.decode()
    health = pages.get(reverse("console:health", args=[project.slug])).content.decode()
    assert "tentalis-counter 1.0" in health
    check_project_settings({"weight_profiles": {"counter": {"thrift": 1.0}}})
    with pytest.raises(BadInputError, match=r"wanted one of .*thrift, found 'beauty'"):
        check_project_settings({"weight_profiles": {"counter": {"beauty": 1.0}}})


def test_a_changed_world_has_another_name_and_its_evaluations_are_others(
    install: Install, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(POINTS)
    worker = make_worker(project, kind="counting")
    before, asked = WORLDS.get("counter"), describe_asking(worker, get_world("counter"))
    assert before is not None
    assert re.fullmatch(r"counter\+[0-9a-f]{12}", name_world(before))
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    sys.modules.pop("tentalis_counter")
    (tmp_path / "tentalis_counter.py").rename(moved / "tentalis_counter.py")
    monkeypatch.syspath_prepend(moved)
    _look_again()
    same = get_world("counter")
    assert (same is before, name_world(same)) == (False, name_world(before))
    assert describe_asking(worker, same) == asked

    sys.modules.pop("tentalis_counter")
    (moved / "tentalis_counter.py").write_text(PACKAGE.read_text() + "# counts as ever\n")
    _look_again()
    changed = get_world("counter")
    assert name_world(changed) != name_world(before)
    assert describe_asking(worker, changed) != asked


def test_what_is_broken_is_listed_with_its_error_and_nobody_takes_the_place_of_ours(install: Install) -> None:
    built_in = WORLDS.names
    install(BROKEN)
    ours = type(WORLDS.get("chat")).__name__
    assert (WORLDS.names, "exits" in KINDS, ours) == (built_in, False, "ChatWorld")
    told = StringIO()
    call_command("plugins", stdout=told)
    errors = {row["name"]: row["error"] for row in map(json.loads, told.getvalue().splitlines())}
    assert errors.pop("moon") == ""  # the training box loads it, and nobody else
    assert errors == {
        "chat": "the name chat is taken by Tentalis itself",
        "prm": "the name prm is taken by Tentalis itself",
        "lost": "ModuleNotFoundError: No module named 'nowhere'",
        "other": "ValueError: wanted a world that is named as its entry point, 'other', found 'counter'",
        "plain": "TypeError: wanted a tentalis.core.worlds.World, found AgentKind",
        "Loud!": "wanted a name of lower-case letters, digits and _, found 'Loud!'",
        "exits": "SystemExit: 3",
        "mild": "ValueError: wanted an AI manager that is named as its entry point, 'mild', found 'strict'",
    }
    assert "moon" in name_backends()
    with pytest.raises(BackendNotInstalledError, match=r"'moon' of tentalis-counter 1.0: .*No module named 'nowhere'"):
        find_backend("moon")


def test_an_ai_manager_of_another_package_reviews_and_is_missed_in_words(
    install: Install, alice: User, project: Project
) -> None:
    Member.objects.filter(project=project, user=alice).update(role=Role.OWNER)
    with pytest.raises(
        BadInputError, match=r"AI manager: wanted one of rule-book, llm, rubric, verdict, found 'strict'"
    ):
        change_project(project=project, by=alice, review_policy={"who": "ai", "ai_manager": "strict"})
    install(POINTS)
    change_project(project=project, by=alice, review_policy={"who": "ai", "ai_manager": "strict"})
    settings = reverse("console:settings", args=[project.slug]) + "?section=review_policy"
    assert '<option value="strict" selected>' in sign_in(alice).get(settings).content.decode()
    task = make_chat_task(project, ["four"])
    open_reviews([task.pk])
    assert task.feedback.get().author == "agent:strict"
    rules = validate_review_policy({"ai_manager": "gone"})
    assert find_manager(rules, task).review(task, []) == NoWord(
        "there is no AI manager 'gone' here: its package is not installed, or is broken"
    )


def test_of_two_packages_with_one_name_the_first_by_name_has_it(install: Install) -> None:
    install(POINTS, "b-counter")
    install(POINTS, "a-counter")
    found = {plugin.package: plugin.error for plugin in WORLDS.plugins}
    assert found == {"a-counter 1.0": "", "b-counter 1.0": "the name counter is taken by a-counter 1.0"}
