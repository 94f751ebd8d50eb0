"""Every command that the guides and the README show is one that there is, with options that there are."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.tasks.models import Attempt, Task
from tests.cli.conftest import Run
from tests.factories import make_project, make_task, make_user, make_worker

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))


def find_commands() -> Iterator[tuple[str, str]]:
    """(document, command) of each line that begins with `tentalis`, in blocks and in the text."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        blocks = [line for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
        said = re.findall(r"`(tentalis [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
        for line in (*blocks, *said):
            if line.startswith("tentalis ") and not line.endswith("\\"):
                yield document.name, line


def test_every_command_of_the_documents_is_understood(run: Run) -> None:
    asked: dict[tuple[str, ...], str] = {}
    for document, line in find_commands():
        words = tuple(shlex.split(line.split(" && ")[0].split(" -- ")[0], comments=True)[1:])  # behind --: another's
        asked.setdefault(words, f"{document}: {line}")
    assert len(asked) > 100
    wrong = []
    for said, where in asked.items():
        outcome = run(*said, "--help")
        if outcome.code != 0 or not outcome.out.partition("Usage: ")[2].startswith(f"tentalis {said[0]}"):
            wrong.append(f"{where}\n{outcome.err}")
    assert wrong == []


@pytest.mark.django_db(transaction=True)
def test_the_loop_of_an_agent_of_your_own_does_what_waits(live_server: LiveServer) -> None:
    text = (ROOT / "docs" / "guides" / "tasks.md").read_text(encoding="utf-8")
    (loop,) = re.findall(r"^```python\n(import httpx, openai\n.*?)^```", text, re.M | re.S)
    project = make_project()
    worker = make_worker(project, "harness", "outside")
    tasks = [make_task(project, worker=worker, state=Task.State.QUEUED, group_size=size) for size in (2, 1)]
    agent = make_user("alice")
    token = create_token(user=agent, name="t", scopes=Right.values, by=agent)[1]
    calls: list[tuple[str, str, str]] = []

    def my_own_loop(prompt: str, model: Any) -> str:
        sent = model.default_headers
        calls.append((sent["X-Tentalis-Project"], sent["X-Tentalis-Task"], sent["X-Tentalis-Attempt"]))
        return f"done {prompt}"

    exec(loop.replace("http://127.0.0.1:8000", live_server.url), {"TOKEN": token, "my_own_loop": my_own_loop})
    first, second = (str(task.pk) for task in tasks)
    assert sorted(calls) == sorted([("shop", first, "0"), ("shop", first, "1"), ("shop", second, "0")])
    assert Attempt.objects.filter(task__in=tasks).count() == 3
    assert not Task.objects.filter(state=Task.State.QUEUED).exists()
