"""What the experiments share: a stack that starts when the first one asks for it, and how they say what they found."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

from rich.table import Table

from tentalis.client.clients import Client
from tentalis.client.endpoints.calls import Call
from tentalis.platform.up import RunningStack
from tests.bench.own_work import LoopOpenError
from tests.bench.world_loop import STACK
from tests.chaos.stage import chaos_stack, read_admin_token

LEAST_UPDATES: Final = 2
"""For two adapters that served."""


class Bar(NamedTuple):
    """Something that an experiment has to show."""

    found: Any
    wanted: str
    met: bool


class Findings(NamedTuple):
    """What an experiment came to.

    Args:
        words: printed below the table. figures: of the JSON line.
    """

    table: Table
    figures: Mapping[str, Any]
    bars: Mapping[str, Bar]
    words: Sequence[str] = ()


@dataclass(frozen=True)
class ModelServer:
    """One that is there: its kind in our list of providers, its address up to /v1, a model of it, and its key."""

    kind: str
    url: str
    model: str
    key: str = ""


def add_provider(team: Client, project: str, name: str, server: ModelServer) -> None:
    """Make a server known to a project."""
    body = {"project": project, "name": name, "kind": server.kind, "base_url": server.url, "allow_private": True}
    team.send(Call("POST", "providers", body=body | ({"api_key": server.key} if server.key else {})))


@dataclass
class Ground:
    """Where the experiments of one call take place.

    Args:
        is_small: a few minutes for all of them: to see that they run, not for figures.
        judge: a model server that judges beside the scripted judge. backends: those compared with our engine.
        benchmark: that backends are asked.
    """

    is_small: bool
    judge: ModelServer | None
    backends: Sequence[ModelServer]
    benchmark: str
    _closing: ExitStack = field(default_factory=ExitStack)
    _loops: list[Mapping[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._closing.__exit__(*error)

    def choose(self, whole: int, small: int) -> int:
        return small if self.is_small else whole

    @cached_property
    def stack(self) -> RunningStack:
        """Postgres, Redis, web, gateway, relay, queue processes, sandboxes, engine and training box."""
        return self._closing.enter_context(chaos_stack(settings=STACK))

    @cached_property
    def team(self) -> Client:
        """The installation's admin, over REST."""
        url, token = self.stack.state().addresses["console_url"], read_admin_token(self.stack)
        return self._closing.enter_context(Client(url, token=token))

    @property
    def engine(self) -> ModelServer:
        """The stack's own, with its built-in model."""
        key = self.stack.environment(os.environ)["TENTALIS_ENGINE_KEY"]
        return ModelServer("engine", f"{self.stack.state().addresses['engine_url']}/v1", "desk", key)

    def run_loop(self, updates: int) -> Mapping[str, Any]:
        """`manage.py demo`: what it says of itself at its end."""
        self._loops.append(self.run_inside("manage.py", "demo", "--updates", str(updates)))
        return self._loops[-1]

    @property
    def learned_project(self) -> str:
        """One with a worker named desk who has learnt, so that it has adapters."""
        return str((self._loops[-1] if self._loops else self.run_loop(LEAST_UPDATES))["project"])

    def run_inside(self, *words: str) -> Mapping[str, Any]:
        """Run Python in a process of the stack's web side; the JSON of the last line that it prints.

        Raises:
            LoopOpenError: it failed.
        """
        environ = self.stack.environment(os.environ)
        done = subprocess.run([sys.executable, *words], env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoopOpenError(f"{' '.join(words)} failed: {done.stdout[-1_500:]}{done.stderr[-1_500:]}")
        return dict(json.loads(done.stdout.splitlines()[-1]))


def make_table(*columns: str, title: str) -> Table:
    """The first column holds words, the others figures."""
    table = Table(title=title)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    return table


def find_percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not below this share of them; NaN of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else float("nan")
