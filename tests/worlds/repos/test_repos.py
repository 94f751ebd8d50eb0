"""Tasks of other people's repositories: added once, worked on by agents, judged by their own tests."""

import json
import shutil
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.evals.benchmarks import install_benchmark
from apps.evals.models import Item
from apps.worlds.examining import examine
from apps.worlds.repos import WORLD
from apps.worlds.repos.testing import find_shown
from apps.worlds.repos.world import list_edits
from tentalis.core.swe.patches import apply_patch, parse_patch, write_patch
from tentalis.core.swe.repo_tasks import RepoTaskError
from tentalis.core.swe.tools import Tree, edit
from tentalis.core.worlds import AttemptDraft, ToolCall, Verification
from tentalis.verification.store import TaskStore
from tests.verification.repos import FILES, load, make_pytest_task, make_task, patch_of
from tests.worlds.repos.conftest import write_task


class Script:
    """An episode that a test plays by hand."""

    def __init__(self, prompt: str) -> None:
        self.prompt, self.state = prompt, WORLD.reset(prompt, 0)

    def do(self, name: str, **arguments: Any) -> str:
        return WORLD.act(self.state, ToolCall(id="c", name=name, arguments=json.dumps(arguments)), "key").text

    def verify(self) -> Verification:
        return WORLD.verify_state(self.prompt, None, self.state, AttemptDraft())


def test_an_agent_finds_mends_and_tests_and_is_judged_by_tests_that_it_does_not_see(store: TaskStore) -> None:
    prompt = WORLD.draw_prompt(Random(0))
    assert prompt is not None
    [told] = WORLD.messages_for(prompt, "")
    assert told["content"] == "Sums come out wrong."
    script = Script(prompt)
    assert script.do("search", text="a - b") == "calc.py:2 return a - b"
    assert script.do("run_tests") == "1 of 1 tests pass", "the one that fails is nobody's to see"
    assert script.verify().outcome == 0.0
    assert script.do("edit", path="calc.py", line=2, text="return a + b") == "ok"
    restored = WORLD.restore(prompt, WORLD.snapshot(script.state))
    assert WORLD.hash_state(restored) == WORLD.hash_state(script.state)
    found = script.verify()
    assert (found.outcome, found.details["status"], found.details["tests_passed"]) == (1.0, "resolved", 2)
    script.do("edit", path="tests/test_calc.py", line=1, text="import nothing", count=1)
    found = script.verify()
    assert found.outcome == 1.0
    [[path, _]] = found.checks[0]["left out"]
    assert path == "tests/test_calc.py"


def test_the_world_passes_its_examination_with_the_tasks_that_were_added(store: TaskStore) -> None:
    found = examine(WORLD, tasks=2)
    assert found.passed, found.faults
    assert {one.name: one.passed for one in found.checks}["held out"] is True


def test_what_is_measured_on_is_not_trained_on(store: TaskStore) -> None:
    train, held_out = (store.list_tasks(split) for split in ("train", "held_out"))
    assert [one.name.partition("@")[0] for one in (*train, *held_out)] == ["calc-1", "calc-2"]
    assert {WORLD.draw_prompt(Random(seed)) for seed in range(9)} == {train[0].prompt}
    panel = WORLD.panel(3, 5)
    assert {one.prompt for one in panel} == {held_out[0].prompt}
    assert len({one.seed for one in panel}) == 3
    assert [WORLD.is_held_out(one.prompt) for one in (*train, *held_out)] == [False, True]


@pytest.mark.django_db
def test_the_tasks_are_a_benchmark_like_any_other(store: TaskStore, project: Project, alice: User) -> None:
    benchmark = install_benchmark(project=project, name="repos", by=alice)
    items = Item.objects.filter(taskset=benchmark.taskset).order_by("split")
    assert [(one.split, one.prompt.partition("@")[0]) for one in items] == [("held_out", "calc-2"), ("train", "calc-1")]


@pytest.mark.django_db
def test_where_none_was_added_there_is_no_benchmark(
    project: Project, alice: User, settings: Any, tmp_path: Path
) -> None:
    settings.ARTIFACTS = tmp_path
    with pytest.raises(BadInputError) as caught:
        install_benchmark(project=project, name="repos", by=alice)
    assert "tentalis repo-task add" in str(caught.value)
    damaged = tmp_path / "repo_tasks" / "held_out" / "calc-9@0123456789ab"
    damaged.mkdir(parents=True)
    with pytest.raises(BadInputError) as caught:
        install_benchmark(project=project, name="repos", by=alice)
    assert "task.json" in str(caught.value)
    shutil.rmtree(damaged)
    assert WORLD.draw_prompt(Random(0)) is None
    assert WORLD.panel(3, 0) == []


def test_what_cannot_be_added_is_refused_in_words(store: TaskStore, tmp_path: Path) -> None:
    def refuse(directory: Path) -> str:
        with pytest.raises(RepoTaskError) as caught:
            store.add(directory, split="train")
        return str(caught.value)

    place = write_task(make_task(name="calc-1"), tmp_path / "again")
    assert "is there already" in refuse(place)
    (place / "repo" / "calc.py").write_bytes(FILES["calc.py"] + b"\n")
    assert "is not what was admitted any more" in refuse(place)
    (place / "admission.json").unlink()
    assert "wanted a task that was admitted; do tentalis repo-task admit" in refuse(place)
    bad = write_task(make_task(name="bad", gold_patch=""), tmp_path / "bad")
    assert "found quarantined: there is no gold patch" in refuse(bad)
    assert "found none at" in refuse(tmp_path / "nowhere")
    assert len(store.list_tasks()) == 2
    for name in ("../../etc", "calc-1", "calc-1@000000000000"):
        with pytest.raises(RepoTaskError, match="wanted a task that was added"):
            store.find(name)


def test_a_task_that_two_add_at_the_same_moment_is_there_once(
    store: TaskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write_task(make_task(name="calc-1"), tmp_path / "task")
    fresh, said = TaskStore(tmp_path / "store"), list[str]()
    copy = shutil.copytree

    def add(split: str) -> None:
        try:
            said.append(fresh.add(place, split=split).split)
        except RepoTaskError as error:
            said.append(str(error))

    second = threading.Thread(target=add, args=("held_out",))

    def copy_while_another_adds(*given: Any, **told: Any) -> Any:
        monkeypatch.undo()
        second.start()
        second.join(timeout=0.3)  # who does not wait for the first is done by then
        return copy(*given, **told)

    monkeypatch.setattr(shutil, "copytree", copy_while_another_adds)
    add("train")
    second.join()
    (added,) = fresh.list_tasks()
    assert sorted(said) == sorted(["train", f"{added.name} is there already, to train"])
    assert [one.name for one in (fresh.directory / "train").iterdir()] == [added.name]


def test_a_prompt_is_a_tasks_name_and_words_and_nothing_else(store: TaskStore) -> None:
    prompt = store.list_tasks()[0].prompt
    WORLD.check_prompt(f"{prompt}\n")
    for wrong in (prompt + " Hurry.", prompt.partition("\n")[0], "Mend it.", ""):
        with pytest.raises(ValueError, match="wanted"):
            WORLD.check_prompt(wrong)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_task_whose_repository_lies_elsewhere_is_not_added(
    store: TaskStore, tmp_path: Path, *, is_linked: bool
) -> None:
    place = write_task(make_task(name="calc-3", repo="repo" if is_linked else "../beside"), tmp_path / "task")
    if is_linked:
        (place / "repo").rename(tmp_path / "beside")
        (place / "repo").symlink_to("../beside")
    with pytest.raises(RepoTaskError, match="wanted its repository and files in"):
        store.add(place, split="train")
    assert len(store.list_tasks()) == 2


def test_the_kind_of_a_task_is_known_when_it_is_removed(store: TaskStore) -> None:
    prompt = store.list_tasks()[0].prompt
    assert WORLD.find_kind(prompt) == "calc"
    assert WORLD.find_kind(prompt.replace("calc-1@", "gone-by-1@")) == "gone-by"
    assert WORLD.find_kind("Mend it.") == "no task"


def test_what_is_removed_is_there_no_more(store: TaskStore, tmp_path: Path) -> None:
    copy = TaskStore(tmp_path / "copy")
    shutil.copytree(store.directory, copy.directory)
    first, other = copy.list_tasks()
    copy.remove(first.name)
    assert copy.list_tasks() == [other]
    with pytest.raises(RepoTaskError):
        copy.remove(first.name)


def test_to_tell_which_tasks_there_are_no_repository_is_read(store: TaskStore, tmp_path: Path) -> None:
    copy = TaskStore(tmp_path / "copy")
    shutil.copytree(store.directory, copy.directory)
    for one in copy.list_tasks():
        shutil.rmtree(one.directory / "repo")
    assert [one.prompt for one in copy.list_tasks()] == [one.prompt for one in store.list_tasks()]
    assert [one.task for one in copy.list_tasks()] == [one.load().task for one in store.list_tasks()]


LONG = b"def one():\n    if 1:\n        return 1\n\n\ndef two():\n    return 2\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LONG, b"def one():\n    return 1\n\n\ndef two():\n    return 2\n"),
        (LONG, b"\n" + LONG + b"\n\nend = 1\n"),
        (LONG, LONG.replace(b"        return 1\n", b"return 1\n\n")),
        (LONG, LONG.replace(b"\n\n\n", b"\n")),
        (None, LONG),
        (b"a\nb", b"a\n\nc"),
    ],
)
def test_a_gold_patch_is_written_as_edits_that_make_the_same_files(old: bytes | None, new: bytes) -> None:
    files = FILES | ({"more.py": old} if old is not None else {})
    loaded = load(make_task(gold_patch=write_patch(files, {"more.py": new})), files)
    changed: dict[str, str] = {}
    for one in list_edits(loaded) or []:
        changed[one["path"]] = edit(Tree(files, changed), **one)
    assert changed["more.py"].encode() == new == apply_patch(files, parse_patch(loaded.task.gold_patch))["more.py"]


def test_a_gold_patch_that_removes_a_file_is_no_way_that_an_agent_can_go() -> None:
    assert list_edits(load(make_task(gold_patch=patch_of({"calc.py": None})))) is None


@pytest.mark.parametrize(
    ("test_patch", "shown"),
    [({}, 1), ({"tests/test_plain.py": "x = 1\n"}, 0), ({"other/test_plain.py": "x = 1\n"}, 1)],
)
def test_tests_that_the_test_patch_brings_are_not_shown(test_patch: dict[str, str], shown: int) -> None:
    patch = patch_of(dict(test_patch))
    found = [find_shown(load(make_pytest_task(test_patch=patch)))]
    module = {path.replace("test_plain", "test_calc"): text for path, text in test_patch.items()}
    found.append(find_shown(load(make_task(test_patch=patch_of(dict(module))))))
    assert [len(one.tests) if one else 0 for one in found] == [shown, shown]
