"""The world of other people's repositories: an issue in, a patch out, judged by the tests of who mended it."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from random import Random
from typing import Any, ClassVar, Final

from apps.worlds.repos import testing
from apps.worlds.repos.testing import open_store
from apps.worlds.repositories import RepositoryWorld, write_call
from tentalis.core.swe.patches import Files, PatchError, apply_patch, parse_patch
from tentalis.core.swe.repo_tasks import Report
from tentalis.core.swe.tools import EDIT, MOST_TEXT_CHARS, SUBMIT
from tentalis.core.worlds import EpisodeLimits, PanelItem, Solution
from tentalis.verification.loading import LoadedTask
from tentalis.verification.store import NAME, StoredTask

NAMED: Final = 20
"""Tasks that are named to who writes one."""


class ReposWorld(RepositoryWorld):
    """The tasks that were added to this installation, each with what it takes to test it."""

    name = "repos"
    label = "Own repositories"
    version = "1"
    profile: ClassVar[Mapping[str, float]] = {"outcome": 1.0}
    limits = EpisodeLimits(turns=60, tokens=64_000, seconds=3_600.0, output_chars=16_000)

    def read_prompt(self, prompt: str) -> str:
        return find_task(prompt).name

    def find_files(self, task: str) -> Files:
        return open_store().find(task).load().files

    def run_shown_tests(self, task: str, patch: str) -> Report | None:
        return testing.run_shown_tests(task, patch)

    def judge(self, task: str, patch: str) -> Report:
        return testing.judge_patch(task, patch)

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        """What is asked, without the task's name."""
        return super().messages_for(find_task(prompt).task.issue.strip(), system_prompt)

    def solve(self, prompt: str, seed: int | None) -> Solution | None:
        """The gold patch, by edits from each file's end; None where it cannot be written so."""
        edits = list_edits(find_task(prompt).load())
        if edits is None:
            return None
        return Solution(calls=[*(write_call(EDIT, one) for one in edits), write_call(SUBMIT, {})])

    def cheat(self, prompt: str, seed: int | None) -> Sequence[Solution]:
        """Tests that are not collected, and a module that ends the process before they run."""
        loaded = find_task(prompt).load()
        patched = [one.name for one in parse_patch(loaded.task.gold_patch) if one.old is not None]
        edits: Sequence[dict[str, Any]] = (
            {"path": "conftest.py", "line": 1, "text": "collect_ignore_glob = ['*']", "count": 0},
            {"path": "sitecustomize.py", "line": 1, "text": "import os; os._exit(0)", "count": 0},
            *({"path": path, "line": 1, "text": "import os; os._exit(0)", "count": 0} for path in patched[:1]),
        )
        return [Solution(calls=[write_call(EDIT, one), write_call(SUBMIT, {})]) for one in edits]

    def find_kind(self, prompt: str) -> str:
        """Its repository, as far as the task's name tells: what stands before the last number."""
        name = read_name(prompt)  # it stays when the task is removed
        return (name.partition("@")[0].rpartition("-")[0] or "task") if NAME.fullmatch(name) else "no task"

    def say_limits(self) -> Sequence[str]:
        names = [one.name for one in open_store().list_tasks("train")]
        more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
        return [
            "A task that was added (`tentalis repo-task add DIRECTORY`), its name and below it what is asked",
            *names[:NAMED],
            *more,
        ]

    def check_prompt(self, prompt: str) -> None:
        """Raise ValueError where it is none of the tasks that were added, word for word."""
        task = find_task(prompt)
        if prompt.strip() != task.prompt:
            raise ValueError(f"{task.name}: wanted what it asks below its name, found {prompt[:120]!r}")

    def is_held_out(self, prompt: str) -> bool:
        return find_task(prompt).split != "train"

    def list_tasks(self, *, held_out: bool) -> Sequence[str]:
        return [one.prompt for one in open_store().list_tasks("held_out" if held_out else "train")]

    def draw_prompt(self, rng: Random) -> str | None:
        """One of those that were added to train on."""
        tasks = open_store().list_tasks("train")
        return rng.choice(tasks).prompt if tasks else None

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Those that were added to measure on, in an order that the seed draws; all of them come once before any comes
        again, with another seed for sampling."""
        prompts = list(self.list_tasks(held_out=True))
        Random(seed).shuffle(prompts)
        places = range(size if prompts else 0)
        return [PanelItem.placed(prompts[place % len(prompts)], seed=seed, place=place) for place in places]

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        return self.panel(size, seed)


def find_task(prompt: str) -> StoredTask:
    """The task that a prompt names in its first line. Raises RepoTaskError."""
    return open_store().find(read_name(prompt))


def read_name(prompt: str) -> str:
    """Its first line."""
    return prompt.strip().partition("\n")[0].strip()


def list_edits(loaded: LoadedTask) -> list[dict[str, Any]] | None:
    """What makes the files of the gold patch what it makes of them, as `edit` takes it; None where it removes or
    renames one, or a text is too long for a call."""
    try:
        patch = parse_patch(loaded.task.gold_patch)
        changed = apply_patch(loaded.files, patch)
        edits = [one for path, new in changed.items() for one in _edit_file(path, loaded.files.get(path), new)]
    except (PatchError, _NoEditError, UnicodeDecodeError):
        return None
    return edits if edits and all(len(one["text"]) <= MOST_TEXT_CHARS for one in edits) else None


class _NoEditError(Exception):
    """No edit of lines does this."""


def _edit_file(path: str, old: bytes | None, new: bytes | None) -> Iterator[dict[str, Any]]:
    if new is None:
        raise _NoEditError(path)
    before, behind = (_split(content or b"") for content in (old, new))
    if old is not None and old.endswith(b"\n") != new.endswith(b"\n"):
        raise _NoEditError(path)
    for kind, first, last, start, end in reversed(SequenceMatcher(None, before, behind, autojunk=False).get_opcodes()):
        if kind == "equal":
            continue
        if last > first:  # by itself: what replaces a line would be indented as that was
            yield {"path": path, "line": first + 1, "text": "", "count": last - first}
        if end > start:
            text = "\n".join(behind[start:end]) + "\n"
            yield {"path": path, "line": first + 1, "text": text, "count": 0}


def _split(content: bytes) -> list[str]:
    lines = content.decode().split("\n")
    return lines[:-1] if lines[-1] == "" else lines
