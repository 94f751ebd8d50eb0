"""Webhooks, sessions, skills, members, canaries, limits and reviews from the command line, on a real platform."""

from pathlib import Path

from django.utils import timezone

from apps.accounts.invitations import invite
from apps.accounts.models import ApiToken, Invitation, Member, Project, Role
from apps.evals.models import Evaluation
from apps.feedback.models import Feedback, Review
from apps.inference.models import Exchange, Provider, Session
from apps.outbox.models import Segment
from apps.skills.models import Skill
from apps.tasks.models import Attempt, Task
from apps.webhooks.models import Delivery, Webhook
from tests.cli.conftest import Run
from tests.factories import make_measured, make_project, make_task, make_user, make_worker


def test_a_webhook_from_its_making_to_its_end(signed_in: Run) -> None:
    made = signed_in("webhook", "create", "https://hooks.example.com/T1", "-k", "task.done", "--name", "chat")
    assert made.code == 0, made
    assert made.out.startswith("whsec_")
    webhook = Webhook.objects.get()
    assert (webhook.kinds, webhook.name, webhook.include_details) == (["task.done"], "chat", False)
    assert "hooks.example.com" in signed_in("webhook", "list").out
    assert signed_in("webhook", "test", str(webhook.pk)).code == 0
    delivery = Delivery.objects.get()
    assert signed_in("webhook", "show", str(webhook.pk), "--json").json["deliveries"][0]["kind"] == "webhook.test"
    Delivery.objects.update(state="dead")
    assert str(delivery.pk) in signed_in("webhook", "deliveries").out
    assert "1 messages" in signed_in("webhook", "redeliver", str(webhook.pk)).out
    assert signed_in("webhook", "redeliver", str(webhook.pk), "-m", str(delivery.pk)).code == 0
    assert signed_in("webhook", "rotate", str(webhook.pk), "--json").json["secret"].startswith("whsec_")
    assert signed_in("webhook", "change", str(webhook.pk), "--off").code == 0
    assert not Webhook.objects.get().is_active
    assert signed_in("webhook", "change", str(webhook.pk)).code == 2
    refused = signed_in("webhook", "create", "http://127.0.0.1/")
    assert (refused.code, "private" in refused.err or "public" in refused.err) == (1, True)
    assert signed_in("webhook", "delete", str(webhook.pk)).code == 0
    assert not Webhook.objects.exists()


def test_sessions_and_their_exchanges_are_shown(signed_in: Run) -> None:
    project = Project.objects.get()
    session = Session.objects.create(project=project, key="talk", worker_name="echo", end_user="grace")
    exchange = Exchange.objects.create(
        project=project, session=session, model="big", messages=[{"role": "user", "content": "hi"}], text="hello"
    )
    assert "grace" in signed_in("session", "list", "--user", "grace").out
    assert signed_in("session", "show", str(session.pk), "--json").json["exchanges"][0]["id"] == exchange.pk
    assert "hello" in signed_in("session", "exchange", str(exchange.public_id)).out
    assert signed_in("session", "feedback", str(session.pk)).code == 2


def test_an_evaluation_is_asked_for_paused_and_taken_up_again(signed_in: Run, tmp_path: Path) -> None:
    make_worker(Project.objects.get(), name="desk", kind="desk")
    asked = signed_in("eval", "run", "desk", "--environment", "desk", "--size", "3", "--json")
    assert (asked.json["state"], asked.json["planned"]) == ("queued", 3)
    pk = str(asked.json["id"])
    for command, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        assert signed_in("eval", command, pk, "--json").json["state"] == state
    assert "desk/3/0" in signed_in("eval", "list").out
    assert signed_in("eval", "show", pk, "--json").json["played"] == 0
    other = str(
        signed_in("eval", "run", "desk", "--environment", "desk", "--size", "3", "--seed", "1", "--json").json["id"]
    )
    refused = signed_in("eval", "compare", pk, other)
    assert (refused.code, "wanted it done" in refused.err) == (1, True)
    [row] = signed_in("eval", "experiment", "seeds", f"is one better={pk},{other}", "--json").json
    assert (row["scenario"], row["score"], "wanted it done" in row["why"]) == ("is one better", None, True)
    assert signed_in("eval", "experiment", "seeds", f"{pk}-{other}").code == 2
    (file := tmp_path / "checks.json").write_text("{")
    refused = signed_in("eval", "rescore", pk, "--checks", str(file))
    assert (refused.code, "--checks must be JSON" in refused.err) == (2, True)
    refused = signed_in("eval", "rescore", pk, "--grader", "exact", "--side", "0")
    assert (refused.code, "side" in refused.err) == (1, True)


def test_an_experiment_is_run_to_its_end_and_its_results_are_shown(signed_in: Run, tmp_path: Path) -> None:
    desk = make_worker(Project.objects.get(), name="desk", kind="desk")
    better, worse = (
        make_measured(desk, None, [outcome] * 20, purpose="report", seed=seed).pk
        for seed, outcome in enumerate((1.0, 0.0))
    )
    signed_in("eval", "experiment", "sides", f"is it better={better},{worse}")
    [listed] = signed_in("experiment", "results", "--json").json
    assert (listed["experiment"], listed["findings"]) == ("sides", {"questions": 1, "measured": 1})
    number = str(listed["id"])
    [row] = signed_in("experiment", "run", number, "--json").json
    assert (row["experiment"], row["scenario"], row["score"]) == (listed["id"], "is it better", 1.0)
    assert signed_in("experiment", "results", number, "--json").json == [row]
    refused = signed_in("experiment", "run", number, "--again")
    assert (refused.code, "wanted a run of a taskset or benchmark" in refused.err) == (1, True)
    asked = str(signed_in("eval", "run", "desk", "--environment", "desk", "--size", "3", "--json").json["id"])
    signed_in("eval", "pause", asked)
    signed_in("eval", "experiment", "later", f"is it better={asked},{worse}")
    went_on = signed_in("experiment", "run", "all", "--no-wait", "--json")
    assert went_on.code == 0, went_on.err
    assert [(one["score"], "wanted it done" in one["why"]) for one in went_on.json] == [(None, True), (1.0, False)]
    assert signed_in("eval", "show", asked, "--json").json["state"] == "queued"
    signed_in("eval", "cancel", asked)
    assert signed_in("experiment", "run", str(went_on.json[0]["experiment"])).code == 1
    assert signed_in("experiment", "run", "sides").code == 2


def test_an_experiment_is_asked_once_more_under_its_name(signed_in: Run, tmp_path: Path) -> None:
    make_worker(Project.objects.get(), name="desk", kind="desk")
    signed_in("taskset", "create", "words", "--environment", "desk")
    signed_in("taskset", "add", "words", "--count", "3")
    [taskset] = signed_in("taskset", "list", "--json").json
    asked = [
        signed_in("eval", "run", "desk", "--taskset", str(taskset["id"]), "--seed", seed, "--json").json["id"]
        for seed in ("0", "1")
    ]
    signed_in("eval", "experiment", "seeds", f"is one better={asked[0]},{asked[1]}")
    [first] = signed_in("experiment", "results", "--json").json
    again = signed_in("experiment", "run", str(first["id"]), "--again", "--no-wait", "--json")
    assert again.code == 0, again.err
    [row] = again.json
    assert row["experiment"] != first["id"]
    replays = Evaluation.objects.in_bulk([row["candidate"], row["reference"]])
    assert [replays[row[side]].replay_of_id for side in ("candidate", "reference")] == asked
    assert [one["experiment"] for one in signed_in("experiment", "results", "--json").json] == ["seeds", "seeds"]


def test_tasksets_are_filled_split_and_frozen(signed_in: Run, tmp_path: Path) -> None:
    file, huge = tmp_path / "sums.csv", tmp_path / "huge.jsonl"
    file.write_text("prompt,reference,split\nWhat is 3 + 4?,7,held_out\nName a sea.,,train\n")
    with huge.open("wb") as big:
        big.truncate(2**30)
    assert signed_in("taskset", "create", "exam").code == 0
    assert signed_in("taskset", "create", "exam").code == 1
    assert "exam version 1: 2 items added" in signed_in("taskset", "add", "exam", str(file)).out
    assert "2 were there already" in signed_in("taskset", "add", "exam", str(file)).out
    refused = signed_in("taskset", "add", "exam", str(huge))
    assert (refused.code, "wanted at most 4,000,000 bytes" in refused.err) == (2, True)
    refused = signed_in("taskset", "add", "exam")
    assert (refused.code, "wanted one of text, tasks, sessions, count" in refused.err) == (1, True)
    assert "sums.csv, line 2" in signed_in("taskset", "show", "exam").out
    asked = signed_in("task", "submit", "What is 3 + 4?", "--taskset", "exam", "--json").json
    assert (asked["environment"], asked["metadata"]["taskset"]) == ("chat", "exam@1")
    refused = signed_in("task", "submit", "What is 5 + 5?", "--taskset", "exam@1")
    assert (refused.code, "found none in exam@1" in refused.err) == (1, True)
    assert signed_in("task", "submit", "What is 3 + 4?", "--taskset", "exam@9").code == 2
    assert signed_in("taskset", "split", "exam", "train=50", "train=50").code == 2
    assert signed_in("taskset", "split", "exam", "held_out=100", "--json").json["held_out"] == 2
    assert "exam version 1 is frozen" in signed_in("taskset", "freeze", "exam").out
    task = make_task(Project.objects.get())
    assert "exam version 2" in signed_in("taskset", "add", "exam", "--task", str(task.pk)).out
    assert [row["version"] for row in signed_in("taskset", "list", "--json").json] == [2, 1]
    assert signed_in("taskset", "show", "exam@3").code == 2
    Member.objects.filter(user__username="alice").update(role=Role.OWNER)
    assert "puts 20 % of its own work aside" in signed_in("project", "hold-out", "20").out


def test_skills_have_versions(signed_in: Run, tmp_path: Path) -> None:
    file = tmp_path / "greet.md"
    for text in ("Say hello.", "Say good day."):
        file.write_text(text)
        assert signed_in("skill", "write", "greet", "How to greet.", "-f", str(file)).code == 0
    newest = Skill.objects.get(version=2)
    assert "Say good day." in signed_in("skill", "show", str(newest.pk)).out
    assert signed_in("skill", "switch", str(newest.pk), "--off").code == 0
    assert "yes" in signed_in("skill", "list").out


def test_members_come_change_and_go(signed_in: Run) -> None:
    Member.objects.filter(user__username="alice").update(role=Role.OWNER)
    assert signed_in("member", "add", "claw", "agent").code == 0
    assert signed_in("member", "change", "bob", "viewer").code == 0
    assert Member.objects.get(user__username="bob").role == "viewer"
    assert signed_in("member", "remove", "bob").code == 0
    assert "claw" in signed_in("member", "list").out
    assert signed_in("member", "remove", "bob").code == 2
    assert "/invitations/" in signed_in("member", "add", "dora", "viewer").out
    assert signed_in("member", "invite", "emil", "reviewer", "--json").json["state"] == "open"
    assert "emil" in signed_in("member", "invitations").out
    for number in Invitation.objects.values_list("pk", flat=True):
        assert signed_in("member", "withdraw", str(number)).code == 0
    project = Project.objects.get(slug="shop")
    lab = make_project("lab")
    Member.objects.filter(project=lab, user__username="alice").delete()
    root = make_user("root", is_superuser=True)
    for answer in ("decline", "accept"):
        offered, _ = invite(project=lab, username="alice", role="viewer", by=root)
        assert signed_in("member", answer, str(offered.pk)).code == 0
    assert Member.objects.get(project=lab, user__username="alice").role == "viewer"
    assert signed_in("member", "leave", "--project", "lab").code == 0
    assert not Member.objects.filter(project=lab, user__username="alice").exists()
    assert signed_in("member", "leave", "--project", project.slug).code == 1  # the last owner


def test_limits_of_a_token(signed_in: Run) -> None:
    assert (
        signed_in("token", "create", "job", "--limit", "usd_per_day=2.5", "--limit", "requests_per_minute=60").code == 0
    )
    token = ApiToken.objects.get(name="job")
    assert token.limits == {"usd_per_day": 2.5, "requests_per_minute": 60}
    assert signed_in("token", "limit", str(token.pk), "--limit", "tokens_per_day=5").code == 0
    assert ApiToken.objects.get(name="job").limits == {"tokens_per_day": 5}
    assert signed_in("token", "create", "x", "--limit", "much").code == 2


def test_reviews_are_claimed_passed_on_and_taken_back(signed_in: Run) -> None:
    task = make_task(Project.objects.get(), state=Task.State.IN_REVIEW, group_size=1, submitted_by=make_user("bob"))
    Attempt.objects.create(task=task, index=0, worker=task.worker, answer="hi", text="hi")
    review = Review.objects.create(project=task.project, task=task, audience=Review.Audience.HUMAN)
    assert signed_in("review", "claim", "--json").json["id"] == review.pk
    assert signed_in("review", "release", str(review.pk)).code == 0
    assert "nothing is kept" in signed_in("review", "draft", str(review.pk)).out
    assert signed_in("review", "skip", str(review.pk), "Not now.", "--then", "later").code == 0
    given = signed_in("review", "give", str(review.pk), "--score", "1", "--json").json
    done = signed_in("review", "retract", str(given["id"]), "The wrong one.")
    assert (done.code, bool(done.out.strip())) == (0, True)
    assert Feedback.objects.get().retracted_at is not None
    assert signed_in("review", "undo", str(given["id"])).code == 1


def test_a_trial_needs_an_adapter_that_can_be_tried(signed_in: Run) -> None:
    assert signed_in("canary", "start", "echo@v1-0", "10").code == 2
    assert signed_in("canary", "start", "echo@v1-0", "90").code == 2


def test_who_makes_a_worker_that_trains_nothing_is_told_why_and_what_to_type(signed_in: Run) -> None:
    server = Provider.objects.create(
        project=Project.objects.get(), name="box", kind="vllm", base_url="https://box.example/v1", default_model="m"
    )
    told = signed_in("worker", "create", "remote", "-k", "chat", "--provider", "box").out
    assert "it works and trains nothing: remote has no base weights" in told
    typed = "worker change remote --project shop --base-directory DIR"
    assert f"say it: tentalis {typed}\n" in told
    assert "an absolute path; found 'DIR'" in signed_in(*typed.split()).err
    server.probe = {"tells_tokens": False}
    server.save()
    told = signed_in("worker", "create", "mute", "-k", "chat", "--provider", "box").out
    assert "trains nothing: box told no tokens of its answers when it was tested last" in told
    assert "base-directory" not in told


def test_workers_learn_with_one_and_alone_again(signed_in: Run) -> None:
    assert signed_in("worker", "create", "sales", "-k", "desk").code == 0
    refused = signed_in("worker", "change", "sales", "--base-directory", "/no/such/model")
    assert (refused.code, "found no readable config.json in '/no/such/model'" in refused.err) == (1, True)
    assert signed_in("worker", "change", "sales").code == 2
    backed = signed_in("worker", "change", "sales", "--fallback", "engine/desk", "--fallback", "engine/b", "--json")
    assert backed.json["fallbacks"] == ["engine/desk", "engine/b"]
    assert signed_in("worker", "change", "sales", "--fallback", "engine/b", "--no-fallbacks").code == 2
    assert signed_in("worker", "change", "sales", "--no-fallbacks", "--json").json["fallbacks"] == []
    cooler = signed_in("worker", "change", "sales", "--sampling", "temperature=0.5", "--json")
    assert cooler.json["sampling"] == {"temperature": 0.5}
    assert signed_in("worker", "change", "sales", "--sampling", "max_tokens=64", "--json").json["sampling"] == {
        "temperature": 0.5,
        "max_tokens": 64,
    }
    unknown = signed_in("worker", "change", "sales", "--sampling", "wit=2")
    assert (unknown.code, "may hold temperature" in unknown.err) == (1, True)
    assert signed_in("worker", "change", "sales", "--sampling", "temperature=hot").code == 2
    assert signed_in("worker", "change", "sales", "--no-sampling", "--json").json["sampling"] == {}
    told = ("--sampling", "temperature=0.2", "--adapters-per", "user", "--user-batch-tasks", "5", "--json")
    terse = signed_in("worker", "create", "terse", "-k", "desk", *told).json
    assert (terse["sampling"], terse["user_batch_tasks"]) == ({"temperature": 0.2}, 5)
    made = signed_in("worker", "create", "support", "-k", "desk", "--learns-with", "sales", "--json")
    assert made.json["learns_with"] == "sales"
    assert signed_in("worker", "show", "sales", "--json").json["learners"] == ["support"]
    assert "support learns alone" in signed_in("worker", "learn", "support", "--alone").out
    assert "support learns with sales" in signed_in("worker", "learn", "support", "--with", "sales").out
    refused = signed_in("worker", "learn", "sales", "--with", "support")
    assert (refused.code, "support learns with sales: choose that one" in refused.err) == (1, True)
    assert signed_in("worker", "learn", "support").code == 2


def test_anything_is_found_by_its_words_or_its_number(signed_in: Run) -> None:
    task = make_task(Project.objects.get(), prompt="Send two brass lamps.", state="done")
    assert "Send two brass lamps." in signed_in("search", "brass", "lamp").out
    assert signed_in("search", "task", str(task.pk), "--json").json["jump"]["id"] == task.pk
    assert "nothing found" in signed_in("search", "zinc").out


def test_dead_letters_are_listed_shown_and_replayed(signed_in: Run) -> None:
    project = Project.objects.get()
    tasks = [make_task(project, state="failed", failed_link="tasks.work", failure="no") for _ in range(3)]
    for task, error in zip(tasks, ("NoAnswerError", "BadInputError", "BadInputError"), strict=True):
        Segment.objects.create(
            kind="work", subject_id=task.pk, project_id=project.pk, links=["tasks.work"], queue="workers",
            state="dead", finished_at=timezone.now(), errors=[{"type": error, "message": "it says why"}],
        )  # fmt: skip
    listed = signed_in("dead-letter", "list", "--error", "NoAnswerError", "--json").json
    assert [row["subject_id"] for row in listed] == [tasks[0].pk]
    assert "it says why" in signed_in("dead-letter", "list").out
    number = str(listed[0]["id"])
    assert "NoAnswerError" in signed_in("dead-letter", "show", number).out
    assert "is at work again" in signed_in("dead-letter", "replay", number).out
    assert signed_in("dead-letter", "replay").code == signed_in("dead-letter", "replay", number, "--all").code == 2
    assert "2 at work again" in signed_in("dead-letter", "replay", "--all", "--kind", "work").out
    assert signed_in("dead-letter", "replay", "--all").code == 1
    assert set(Task.objects.values_list("state", flat=True)) == {"queued"}


def test_control_items_are_added_listed_and_removed(signed_in: Run) -> None:
    task = make_task(Project.objects.get(), state=Task.State.DONE)
    Attempt.objects.create(task=task, index=0, worker=task.worker, answer="hi", text="hi", state="answered")
    assert "no control items" in signed_in("gold", "list").out
    assert "nothing is known" in signed_in("gold", "add", str(task.pk)).err
    assert signed_in("gold", "add", str(task.pk), "--attempt", "first").code == 2
    made = signed_in("gold", "add", str(task.pk), "--score", "1", "--attempt", "0=0.5", "--json").json
    assert made["expected"] == {"score": 1, "attempts": {"0": 0.5}}
    assert [row["task"] for row in signed_in("gold", "list", "--project", "shop", "--json").json] == [task.pk]
    assert signed_in("gold", "remove", str(made["id"])).code == 0
    assert "no control items" in signed_in("gold", "list").out


def test_who_is_asked_no_more_leaves_reviews_open_and_their_number_is_told(signed_in: Run) -> None:
    Member.objects.filter(user__username="alice").update(role=Role.OWNER)
    project = Project.objects.get()
    for purpose, audience in (("work", "human"), ("second", "human"), ("work", "ai"), ("appeal", "human")):
        task = make_task(project, state=Task.State.IN_REVIEW)
        Review.objects.create(project=project, task=task, audience=audience, purpose=purpose)
    for who, left in (("both", 0), ("ai", 2), ("human", 1), ("none", 3)):
        told = signed_in("project", "judges", "--who", who)
        said = f"open reviews of who is not asked any more: {left}; judge or skip them"
        assert ("not asked any more" in told.out, said in told.out) == (bool(left), bool(left)), told
    assert signed_in("project", "judges", "--json").json["left_open"] == 3


def test_who_judges_and_tasks_out_of_sessions(signed_in: Run) -> None:
    Member.objects.filter(user__username="alice").update(role=Role.OWNER)
    assert signed_in("project", "judges", "--json").json["who"] == "human"
    assert signed_in("project", "judges", "--who", "both", "--rate", "0.5", "--json").json["rate"] == 0.5
    assert signed_in("project", "judges", "shop", "--who", "somebody").code == 1
    assert Project.objects.get().review_policy == {"who": "both", "rate": 0.5}
    session = Session.objects.create(project=Project.objects.get(), key="talk", worker_name="echo")
    messages = [{"role": "user", "content": "What is 3 + 4?"}]
    Exchange.objects.create(
        project=session.project, session=session, model="m", messages=messages, text="7", status=200
    )
    assert "What is 3 + 4?" in signed_in("session", "asked").out
    assert signed_in("task", "from-sessions", str(session.pk), "--json").json["count"] == 1
    assert Task.objects.get().prompt == "What is 3 + 4?"
    assert "task already" in signed_in("task", "from-sessions", str(session.pk)).err
