"""The command line, signed in to a real platform."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from tentalis.cli import main
from tests.factories import make_project, make_user, make_worker


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own."""
    place = tmp_path / "home"
    monkeypatch.setenv("TENTALIS_HOME", str(place))
    monkeypatch.setenv("COLUMNS", "200")
    return place


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("task", "list")` as a shell would."""

    def call(*arguments: str) -> Outcome:
        code: Any = 0
        try:
            main(arguments)
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return Outcome(int(code or 0), said.out, said.err)

    return call


@pytest.fixture
def signed_in(run: Run, home: Path, live_server: LiveServer, transactional_db: None, tmp_path: Path) -> Run:
    """Signed in as alice, who manages `shop` with the worker `echo`."""
    project = make_project()
    make_worker(project)
    alice = make_user("alice")
    file = tmp_path / "token"
    file.write_text(create_token(user=alice, name="t", scopes=Right.values, by=alice)[1])
    outcome = run("login", "--url", live_server.url, "--token-file", str(file))
    assert outcome.code == 0, outcome
    return run
