"""A project's named checks: versions, defaults, what tasks bring of them, and trying one before it counts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, NotAllowedError
from apps.checks.models import NamedCheck
from apps.checks.services import set_default, write_check
from apps.evals.models import Item, Taskset
from apps.inference.judges import VOTES
from apps.inference.models import Exchange
from apps.scoring.services import score_tasks
from apps.tasks.checking import MOST_ASKED, try_check
from apps.tasks.models import Attempt, Task
from apps.tasks.services import submit_task, submit_tasks
from tentalis.core.task_files import read_task_rows
from tests.apps.feedback.builders import make_chat_task
from tests.edges.caller import Caller
from tests.factories import make_project, make_user, make_worker
from tests.fakes import FakeModelServer

SHORT = {"check": "length", "unit": "words", "max": 3}
POLITE = {"any": [{"check": "contains", "value": "please"}, {"check": "contains", "value": "thank you"}]}


@pytest.fixture
def project(db: None) -> Project:
    project = make_project()
    make_worker(project)
    return project


@pytest.fixture
def boss(project: Project) -> User:
    return make_user("alice")


def submit(project: Project, by: User, **values: Any) -> Task:
    return submit_task(project=project, prompt="Say hello.", environment="chat", by=by, **values)


def test_another_text_is_the_next_version_and_old_ones_stay(project: Project, boss: User) -> None:
    first = write_check(project=project, name="short", spec=SHORT, by=boss, about="Answers are short.")
    second = write_check(project=project, name="short", spec=SHORT | {"max": 5}, by=boss)
    assert [str(first), str(second)] == ["short@1", "short@2"]
    assert NamedCheck.objects.get(pk=first.pk).spec == SHORT
    both = write_check(project=project, name="both", spec={"all": [{"use": "short@1"}, POLITE]}, by=boss)
    assert both.spec == {"all": [{"use": "short@1", "is": SHORT}, POLITE]}
    newest = write_check(project=project, name="newest", spec={"use": "short"}, by=boss)
    assert newest.spec == {"use": "short@2", "is": SHORT | {"max": 5}}
    assert AuditEntry.objects.filter(kind="check.written").count() == 4


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("Short", SHORT, "name: wanted lower-case letters"),
        ("short", {"check": "regex", "pattern": "("}, r"^spec\.pattern: wanted"),
        ("short", {"use": "short@1"}, "found none named 'short@1'"),
        ("short", {"use": "short@99999999999999999999"}, "found none named"),
        ("short", {"use": "foreign@1"}, "wanted a check of this project, found none named 'foreign@1'"),
        ("short", {"all": [SHORT, {"use": "x@NaN"}]}, "found none named 'x@NaN'"),
        ("short", {"use": "x@1", "is": {"check": "scorer", "name": "vibes"}}, "wanted a scorer, .*found 'vibes'"),
        ("short", {"any": [{"check": "judge", "model": "box/m"}]}, "wanted one of a model server .*found 'box/m'"),
        ("short", {"use": "x@1", "is": {"use": "y@1"}}, r"is\.use: wanted a check of this project, .*'y@1'"),
    ],
)
def test_a_check_that_cannot_be_used_is_refused_where_it_is_written(
    project: Project, boss: User, name: str, spec: Any, words: str
) -> None:
    other = make_project(slug="other")
    write_check(project=other, name="foreign", spec=SHORT, by=boss)
    with pytest.raises(BadInputError, match=words):
        write_check(project=project, name=name, spec=spec, by=boss)
    assert not project.checks.exists()


def test_what_another_project_wrote_out_is_taken_without_its_name(project: Project, boss: User) -> None:
    write_check(project=project, name="short", spec=SHORT, by=boss)
    own, longer = {"use": "short@1", "is": SHORT}, SHORT | {"max": 9}
    brought = [own, {"use": "short@1", "is": longer}, {"use": "tidy@4", "is": {"all": [own, POLITE]}}]
    assert submit(project, boss, checks=brought).checks == [own, longer, {"all": [own, POLITE]}]
    deep: Any = SHORT
    for _ in range(7):
        deep = {"use": "deep@1", "is": deep}
    with pytest.raises(BadInputError, match="wanted at most 6 checks within each other"):
        submit(project, boss, checks=deep)


def test_only_who_leads_a_project_writes_its_checks(project: Project) -> None:
    reviewer = make_user("bob")
    with pytest.raises(NotAllowedError):
        write_check(project=project, name="short", spec=SHORT, by=reviewer)
    with pytest.raises(NotAllowedError):
        try_check(project=project, spec=SHORT, by=reviewer)


def test_a_task_keeps_the_checks_it_came_with(project: Project, boss: User) -> None:
    write_check(project=project, name="short", spec=SHORT, by=boss)
    assert submit(project, boss).checks is None
    task = submit(project, boss, checks={"use": "short"})
    write_check(project=project, name="short", spec=SHORT | {"max": 1}, by=boss)
    task.refresh_from_db()
    assert task.checks == [{"use": "short@1", "is": SHORT}]
    with pytest.raises(BadInputError, match=r"^checks\[0\]\.max: wanted a whole number"):
        submit(project, boss, checks=[{"check": "length", "max": float("nan")}])


def test_a_projects_default_checks_what_brings_no_checks(project: Project, boss: User) -> None:
    first = write_check(project=project, name="short", spec=SHORT, by=boss)
    set_default(check=first, environment="chat", by=boss)
    second = write_check(project=project, name="short", spec=SHORT | {"max": 9}, by=boss)
    first.refresh_from_db()
    assert (first.default_for, second.default_for) == ("", "chat")  # the next version takes its place
    assert submit(project, boss).checks == [{"use": "short@2", "is": SHORT | {"max": 9}}]
    assert submit(project, boss, checks=[]).checks is None
    text = '{"prompt": "a"}\n{"prompt": "b", "checks": {"check": "length", "max": 2}}\n{"prompt": "c", "checks": []}'
    rows = read_task_rows(text, form="jsonl")
    made = submit_tasks(project=project, rows=rows, environment="chat", by=boss)
    assert [task.checks for task in made] == [
        [{"use": "short@2", "is": SHORT | {"max": 9}}],
        [{"check": "length", "max": 2}],
        None,
    ]
    with pytest.raises(BadInputError, match=r"line 1: checks\.check: wanted one of"):
        rows = read_task_rows('{"prompt": "a", "checks": {"check": "vibes"}}', form="jsonl")
        submit_tasks(project=project, rows=rows, environment="chat", by=boss)
    set_default(check=second, environment="", by=boss)
    assert submit(project, boss).checks is None


def test_a_check_is_deleted_while_nothing_uses_it(project: Project, boss: User) -> None:
    caller = Caller(create_token(user=boss, name="test", scopes=Right.values, by=boss)[1])
    short = write_check(project=project, name="short", spec=SHORT, by=boss)
    both = write_check(project=project, name="both", spec={"all": [{"use": "short"}, POLITE]}, by=boss)
    submit(project, boss, checks=[{"any": [{"use": "both@1"}, POLITE]}])
    taskset = Taskset.objects.create(project=project, name="set", environment="chat")
    Item.objects.create(
        taskset=taskset, split="train", prompt="Hi.", content_hash="0" * 64, bands=[], checks=[{"use": "short@1"}]
    )
    refused = caller.delete(f"checks/{short.pk}")
    told = "short@1 is kept for what uses it: 1 tasks, 1 items of tasksets, 1 other checks"
    assert (refused.status, refused.body["detail"]) == (409, told)
    default = write_check(project=project, name="short", spec=POLITE, by=boss)
    set_default(check=default, environment="chat", by=boss)
    assert "checks tasks of chat by default" in caller.delete(f"checks/{default.pk}").body["detail"]
    set_default(check=default, environment="", by=boss)
    assert caller.delete(f"checks/{default.pk}").status == 204, "short@1 is used, short@2 is not"
    assert caller.delete(f"checks/{default.pk}").status == 404
    assert [str(one) for one in NamedCheck.objects.order_by("pk")] == [str(short), str(both)]
    assert AuditEntry.objects.get(kind="check.removed").payload == {"check": "short@2"}


def test_an_answer_is_as_good_as_the_worst_of_world_and_checks(project: Project) -> None:
    unclear = {"check": "language", "languages": ["en"]}
    wanted = [{"use": "short@1", "is": {"weighted": [[1, SHORT], [3, POLITE]]}}]
    answers = ["it is 13", "it is 13, thank you", "14 or so, thank you"]
    task = make_chat_task(project, answers, reference=13, checks=wanted)
    other = make_chat_task(project, ["13", "14"], reference=13, checks=[unclear])
    score_tasks([task.pk])
    score_tasks([other.pk])
    assert list(task.attempts.values_list("outcome", flat=True)) == [0.25, 0.75, 0.0]
    said = Attempt.objects.get(task=task, index=1).verification
    assert said is not None
    assert [(one["check"], one["result"], one["share"]) for one in said["checks"]] == [
        ("number", "passed", 1.0),
        ("short@1", "failed", 0.75),
    ]
    unclear_but_right, wrong = other.attempts.all()
    assert (unclear_but_right.outcome, unclear_but_right.score) == (None, None)
    assert "language: too short to tell" in str(unclear_but_right.verification)
    assert wrong.outcome == 0.0


def test_checks_alone_verify_what_the_world_cannot(project: Project) -> None:
    task = make_chat_task(project, ["Hello!", "Hello to you and to everybody else."], checks=[SHORT])
    score_tasks([task.pk])
    assert list(task.attempts.values_list("outcome", flat=True)) == [1.0, 0.0]


def test_a_check_is_tried_on_stored_answers_and_keeps_nothing(project: Project, boss: User) -> None:
    make_chat_task(project, ["one", "one two three four", "x y"])
    tried = try_check(project=project, spec=SHORT, by=boss)
    assert dict(tried.counts) == {"passed": 2, "failed": 1, "unscored": 0}
    assert {one.attempt.task_id for one in tried.examples if one.attempt} == {Task.objects.get().pk}
    given = try_check(project=project, spec={"check": "language", "languages": ["en"]}, by=boss, answers=["17"])
    assert dict(given.counts) == {"passed": 0, "failed": 0, "unscored": 1}
    assert "too short to tell" in given.examples[0].result.words
    with pytest.raises(BadInputError, match=r"^spec: wanted an object"):
        try_check(project=project, spec=[SHORT], by=boss)
    assert not NamedCheck.objects.exists()


def verdict(overall: float) -> str:
    steps = [{"index": index, "score": overall, "reason": "so"} for index in range(2)]
    return json.dumps({"steps": steps, "overall": overall, "reason": "said"})


@pytest.fixture
def judge(settings: Settings) -> Iterator[FakeModelServer]:
    """The installation's model: gives .9 to what says thank you, and .2 to all else."""

    def reply(prompt: str, index: int) -> str:
        return verdict(0.9 if "thank you" in prompt else 0.2)

    with FakeModelServer(models=["judge-model"], is_plain=True, reply=reply) as server:
        changes = {"LLM_MODEL": "judge-model", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": server.url}
        settings.TENTALIS = settings.TENTALIS | changes
        yield server


KIND = {"check": "judge", "rubric": "Ends kindly.", "min": 0.7}


def test_a_judge_with_a_rubric_says_what_is_right_and_is_told_in_the_verification(
    project: Project, judge: FakeModelServer
) -> None:
    task = make_chat_task(project, ["thank you", "so what"], checks=[KIND])
    score_tasks([task.pk])
    assert list(task.attempts.values_list("outcome", flat=True)) == [1.0, 0.0]
    said = Attempt.objects.get(task=task, index=1).verification
    assert said is not None
    (found,) = said["checks"]
    assert (found["result"], found["share"], found["words"]) == ("failed", 0.0, "the judge gives it 0.20, wanted 0.7")
    assert found["grader"].startswith("judge judge-model, prompt ")
    assert "Ends kindly." in json.dumps([request.body for request in judge.requests])
    assert Exchange.objects.filter(project=project, turn="judge", task_id=task.pk).count() >= 2 * VOTES


def test_a_judge_that_cannot_be_asked_makes_nothing_right_or_wrong(project: Project, judge: FakeModelServer) -> None:
    judge.mode = "broken"
    task = make_chat_task(project, ["thank you"], checks=[KIND])
    score_tasks([task.pk])
    attempt = task.attempts.get()
    assert (attempt.outcome, attempt.score) == (None, None)
    assert attempt.verification is not None
    assert "judge: " in attempt.verification["infrastructure"]


def test_nobody_is_asked_where_the_rules_settle_it(project: Project, judge: FakeModelServer) -> None:
    task = make_chat_task(project, ["one two three four", "x"], checks=[KIND, SHORT])
    other = make_chat_task(project, ["hm"], checks=[{"any": [KIND, SHORT]}])
    project.weight_profiles = {"chat": {"outcome": 1.0}}
    project.save()
    score_tasks([task.pk])
    assert len(judge.requests) == VOTES, "the answer that is too long is wrong already"
    score_tasks([other.pk])
    assert len(judge.requests) == VOTES
    assert list(Attempt.objects.order_by("pk").values_list("outcome", flat=True)) == [0.0, 0.0, 1.0]


def test_a_scorer_of_the_project_is_a_part_of_a_check(project: Project) -> None:
    check = {"check": "scorer", "name": "effort", "min": 0.5}
    task = make_chat_task(project, ["a"], checks=[check])
    score_tasks([task.pk])
    said = task.attempts.get().verification
    assert said is not None
    (found,) = said["checks"]
    assert found["result"] in {"passed", "failed"}
    assert found["grader"].startswith("scorer effort of tentalis ")


def test_a_scorer_that_breaks_leaves_it_unscored(project: Project) -> None:
    task = make_chat_task(project, ["a"], checks=[{"check": "scorer", "name": "tests"}])
    score_tasks([task.pk])
    attempt = task.attempts.get()
    assert attempt.outcome is None
    assert "measured no tests_passed" in str(attempt.verification)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"check": "scorer", "name": "vibes"}, r"spec\.name: wanted a scorer, one of outcome, .*found 'vibes'"),
        ({"check": "scorer"}, r"spec\.name: wanted a text"),
        ({"check": "judge", "min": 1.5}, r"spec\.min: wanted a share above 0, at most 1"),
        ({"check": "judge", "min": float("nan")}, r"spec\.min: wanted a finite number above 0"),
        ({"check": "judge", "rubric": "x" * 8_001}, r"spec\.rubric: wanted at most 8,000 characters, found 8,001"),
        ({"check": "judge", "votes": 9}, "wanted min, model, rubric, found votes"),
        ({"all": [{"check": "judge"}] * 5}, r"spec\.all: wanted at most 4 parts that ask .* found 5"),
    ],
)
def test_who_cannot_be_asked_is_refused_where_it_is_written(
    project: Project, boss: User, spec: Any, words: str
) -> None:
    with pytest.raises(BadInputError, match=words):
        write_check(project=project, name="asking", spec=spec, by=boss)


def test_a_judge_is_tried_on_few_answers_and_what_it_cost_is_kept(
    project: Project, boss: User, judge: FakeModelServer
) -> None:
    make_chat_task(project, ["thank you"] * (MOST_ASKED + 3))
    tried = try_check(project=project, spec=KIND, by=boss)
    assert dict(tried.counts) == {"passed": MOST_ASKED, "failed": 0, "unscored": 0}
    charged = Exchange.objects.filter(project=project, turn="judge").count()
    assert 0 < charged <= VOTES * MOST_ASKED
