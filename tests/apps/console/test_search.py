"""One search over everything: what it finds, for whom, and what it never does."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import ROLE_RIGHTS
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.erasure.erase import forget_person
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.finding import search as searching
from apps.finding.search import SearchResults, search
from apps.inference.models import Exchange, Session
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from tests.apps.conversations.talk import Talk, user
from tests.factories import make_project, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db


def look(project: Project, who: User, text: str) -> SearchResults:
    role = Member.objects.get(project=project, user=who).role
    return search(project=project, user=who, text=text, rights=ROLE_RIGHTS[Role(role)])


def names(found: SearchResults) -> dict[str, list[str]]:
    return {group.kind: [hit.name for hit in group.hits] for group in found.groups}


def open_path(who: User, text: str) -> str:
    """Where the page leads, or what it says."""
    client = Client()
    client.force_login(who)
    answer = client.get(reverse("console:search", args=("shop",)), {"q": text})
    return answer.headers.get("Location", "") or answer.content.decode()


@pytest.fixture
def task(project: Project, worker: Worker) -> Task:
    return make_task(project, worker, prompt="Send two brass lamps to Zurich.", answer="Sent by courier.", state="done")


def test_words_of_every_kind_are_found(project: Project, worker: Worker, task: Task, alice: User, bob: User) -> None:
    attempt = Attempt.objects.create(task=task, index=0, worker=worker)
    said = Feedback.objects.create(project=project, task=task, source="human", author="user:bob", text="Too dear")
    StepFeedback.objects.create(feedback=said, attempt=attempt, comment="No surcharge here")
    Talk(project, end_user="Grace").ask(user("What is the tariff?"), answer="Four francs.")
    assert names(look(project, alice, "BRASS zur")) == {"task": [f"Task {task.pk}"]}
    assert names(look(project, alice, "courier")) == {"task": [f"Task {task.pk}"]}
    for words in ("dear", "surcharge"):
        assert names(look(project, alice, words)) == {"feedback": [f"Feedback {said.pk}, user:bob"]}, words
    for words in ("tariff", "francs"):
        assert list(names(look(project, alice, words))) == ["exchange"], words
    assert list(names(look(project, alice, "grace"))) == ["session"]
    assert names(look(project, alice, worker.name)) == {"worker": [worker.name]}
    assert names(look(project, alice, "bob")) == {"person": ["bob"]}
    assert names(look(project, alice, "no such thing")) == {}


def test_numbers_and_ids_lead_straight_there(project: Project, task: Task, alice: User) -> None:
    Talk(project).ask(user("Hello"), answer="Good day.")
    exchange = Exchange.objects.latest("pk")
    assert open_path(alice, f"task {task.pk}") == f"/p/shop/tasks/{task.pk}/"
    assert open_path(alice, f"Task:{task.pk}") == f"/p/shop/tasks/{task.pk}/"
    assert open_path(alice, str(exchange.public_id)) == f"/p/shop/exchanges/{exchange.pk}/"
    assert "Nothing found" in open_path(alice, "run 999999")
    record(Kind.TASK_CANCELLED, subject=task, by="user:alice", payload={})
    found = look(project, alice, f"task:{task.pk}")
    assert found.jump is not None
    assert found.jump.kind == "task"


def test_nobody_finds_what_another_project_holds(project: Project, task: Task, alice: User) -> None:
    other = make_project("elsewhere")
    charlie = make_user("charlie")
    Member.objects.create(project=other, user=charlie, role=Role.OWNER)
    make_worker(other, name="elsewhere-echo")
    Talk(project, end_user="Grace").ask(user("What is the tariff?"), answer="Four francs.")
    session = Session.objects.get()
    exchange = Exchange.objects.latest("pk")
    texts = ("brass", "tariff", "grace", "echo", f"task {task.pk}", str(task.pk), f"session {session.pk}",
             str(exchange.public_id), f"exchange {exchange.pk}", f"task:{task.pk}")  # fmt: skip
    for text in texts:
        found = look(other, charlie, text)
        assert found.jump is None, text
        assert set(names(found)) <= {"worker"}, text
    assert list(names(look(other, charlie, "echo"))["worker"]) == ["elsewhere-echo"]


def test_a_role_finds_what_it_may_read(project: Project, task: Task, alice: User) -> None:
    Feedback.objects.create(project=project, task=task, source="human", author="user:alice", text="brass is wrong")
    Talk(project).ask(user("brass?"), answer="Yes.")
    agent = User.objects.create(username="robot", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    assert set(names(look(project, agent, "brass"))) == {"task", "feedback"}, "of calls it sees its own"
    assert set(names(look(project, alice, "brass"))) == {"task", "feedback", "exchange"}
    assert "audit" not in names(look(project, agent, f"task:{task.pk}"))
    nothing = search(project=project, user=alice, text="brass", rights=frozenset())
    assert nothing.groups == []


def test_who_judges_blind_does_not_find_what_others_said(project: Project, task: Task, alice: User, bob: User) -> None:
    Feedback.objects.create(project=project, task=task, source="human", author="user:alice", text="courteous")
    assert "feedback" in names(look(project, bob, "courteous"))
    Review.objects.create(project=project, task=task, audience="human", purpose="second")
    assert names(look(project, bob, "courteous")) == {}
    assert "feedback" in names(look(project, alice, "courteous")), "who manages sees it"


def test_what_was_forgotten_or_taken_away_is_found_no_more(project: Project, task: Task, alice: User) -> None:
    owner = make_user("olivia")
    project.members.create(user=owner, role="owner")
    Talk(project, end_user="Grace").ask(user("My number is 0791234567"), answer="Noted, 0791234567.")
    assert "exchange" in names(look(project, alice, "0791234567"))
    forget_person(project=project, by=owner, end_user="Grace")
    for text in ("0791234567", "grace", "noted"):
        assert names(look(project, alice, text)) == {}, text
    Task.objects.filter(pk=task.pk).update(prompt="[removed]")
    assert names(look(project, alice, "brass")) == {}
    task.delete()
    assert names(look(project, alice, "courier")) == {}


@pytest.mark.parametrize(
    "text",
    ["%", "_", "%%%%%%%%", "'", "\\", "a" * 300, "& | ! ( )", "':*", "a:* & b:*", "<->", "' OR 1=1 --", "東京", "🂡",
     "1" * 40, "task:" + "9" * 18, "x:1", "(((((", "*" * 300, "a b c d e f g h i j k l m n o p q r s t u v w x y z"],
)  # fmt: skip
def test_no_text_breaks_it(project: Project, task: Task, alice: User, text: str) -> None:
    assert look(project, alice, text).jump is None


@pytest.mark.parametrize("text", ["", "   ", "x" * 301, "a\0b"])
def test_what_cannot_be_looked_for_is_refused(project: Project, alice: User, text: str) -> None:
    with pytest.raises(BadInputError, match="wanted 1 to 300 characters"):
        look(project, alice, text)


def test_one_kind_that_takes_too_long_holds_up_no_other(
    project: Project, task: Task, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import connection

    def sleep(asked: searching.SearchQuery) -> list[searching.Hit]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")
        return []

    slow = searching.SearchKind("Runs", searching.KINDS["run"].right, sleep)
    monkeypatch.setattr(searching, "KINDS", {**searching.KINDS, "run": slow})
    monkeypatch.setattr(searching, "SEARCH_S", 0.2)
    groups = {group.kind: group for group in look(project, alice, "brass").groups}
    assert "add words" in groups["run"].trouble
    assert [hit.pk for hit in groups["task"].hits] == [task.pk]


def test_the_page_escapes_what_was_typed_and_found(project: Project, worker: Worker, alice: User) -> None:
    make_task(project, worker, prompt="<script>alert(1)</script> parcel", state="done")
    make_task(project, worker, prompt="parcel two", state="done")
    page = open_path(alice, "parcel <b>")
    assert "<b>" not in page.split("<main")[1]
    page = open_path(alice, "parcel")
    assert "<script>alert" not in page
    assert "alert(1)" in page
