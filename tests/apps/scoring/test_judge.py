"""A model's judgement by votes, on a model server that is not ours."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project
from apps.inference import allowances
from apps.inference.models import Provider
from apps.outbox.models import Segment
from apps.outbox.services import release
from apps.scoring.models import StepScore
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_chat_task
from tests.fakes import FakeModelServer
from tests.links import run_link


def verdict(score: float, steps: tuple[float, float] = (0.5, 0.5)) -> str:
    words = [{"index": index, "score": value, "reason": f"as {value}"} for index, value in enumerate(steps)]
    return json.dumps({"steps": words, "overall": score, "reason": f"said {score}"})


def in_turn(*answers: str) -> Callable[[str, int], str]:
    """A reply that gives each answer once, in the order of asking."""
    turns = count()
    return lambda prompt, index: answers[next(turns)]


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer(models=["judge-model"], is_plain=True) as running:
        yield running


@pytest.fixture
def judge(server: FakeModelServer, settings: Settings) -> None:
    """The installation's model is the server's."""
    changes = {"LLM_MODEL": "judge-model", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": server.url}
    settings.TENTALIS = settings.TENTALIS | changes


@pytest.fixture
def judged(project: Project, judge: None) -> Task:
    """A chat task of one attempt, in a project whose one scorer is a judge of three votes."""
    project.weight_profiles = {"chat": {"prm": 0.75, "effort": 0.25}}
    project.save()
    return make_chat_task(project, ["first"])


def get_score(task: Task, step: int | None = None) -> StepScore:
    rows = StepScore.objects.filter(attempt__task=task, scorer="prm")
    return rows.get(step__isnull=True) if step is None else rows.get(step__index=step)


def test_the_median_counts_and_the_spread_is_kept_for_the_whole_and_each_step(
    judged: Task, server: FakeModelServer
) -> None:
    server.reply = in_turn(verdict(0.2, (0.0, 1.0)), verdict(0.9, (0.1, 1.0)), verdict(0.4, (0.6, 1.0)))
    score_tasks([judged.pk])
    whole = get_score(judged)
    assert (whole.score, whole.reason) == (0.4, "said 0.4")
    assert whole.spread == pytest.approx(0.7)
    assert sorted(whole.details["votes"]) == [0.2, 0.4, 0.9]
    assert (whole.details["judges"], whole.details["invalid_votes"]) == (["default"], 0)
    first, second = get_score(judged, 0), get_score(judged, 1)
    assert (first.score, first.reason) == (0.1, "as 0.1")
    assert first.spread == pytest.approx(0.6)
    assert (second.score, second.spread) == (1.0, 0.0)
    assert judged.attempts.get().score == pytest.approx(0.75 * 0.4 + 0.25 * 2 / 3)


def test_a_broken_vote_is_counted_and_stands_for_no_number(judged: Task, server: FakeModelServer) -> None:
    server.reply = in_turn(verdict(0.2), "I would rather not.", verdict(0.6))
    score_tasks([judged.pk])
    whole = get_score(judged)
    assert whole.score == pytest.approx(0.4)
    assert whole.details["invalid_votes"] == 1
    assert list(whole.details["invalid_reasons"].values()) == [1]


def test_without_a_quorum_of_votes_the_judge_is_unscored_and_its_weight_goes_on(
    judged: Task, server: FakeModelServer
) -> None:
    server.reply = in_turn(verdict(0.2), "no", verdict(7))
    score_tasks([judged.pk])
    whole = get_score(judged)
    assert whole.score is None
    assert whole.reason.startswith("1 of 3 votes valid, wanted at least half")
    attempt = judged.attempts.get()
    assert attempt.score is None
    assert [lost["scorer"] for lost in attempt.score_details["redistributed"]] == ["prm", "effort"]


@pytest.mark.parametrize(("mode", "error"), [("broken", "ProviderBusyError"), ("refusing", "ProviderRefusedError")])
def test_a_judge_that_cannot_be_asked_leaves_the_servers_words(
    judged: Task, server: FakeModelServer, mode: str, error: str
) -> None:
    server.mode = mode  # type: ignore[assignment]
    score_tasks([judged.pk])
    assert f"3 x {error}" in get_score(judged).reason


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_limit_ours", [True, False])
def test_a_judge_that_takes_one_vote_a_minute_casts_three_and_no_vote_is_asked_for_twice(
    judged: Task, server: FakeModelServer, is_limit_ours: bool, settings: Settings
) -> None:
    """Whether the limit is one that we keep to ahead, or the server says 429 and when: the link waits, as a time on its
    row, and goes on with what it was answered."""
    provider = Provider.objects.create(
        project=judged.project, name="box", kind="openai", base_url=server.url, allow_private=True
    )
    settings.TENTALIS = settings.TENTALIS | {"LLM_MODEL": "box/judge-model", "INFERENCE_BASE_URL": ""}
    asked: list[int] = []

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if not is_limit_ours and len(asked) == minute:
            return 429, {"error": {"message": "slow down"}}, {"Retry-After": "40"}
        asked.append(body["seed"])
        return *server._serve(path, body), {}

    server._answer, server.reply = answer, lambda prompt, index: verdict(0.5)  # type: ignore[method-assign]
    if is_limit_ours:
        Provider.objects.filter(pk=provider.pk).update(requests_per_minute=1)
    Segment.objects.create(
        kind="work", subject_id=judged.pk, project_id=judged.project_id, queue="scorers",
        links=["tasks.work", "scoring.score", "feedback.open_review"], position=1,
    )  # fmt: skip
    for minute in (1, 2, 3):
        forget_minutes(provider)
        segment = Segment.objects.get()
        assert not StepScore.objects.exists()
        is_done = run_link(lambda pk: score_tasks([pk]), segment.pk, 1)
        segment = Segment.objects.get()
        assert (len(asked), is_done, segment.state, segment.attempts) == (minute, minute == 3, "open", 0)
        waits = segment.run_after - timezone.now()
        assert is_done or timedelta(0) < waits < timedelta(minutes=5)
        assert is_done or is_limit_ours or waits > timedelta(seconds=39)
        release(segment, wait_s=0)
    assert (sorted(asked), get_score(judged).score) == ([0, 1, 2], 0.5)


def forget_minutes(provider: Provider) -> None:
    """As when a minute has gone by."""
    redis = allowances._connect()
    redis.delete(*redis.scan_iter(f"{allowances.PREFIX}:provider:{provider.pk}:*", count=1000), "none")


def test_all_votes_on_all_attempts_are_cast_at_the_same_time(judged: Task, server: FakeModelServer) -> None:
    task = make_chat_task(judged.project, ["first", "second"])
    together = threading.Barrier(6)

    def reply(prompt: str, index: int) -> str:
        together.wait(timeout=20)  # breaks, and the vote with it, unless all six wait here at once
        return verdict(0.5)

    server.reply = reply
    score_tasks([task.pk])
    assert list(StepScore.objects.filter(scorer="prm", step=None).values_list("score", flat=True)) == [0.5, 0.5]


def test_by_the_built_in_weights_it_judges_the_work_and_what_was_made_up(
    project: Project, server: FakeModelServer, judge: None
) -> None:
    server.reply = lambda prompt, index: verdict(0.75)
    task = make_chat_task(project, ["first"])
    score_tasks([task.pk])
    assert get_score(task).score == 0.75
    assert StepScore.objects.get(scorer="hallucination", step=None).score == 0.75
    assert judged_words(server) == {"project rubric": False}


def judged_words(server: FakeModelServer) -> dict[str, bool]:
    """Whether the judge was shown a rubric."""
    return {"project rubric": any("<<<RUBRIC" in json.dumps(request.body) for request in server.requests)}


def test_the_judge_reads_the_projects_rubric(judged: Task, server: FakeModelServer) -> None:
    judged.project.rubric = "Always be kind."
    judged.project.save()
    server.reply = lambda prompt, index: verdict(0.5)
    score_tasks([judged.pk])
    assert judged_words(server) == {"project rubric": True}
