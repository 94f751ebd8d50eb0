"""An attempt in the browser as rows: killed in the middle, gone on with by another process, and shown as it went."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.tasks.models import Attempt, EpisodeTurn
from apps.tasks.observations import find_observed
from apps.workers.kinds import KINDS
from apps.worlds.gui import world as gui
from apps.worlds.gui.browser import WIDTH
from tentalis.core.gui.tasks import draw_task
from tentalis.core.worlds import AgentKind, TurnAsked, TurnDraft
from tests.apps.console.builders import sign_in
from tests.apps.tasks.test_episodes import KilledError, run_segment, submit
from tests.apps.worlds.tally_package import AGENT
from tests.factories import make_worker
from tests.worlds.test_gui import Script, World

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

PROMPT = draw_task(Random(6), held_out=False, family="stock").prompt


class KilledScript(Script):
    """The house's own way; the process dies before its fourth turn, once."""

    is_killed = False

    def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
        if asked[0].turn == 3 and not self.is_killed:
            self.is_killed = True
            raise KilledError
        return super().take_turns(asked)


@pytest.fixture
def browser() -> Iterator[None]:
    yield
    gui._open_host().stop()


def test_an_episode_in_the_browser_goes_on_where_it_was_and_its_pages_show_each_click(
    project: Project, alice: User, browser: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ARTIFACTS = tmp_path
    (told,) = World.messages_for(PROMPT, "")
    agent = KilledScript({told["content"]: World.solve(PROMPT, 1).calls})
    kind = AgentKind(**{**vars(AGENT), "name": "scripted", "make": lambda seat: agent, "environment": ""})
    monkeypatch.setitem(vars(KINDS), "_loaded", ({**KINDS._things, "scripted": kind}, ()))
    worker = make_worker(project, "clerk", kind="scripted")
    task = submit(worker, alice, PROMPT, environment="gui", group_size=1)
    with pytest.raises(KilledError):
        run_segment(task)
    left = EpisodeTurn.objects.get(index=2)
    assert left.snapshot is not None
    gui._open_host().stop()  # as with its process
    run_segment(task)
    attempt = Attempt.every.get()
    assert (attempt.state, attempt.outcome, attempt.error) == ("answered", 1.0, "")
    assert attempt.verification is not None
    assert attempt.verification["details"]["valid_actions"] == len(World.solve(PROMPT, 1).calls)
    turns = list(attempt.turns.all())
    assert all(turn.snapshot is None for turn in turns)
    shots = [seen["screenshot"] for turn in turns for seen in turn.observations or ()]
    assert len(shots) == len(turns)
    assert all(shot["width"] == WIDTH and find_observed(attempt.pk, shot["sha256"]) for shot in shots)
    client = sign_in(alice)
    page = client.get(reverse("console:task", args=("shop", task.pk))).content.decode()
    assert page.count('class="screenshot"') == len(turns)
    assert page.count('class="ring"') == len(turns) - 1  # `done` is done at no place
    address = reverse("console:screenshot", args=("shop", task.pk, 0, shots[0]["sha256"]))
    assert client.get(address).content.startswith(b"\x89PNG")
