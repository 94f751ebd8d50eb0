"""Work in a world that is given up, or split wrongly: a word for whoever comes later, and nothing left behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError
from apps.feedback.models import Feedback
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Demonstration, Rollout
from apps.supervision.errors import AlreadyDecidedError
from apps.supervision.models import Proposal
from apps.supervision.services import decide, expire_proposals
from apps.tasks.models import Attempt, EpisodeTurn, Task
from apps.tasks.services import MAX_NESTED
from apps.workers.kinds import KINDS
from apps.workers.models import Worker
from apps.worlds.registry import get_world
from apps.worlds.sandboxes import open_client
from tentalis.core.worlds import AgentKind
from tentalis.sandbox.client import start_host
from tests.apps.tasks.test_episodes import find_pending, run_segment, submit
from tests.apps.worlds.tally_package import AGENT
from tests.apps.worlds.test_workbench import Script
from tests.factories import make_task, make_worker
from tests.sandbox.conftest import find_obstacle

pytestmark = pytest.mark.django_db

PROMPTS = {
    "terminal": "#12 Pack the folder mail for the courier.",
    "workbench": "Remind the vip Berg of the small bill.",
}


@pytest.fixture(params=sorted(PROMPTS))
def environment(request: pytest.FixtureRequest, tmp_path: Path, settings: Any) -> Iterator[str]:
    """A world with whatever it needs to be played in; at the end no sandbox may be left."""
    settings.ARTIFACTS = tmp_path / "artifacts"
    if request.param != "terminal":
        yield request.param
        return
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    with start_host(tmp_path / "host"), override_settings(SANDBOXES=tmp_path / "host"):
        yield request.param
        assert open_client().describe()["sandboxes"] == 0
        open_client().close()


@pytest.fixture
def supervised(environment: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Who solves the task of that world, and may make no call alone."""
    solution = get_world(environment).solve(PROMPTS[environment], 1)
    assert solution is not None
    script = Script([(call.name, call.arguments) for call in solution.calls])
    kind = AgentKind(**{**vars(AGENT), "name": "scripted", "make": lambda seat: script, "environment": ""})
    monkeypatch.setitem(vars(KINDS), "_loaded", ({**KINDS._things, "scripted": kind}, ()))
    return make_worker(project, "clerk", kind="scripted", supervision={"tools": ["*"], "deadline_s": 300})


def test_what_is_decided_after_cancelling_is_refused_in_a_real_world_and_leaves_nothing(
    supervised: Worker, environment: str, alice: User
) -> None:
    task = submit(supervised, alice, PROMPTS[environment], environment=environment, group_size=1)
    run_segment(task)
    decide(proposal=find_pending(task)[0], decision="approve", by=alice)
    run_segment(task)
    (proposal,) = find_pending(task)
    assert (proposal.turn, EpisodeTurn.objects.get(index=0).observations is None) == (1, False)
    flow.cancel(task=task, by=alice)
    for decision, answer in (("approve", ""), ("take_over", "By hand.")):
        with pytest.raises(AlreadyDecidedError, match=r"user:alice was first \(the task is cancelled\)"):
            decide(proposal=proposal, decision=decision, answer=answer, by=alice)
    attempt = Attempt.every.get()
    assert (attempt.state, attempt.error) == ("cancelled", "cancelled by alice while it was under way")
    assert (attempt.answer, attempt.outcome, attempt.verification) == ("", None, None)
    assert (proposal.state, proposal.outcome, expire_proposals()) == ("expired", "stop", [])
    assert not AuditEntry.objects.filter(kind="proposal.approved", subject_id=proposal.pk).exists()
    assert [turn.observations is None for turn in attempt.turns.order_by("index")] == [False, True]
    assert not attempt.turns.filter(snapshot__isnull=False).exists()
    assert not Segment.objects.filter(subject_id=task.pk, state__in=["open", "claimed"]).exists()
    assert not any(kept.objects.exists() for kept in (Feedback, Rollout, Demonstration))


def test_a_task_that_nobody_decided_in_time_keeps_no_state_to_go_on_from(
    supervised: Worker, environment: str, alice: User
) -> None:
    supervised.supervision |= {"on_timeout": "fail"}
    supervised.save()
    task = submit(supervised, alice, PROMPTS[environment], environment=environment, group_size=1)
    run_segment(task)
    decide(proposal=find_pending(task)[0], decision="approve", by=alice)
    run_segment(task)
    Proposal.objects.filter(state="pending").update(deadline_at="2020-01-01T00:00Z")
    (proposal,) = expire_proposals()
    task.refresh_from_db()
    assert (task.state, task.failure) == ("failed", f"nobody decided proposal {proposal.pk} in time")
    assert (Attempt.every.get().state, Attempt.every.get().error) == ("lost", task.failure)
    assert not EpisodeTurn.objects.filter(snapshot__isnull=False).exists()


def test_work_in_a_world_that_is_split_for_ever_is_refused_before_anything_is_tried(
    supervised: Worker, environment: str, alice: User
) -> None:
    task = None
    for _ in range(MAX_NESTED + 1):
        values = {"environment": environment, "prompt": PROMPTS[environment], "parent": task}
        task = make_task(supervised.project, supervised, **values)
    count = Task.objects.count()
    with pytest.raises(BadInputError) as caught:
        submit(supervised, alice, PROMPTS[environment], environment=environment, parent=task)
    assert caught.value.errors == {
        "parent": ["wanted at most 32 tasks above each other, found more: this work is split again and again"]
    }
    assert (Task.objects.count(), Attempt.every.count(), Segment.objects.count()) == (count, 0, 0)
