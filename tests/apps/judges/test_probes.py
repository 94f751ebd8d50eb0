"""Judges are probed, and what one says that is below its bar trains nothing."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import find_words_beside_people
from apps.checks.graders import convene_graders
from apps.feedback.comparing import compare
from apps.feedback.create_reviews import open_reviews
from apps.feedback.gold import add_gold
from apps.feedback.hints import extract_hints
from apps.feedback.judgement import JudgementInput, StepRating, store_feedback
from apps.feedback.judges import find_judges
from apps.feedback.managers import ManagerWord
from apps.feedback.managers.verdict import VerdictManager
from apps.feedback.models import Feedback, Hint, Review
from apps.feedback.selectors import effective_judgement, find_hint
from apps.feedback.unnamed import count_unnamed
from apps.inference.models import Exchange, Provider
from apps.judges.models import JudgeProbe, tell_judge
from apps.judges.selectors import find_standing
from apps.judges.services import fail_probe, probe_judge
from apps.outbox.kinds import FATES, SegmentKind
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.pipeline.probing import AGAIN, EVERY, probe_judges
from apps.rollouts.services import find_fault
from apps.scoring.models import StepScore
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from tentalis.core.scoring.judge_probes import BAR, measure_judge
from tentalis.core.scoring.probe_items import ITEMS
from tests.apps.feedback.builders import make_chat_task
from tests.edges.caller import Caller
from tests.factories import make_attempt, make_task, make_worker
from tests.fakes import FakeModelServer
from tests.scripted_judges import TASTES, ScriptedJudge, answers_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer(models=["judge"], is_plain=True, reply=ScriptedJudge().reply_to_json) as running:
        yield running


@pytest.fixture
def box(project: Project, server: FakeModelServer, settings: Settings) -> Provider:
    """The judge of a project's policy and the installation's are two names of models of one server."""
    changes = {"LLM_MODEL": "judge", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": server.url}
    settings.TENTALIS = settings.TENTALIS | changes
    return Provider.objects.create(
        project=project, name="box", kind="openai", base_url=server.url, allow_private=True, default_model="judge"
    )


def note_probe(project: Project, verdict: str, *, provider: Provider | None = None, days: int = 0) -> JudgeProbe:
    """A probe that is done, without one being made."""
    return JudgeProbe.objects.create(
        project=project, provider=provider, model="judge", version="0" * 12, state="done", verdict=verdict,
        words="position: +1.00" if verdict == "below" else "", asked_by="user:alice",
        finished_at=timezone.now() - timedelta(days=days),
    )  # fmt: skip


def do(row: JudgeProbe) -> JudgeProbe:
    assert Segment.objects.filter(kind="probe", subject_id=row.pk).exists()
    probe_judge(row.pk, people=find_words_beside_people, by="judges")
    row.refresh_from_db()
    return row


def test_a_judge_that_takes_the_first_is_found_out_and_trains_nothing_any_more(
    project: Project, box: Provider, server: FakeModelServer, alice: User
) -> None:
    server.reply = ScriptedJudge(TASTES["first"]).reply_to_json
    row = do(flow.ask_probe(project=project, model="box/judge", by=alice))
    assert (row.state, row.verdict, row.judge, row.first) == ("done", "below", "box/judge", None)
    figures = {one["name"]: one for one in row.figures}
    assert (list(figures), figures["position"]["value"]) == (list(BAR), 1.0)
    assert "position: +1.00" in row.words
    told = AuditEntry.objects.get(kind="judge_probe.finished")
    assert (told.subject_id, told.payload["verdict"], told.payload["judge"]) == (row.pk, "below", "box/judge")
    costs = Exchange.objects.filter(project=project, turn="judge")
    assert costs.count() == len(server.requests) == len(ITEMS) * 15, "each question costs as a judge's do"
    project.review_policy = {"who": "ai", "ai_manager": "llm", "model": "box/judge"}
    project.save()
    before = len(server.requests)
    task = make_chat_task(project, ["first"])
    open_reviews([task.pk])
    assert not Feedback.objects.filter(task=task).exists()
    review = Review.objects.get(task=task)
    assert review.state == Review.State.SKIPPED
    assert f"the judge box/judge is below its bar (probe {row.pk}), and trains nothing: " in review.reason
    assert len(server.requests) == before, "what would be set aside is not paid for"
    standing = find_standing(project, None, "judge")
    assert (standing.words, standing.barred) == ("not probed", ""), "of another server's model nothing is known"


def test_a_fair_judge_goes_on_to_train_and_its_second_probe_tells_its_drift(
    project: Project, box: Provider, server: FakeModelServer, alice: User
) -> None:
    project.review_policy = {"who": "ai", "ai_manager": "llm", "model": "box/judge", "only_probed_judges": True}
    project.save()
    early = make_chat_task(project, ["first"])
    open_reviews([early.pk])
    assert "was not probed, as the project demands" in Review.objects.get(task=early).reason
    first = do(flow.ask_probe(project=project, model="box/judge", by=alice))
    assert (first.verdict, first.words) == ("above", "")
    later = make_chat_task(project, ["first"])
    open_reviews([later.pk])
    assert Feedback.objects.get(task=later).score == 0.8
    server.reply = ScriptedJudge(score_right=0.2).reply_to_json
    again = do(flow.ask_probe(project=project, model="box/judge", by=alice))
    assert (again.verdict, again.first) == ("below", first)
    assert again.words.startswith("drift: -0.30 ")


def test_a_judge_that_is_away_is_unscored_and_stands_as_it_stood(
    project: Project, box: Provider, server: FakeModelServer, alice: User
) -> None:
    note_probe(project, "above", provider=box)
    server.mode = "refusing"
    row = do(flow.ask_probe(project=project, model="box/judge", by=alice))
    assert (row.state, row.verdict) == ("done", "unscored")
    (known,) = [one for one in row.figures if one["name"] == "known"]
    assert (known["value"], sum(known["unscored"].values())) == (None, len(ITEMS))
    assert any("against the policy" in cause for cause in known["unscored"])
    assert len(server.requests) == 2 * len(ITEMS), "of whom nothing can be scored nothing more is asked"
    assert find_standing(project, box, "judge").words.startswith("above its bar")
    note_probe(project, "below", provider=box)
    do(flow.ask_probe(project=project, model="box/judge", by=alice))
    assert find_standing(project, box, "judge").barred, "nor does being away bring one back that was below"


def test_a_probe_that_failed_goes_on_when_it_is_replayed_unless_its_judge_is_probed_again(
    project: Project, box: Provider, server: FakeModelServer, alice: User
) -> None:
    revive = FATES[SegmentKind.PROBE].on_replay
    assert revive is not None
    row = flow.ask_probe(project=project, model="box/judge", by=alice)
    fail_probe(row.pk, link="calibration.probe_judge", reason="gone", by="judges")
    other = flow.ask_probe(project=project, model="box/judge", by=alice)
    with pytest.raises(ConflictError, match="the judge box/judge is being probed"):
        revive(row.pk, link="calibration.probe_judge", by="user:alice")
    fail_probe(other.pk, link="calibration.probe_judge", reason="gone", by="judges")
    assert do(row).state == "failed", "nobody took it up again"
    assert server.requests == []
    JudgeProbe.objects.filter(pk=row.pk).update(answers=answers_of(ScriptedJudge()))
    revive(row.pk, link="calibration.probe_judge", by="user:alice")
    row = do(row)
    assert (row.state, row.verdict, row.failure) == ("done", "above", "")
    assert server.requests == [], "what was asked before is not asked again"


def test_scorers_checks_and_signals_ask_no_judge_below_its_bar_and_say_so(
    project: Project, box: Provider, server: FakeModelServer
) -> None:
    project.weight_profiles = {"chat": {"prm": 0.75, "effort": 0.25}}
    project.save()
    spec = {"check": "judge", "rubric": "Be right.", "model": ""}
    note_probe(project, "above")
    task = make_chat_task(project, ["first"])
    score_tasks([task.pk])
    assert StepScore.objects.get(attempt__task=task, scorer="prm", step=None).score == 0.8
    row = note_probe(project, "below")
    asked = len(server.requests)
    task = make_chat_task(project, ["second"])
    score_tasks([task.pk])
    kept = StepScore.objects.get(attempt__task=task, scorer="prm", step=None)
    assert (kept.score, kept.reason[:37]) == (None, "the judge judge is below its bar (pro")
    attempt = task.attempts.get()
    assert attempt.score is None, "how hard it tried says nothing by itself"
    assert f"probe {row.pk}" in attempt.score_details["words"]
    (trains, measures) = (convene_graders(project, [spec], trains=trains) for trains in (True, False))
    assert trains is not None
    assert measures is not None
    assert f"probe {row.pk}" in str(trains.voters[""])
    assert measures.names != trains.names, "an evaluation asks it still"
    assert len(server.requests) == asked


def test_what_is_asked_wrongly_is_refused(project: Project, alice: User, bob: User, settings: Settings) -> None:
    settings.TENTALIS = settings.TENTALIS | {"LLM_MODEL": ""}
    with pytest.raises(BadInputError, match="no model is configured to judge here"):
        flow.ask_probe(project=project, model="", by=alice)
    flow.ask_probe(project=project, model="mine", by=alice)
    with pytest.raises(ConflictError, match="the judge mine is being probed"):
        flow.ask_probe(project=project, model="mine", by=alice)
    with pytest.raises(NotAllowedError):
        flow.ask_probe(project=project, model="other", by=bob)
    assert JudgeProbe.objects.count() == Segment.objects.filter(kind="probe").count() == 1


def test_people_count_where_they_judged_the_same_work_as_the_judge(project: Project, box: Provider) -> None:
    attempt = make_attempt(make_task(project))
    for handle, source in (("agent:llm:judge", "human"), ("agent:llm:other", "human"), ("agent:pairs:judge", "peer")):
        rater = Rater.objects.create(project=project, handle=handle, kind="ai")
        Comparison.objects.create(
            project=project, rater=rater, attempt=attempt, said=0.9, truth=1.0, source=source, counts=True
        )
    rater, step = Rater.objects.get(handle="agent:llm:judge"), attempt.steps.first()
    Comparison.objects.create(
        project=project, rater=rater, attempt=attempt, step=step, said=0.2, truth=0.0, source="gold", counts=True
    )
    assert find_words_beside_people(JudgeProbe(project=project, model="judge")) == [[(0.2, 0.0), (0.9, 1.0)]]
    Rater.objects.filter(pk=rater.pk).update(counted_from=timezone.now() + timedelta(seconds=1))
    assert find_words_beside_people(JudgeProbe(project=project, model="judge")) == [], "it began anew since"


def test_probes_are_asked_for_and_read_by_rest(project: Project, alice: User, box: Provider) -> None:
    note_probe(project, "below", provider=box)
    _, text = create_token(user=alice, name="t", scopes=[Right.EVALS_READ, Right.EVALS_WRITE], by=alice)
    caller = Caller(text)
    made = caller.post("judge-probes", {"project": project.slug, "model": "box/judge"})
    assert made.status == 201, made
    assert {name: made.body[name] for name in ("judge", "state", "verdict")} == {
        "judge": "box/judge", "state": "queued", "verdict": "",
    }  # fmt: skip
    found = caller.get("judge-probes?verdict=below").body["results"]
    assert [one["words"] for one in found] == ["position: +1.00"]
    assert caller.get(f"judge-probes/{made.body['id']}").body["model"] == "judge"


def test_a_judge_in_use_is_probed_again_after_thirty_days_and_one_that_nobody_asks_is_not(
    project: Project, box: Provider
) -> None:
    old, fresh = note_probe(project, "above", provider=box), note_probe(project, "below")
    JudgeProbe.objects.filter(pk=old.pk).update(created_at=timezone.now() - EVERY - timedelta(hours=1))
    assert probe_judges() == 0, "nobody asked the old one since, and the other one is fresh"
    Exchange.objects.create(project=project, provider=box, model="judge", turn="main")
    assert probe_judges() == 0, "its model worked, and judged nothing"
    Exchange.objects.create(project=project, provider=box, model="judge", turn="manager")
    assert [probe_judges(), probe_judges()] == [1, 0]
    made = JudgeProbe.objects.exclude(pk__in=[old.pk, fresh.pk]).get()
    assert (made.judge, made.state, made.asked_by) == ("box/judge", "queued", "timetable")
    assert Segment.objects.filter(kind="probe", subject_id=made.pk).exists()
    project.archived_at = timezone.now()
    project.save()
    JudgeProbe.objects.filter(pk=made.pk).delete()
    assert probe_judges() == 0, "an archived project asks nobody"


def test_where_probes_are_demanded_those_that_settings_name_are_probed_by_themselves(
    project: Project, box: Provider
) -> None:
    assert probe_judges() == 0
    project.review_policy = {"model": "box/judge", "only_probed_judges": True}
    project.save()
    assert [probe_judges(), probe_judges()] == [2, 0]
    assert {one.judge for one in JudgeProbe.objects.all()} == {"box/judge", "judge"}
    JudgeProbe.objects.update(state="done", verdict="unscored", created_at=timezone.now() - AGAIN)
    assert probe_judges() == 2, "those that were away are asked again the next day"
    JudgeProbe.objects.update(state="done", verdict="below", created_at=timezone.now() - AGAIN)
    assert probe_judges() == 0, "one that is below its bar is probed when somebody wants it"


def test_the_page_of_quality_shows_how_judges_stand_and_has_one_probed(
    project: Project, box: Provider, alice: User
) -> None:
    project.review_policy = {"model": "box/judge"}
    project.save()
    client = Client()
    client.force_login(alice)
    row = note_probe(project, "below")
    row.figures = [vars(one) for one in measure_judge(answers_of(ScriptedJudge(TASTES["first"])))]
    row.save()
    page = client.get(reverse("console:quality", args=(project.slug,))).content.decode()
    assert page.count("not probed") == 1
    assert f"the judge judge is below its bar (probe {row.pk}), and trains nothing: position: +1.00" in page
    assert "it is the first time" in page
    client.post(reverse("console:judge-probe", args=(project.slug,)), {"model": "box/judge"})
    assert JudgeProbe.objects.get(state="queued").judge == "box/judge"
    assert find_judges(project).standing == "not probed"


def test_what_a_judge_said_before_it_fell_is_set_aside_where_rewards_are_made(
    project: Project, box: Provider, alice: User
) -> None:
    project.weight_profiles = {"chat": {"prm": 0.75, "effort": 0.25}}
    project.review_policy = {"who": "ai", "ai_manager": "llm", "model": "box/judge"}
    project.save()
    task = make_chat_task(project, ["first"])
    score_tasks([task.pk])
    (attempt,) = task.attempts.all()
    asked = attempt.score_details["judge"]
    assert asked == {"provider": None, "model": "judge", "scorers": ["prm"]}
    task.state = Task.State.SCORING
    task.save()
    open_reviews([task.pk])
    (judged,) = effective_judgement(task).values()
    assert (judged.reward, judged.reward_source, judged.set_aside) == (0.8, "ai", "")
    row = note_probe(project, "below", provider=box)
    (judged,) = effective_judgement(task).values()
    assert judged.reward == pytest.approx(0.75 * 0.8 + 0.25 * 2 / 3), "scorers asked another judge, and count"
    assert judged.set_aside == f"the judge box/judge is below its bar (probe {row.pk}), and trains nothing"
    steps = set(judged.step_scores.values())
    row = note_probe(project, "below")
    (judged,) = effective_judgement(task).values()
    assert (judged.reward, judged.step_scores) == (None, {}), "how hard it tried is no reward by itself"
    assert steps == {0.5}
    assert f"probe {row.pk}" in judged.set_aside
    whole = make_attempt(make_task(project))
    fault = find_fault(task, whole, judged, None, is_held_out=False)
    assert fault == f"neither a reward nor a hint: {judged.set_aside}"
    note_probe(project, "above")
    note_probe(project, "above", provider=box)
    (judged,) = effective_judgement(task).values()
    assert (judged.reward, judged.set_aside) == (0.8, ""), "back above its bar, all of it counts again"


@pytest.mark.parametrize(
    ("author", "source", "is_named"),
    [
        ("agent:rubric:chat", "ai", True),
        ("agent:verdict:echo", "ai", True),
        ("agent:llm:judge", "ai", False),
        ("supervisor:llm:judge", "outside", True),
        ("supervisor:llm:judge", "outside", False),
        ("signal:refused", "implicit", True),
    ],
)
def test_whoever_asked_a_judge_that_fell_is_set_aside_and_shown_as_withheld(
    project: Project, box: Provider, alice: User, author: str, source: str, is_named: bool
) -> None:
    """Neither its score nor its hint counts; kept before it was told who judged, the model's name is what tells it."""
    task = make_chat_task(project, ["first"], state=Task.State.LEARNING)
    (attempt,) = task.attempts.all()
    words = JudgementInput(steps=[StepRating(attempt_index=0, step_index=None, score=0.9)], hint_text="Be brief.")
    judge = tell_judge(box.pk, "judge") if is_named else {}
    given = store_feedback(task, words, source=source, author=author, judge=judge)
    Hint.objects.create(task=task, feedback=given, text="Be brief.", source="reviewer")
    if is_named:
        note_probe(project, "below")
    assert effective_judgement(task)[attempt.pk].reward == 0.9, "another server's model of that name"
    assert find_hint(task) is not None
    row = note_probe(project, "below", provider=box)
    judged = effective_judgement(task)[attempt.pk]
    said = f"the judge box/judge is below its bar (probe {row.pk}), and trains nothing"
    assert (judged.reward, judged.set_aside, find_hint(task)) == (None, said, None)
    extract_hints([task.pk])
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    caller = Caller(text)
    assert caller.send("GET", f"feedback/{given.pk}").body["withheld"] == said
    client = Client()
    client.force_login(alice)
    for page in (reverse("console:task", args=["shop", task.pk]), reverse("console:feedback", args=["shop", given.pk])):
        assert f"Withheld: {said}" in client.get(page).content.decode()


def test_words_that_name_no_judge_are_counted_and_shown_where_one_fell(
    project: Project, box: Provider, alice: User
) -> None:
    """By managers that ask a judge, before its probe ended; they count on, unless the manager is quarantined."""
    words = JudgementInput(score=0.9)

    def say(author: str, judge: dict[str, object] | None = None) -> None:
        task = make_chat_task(project, ["first"], state=Task.State.LEARNING)
        store_feedback(task, words, source="ai", author=author, judge=judge or {})

    for author in ("agent:rubric:chat", "agent:rubric:chat", "agent:rubric:desk", "agent:verdict:echo", "agent:llm:a"):
        say(author)
    say("agent:rubric:chat", tell_judge(box.pk, "judge"))
    client = Client()
    client.force_login(alice)
    page = reverse("console:quality", args=["shop"])
    assert "name no judge" not in client.get(page).content.decode()
    row = note_probe(project, "below", provider=box)
    say("agent:rubric:chat")
    assert count_unnamed(project, [row]) == {"agent:rubric:chat": 2, "agent:verdict:echo": 1}
    told = " ".join(client.get(page).content.decode().split())
    assert "they count on: 2 words of" in told
    Rater.objects.create(project=project, handle="agent:rubric:chat", kind="agent", quarantined_at=timezone.now())
    assert count_unnamed(project, [row]) == {"agent:verdict:echo": 1}


def test_of_a_signal_that_a_rule_gave_only_the_judges_hint_is_withheld(project: Project, box: Provider) -> None:
    task = make_chat_task(project, ["first"], state=Task.State.LEARNING)
    words = JudgementInput(steps=[StepRating(attempt_index=0, step_index=None, score=0.1)], hint_text="Be brief.")
    judge = tell_judge(box.pk, "judge") | {"of": "hint"}
    store_feedback(task, words, source="implicit", author="signal:refused", judge=judge)
    note_probe(project, "below", provider=box)
    extract_hints([task.pk])
    hint = Hint.objects.get()
    assert (hint.text, hint.reason[:43]) == ("", "the judge box/judge is below its bar (probe")
    (judged,) = effective_judgement(task).values()
    assert (judged.reward, judged.set_aside) == (0.1, "")


def test_what_a_check_found_by_a_judge_that_fell_is_no_truth_any_more(
    project: Project, box: Provider, server: FakeModelServer, alice: User
) -> None:
    """It gives no reward, no rater is measured by it, it makes no gold item, and no step scorer learns of it."""
    project.weight_profiles = {"chat": {"outcome": 1.0}}
    project.save()
    task = make_chat_task(project, ["first"], checks=[{"check": "judge", "rubric": "Be right.", "model": "box/judge"}])
    score_tasks([task.pk])
    (attempt,) = task.attempts.all()
    assert attempt.score_details["checked_by"] == [tell_judge(box.pk, "judge")]
    outcome = attempt.outcome
    assert outcome is not None
    (judged,) = effective_judgement(task).values()
    assert (judged.reward, judged.reward_source) == (outcome, "verified")
    row = note_probe(project, "below", provider=box)
    (judged,) = effective_judgement(task).values()
    assert (judged.reward, f"(probe {row.pk})" in judged.set_aside) == (None, True)
    words = JudgementInput(score=1.0 - outcome)
    compare([store_feedback(task, words, source="human", author=alice.handle)])
    assert not Comparison.objects.filter(source="verified").exists()
    with pytest.raises(BadInputError):
        add_gold(task=task, by=alice)
    attempt.refresh_from_db()
    assert attempt.outcome == outcome, "it is withheld, and stays"
    note_probe(project, "above", provider=box)
    (judged,) = effective_judgement(task).values()
    assert judged.reward is not None


def test_a_check_that_no_judge_was_asked_for_stays_a_truth(
    project: Project, box: Provider, server: FakeModelServer
) -> None:
    judge = {"check": "judge", "rubric": "Be right.", "model": "box/judge"}
    number = {"check": "grader", "name": "number", "reference": 3}
    checks = [{"all": [number, judge]}]
    task = make_chat_task(project, ["first"], checks=checks)
    score_tasks([task.pk])
    (attempt,) = task.attempts.all()
    assert (attempt.outcome, "checked_by" in attempt.score_details) == (0.0, False)
    checks = [{"all": [judge | {"min": 1.0}, judge | {"model": "box/jud"}]}]
    task = make_chat_task(project, ["first"], checks=checks)
    score_tasks([task.pk])
    (attempt,) = task.attempts.all()
    assert attempt.score_details["checked_by"] == [tell_judge(box.pk, "judge")], "the other's name begins like its own"


def test_what_another_settles_stands_when_a_judge_that_was_asked_too_falls(
    project: Project, box: Provider, server: FakeModelServer, alice: User
) -> None:
    """The judge's own word is withheld, where it counts and where it is shown."""
    project.weight_profiles = {"chat": {"outcome": 1.0}}
    project.save()
    judge = {"check": "judge", "rubric": "Be right.", "model": "box/judge", "min": 1.0}
    checks = [{"any": [judge, judge | {"model": "box/second", "min": 0.1}]}]
    server.models.append("second")
    settled, alone = (make_chat_task(project, ["first"], checks=given) for given in (checks, [judge]))
    score_tasks([settled.pk])
    score_tasks([alone.pk])
    row = note_probe(project, "below", provider=box)
    said = f"the judge box/judge is below its bar (probe {row.pk}), and trains nothing"
    (judged,) = effective_judgement(settled).values()
    assert (judged.reward, judged.reward_source, judged.set_aside) == (1.0, "verified", said)
    (judged,) = effective_judgement(alone).values()
    assert (judged.reward, judged.set_aside) == (None, said)
    caller = Caller(create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)[1])
    client = Client()
    client.force_login(alice)
    for task, withheld, is_verified in ((settled, "", True), (alone, f"outcome: {said}", False)):
        (attempt,) = task.attempts.all()
        assert caller.send("GET", f"attempts/{attempt.pk}").body["withheld"] == withheld
        page = client.get(reverse("console:task", args=["shop", task.pk])).content.decode()
        assert (said in page, "<span>Verified <" in page) == (True, is_verified)
    with CaptureQueriesContext(connection) as asked:
        shown = caller.send("GET", "attempts").body["results"]
    assert sorted(one["withheld"] for one in shown) == ["", f"outcome: {said}"]
    of_attempts = [one for one in asked.captured_queries if 'FROM "tasks_attempt"' in one["sql"]]
    assert len(of_attempts) == 2, "a page, and once what is withheld of it"


def test_a_verdict_manager_says_which_model_it_judged_by(project: Project) -> None:
    with FakeModelServer(models=["base"]) as server:
        engine = Provider.objects.create(
            project=project, name="engine", kind="engine", base_url=server.url, allow_private=True
        )
        worker = make_worker(project, "judged", "chat", provider=engine, base_model="base")
        task = make_chat_task(project, ["first"], worker=worker)
        word = VerdictManager(worker).review(task, list(task.attempts.all()))
    assert isinstance(word, ManagerWord), word
    assert word.judge == tell_judge(engine.pk, "base")
