"""The commands that talk to a platform."""

import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings
from django.urls import reverse
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.adapters.models import Adapter, Verdict
from apps.base.counting import forget_callers
from apps.feedback.models import Feedback, Review, RowImport
from apps.rollouts.models import Batch, PreferencePair
from apps.tasks.models import Attempt, Step, Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.cli import COMMANDS
from tentalis.cli.run import watch_run
from tentalis.cli.task import follow_task
from tentalis.client import Client
from tentalis.platform.home import Home
from tentalis.platform.processes import process_identity
from tentalis.platform.state import StackState
from tests.cli.conftest import Run
from tests.factories import make_task, make_user


def test_a_task_goes_in_and_comes_out(signed_in: Run, tmp_path: Path) -> None:
    made = signed_in("task", "submit", "Say hello.", "--json")
    assert made.code == 0, made
    number = str(made.json["id"])
    assert (made.json["environment"], made.json["worker"]) == ("chat", "echo")
    listed = signed_in("task", "list", "--state", "queued")
    assert number in listed.out
    assert "Say hello." in listed.out
    assert "queued" in signed_in("task", "show", number).out
    assert signed_in("task", "cancel", number).out == f"task {number} is cancelled\n"
    file = tmp_path / "prompt"
    file.write_text("From a file.")
    assert signed_in("task", "submit", f"@{file}", "--json").json["prompt"] == "From a file."
    assert [row["prompt"] for row in signed_in("task", "list", "--json", "-n", "1").json] == ["From a file."]


def test_who_follows_a_task_hears_that_it_waits_for_a_person_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    states = iter(("in_review", "in_review", "done"))
    review = {"id": 7, "due_at": "2031-01-02T03:04:05Z"}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/reviews"):
            assert dict(request.url.params) == {"task": "5", "state": "open", "audience": "human", "limit": "1"}
            return httpx.Response(200, json={"results": [review], "next_cursor": None})
        return httpx.Response(200, json={"id": 5, "project": "shop", "state": next(states)})

    with Client("http://platform.test/", transport=httpx.MockTransport(answer)) as client:
        assert follow_task(client, {"id": 5, "project": "shop", "state": "queued"})["state"] == "done"
    waiting, done = capsys.readouterr().err.splitlines()
    place = f"http://platform.test{reverse('console:review', args=('shop', 7))}"
    assert waiting.startswith(f"task 5 is in_review: a person is to judge it at {place}, until 2031-01-02T03:04:05Z")
    assert done == "task 5 is done"


def test_a_file_of_tasks_goes_in(signed_in: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "One", "reference": "1"}\n{"prompt": "Two"}\n')
    refused = signed_in("task", "import", str(file), "--check", "short")
    assert "checks.use: wanted a check of this project, found none named 'short'" in refused.err
    made = signed_in("task", "import", str(file), "--group-size", "2", "--json")
    assert made.json["count"] == 2
    assert [task.prompt for task in Task.objects.filter(pk__in=made.json["tasks"]).order_by("pk")] == ["One", "Two"]
    with zipfile.ZipFile(tmp_path / "tasks.zip", "w") as archive:
        archive.writestr("tasks.jsonl", '{"prompt": "Three"}\n')
    made = signed_in("task", "import", str(tmp_path / "tasks.zip"), "--json")
    assert Task.objects.get(pk=made.json["tasks"][0]).prompt == "Three"
    file.write_text('{"prompt": "Say hello.", "completion": "Hello!", "label": true}\n')
    done = signed_in("task", "import", str(file), "--rows", "kto")
    assert done.out == f"1 rows are being made into tasks by import {RowImport.objects.get(file='tasks.jsonl').pk}\n"
    file.write_text('{"question": "One"}\n')
    refused = signed_in("task", "import", str(file))
    assert refused.code == 1
    assert "line 1: wanted prompt, reference" in refused.err


def test_a_failure_is_one_line_and_exit_1(signed_in: Run) -> None:
    for arguments, words in (
        (("task", "show", "999"), "none that you may see"),
        (("task", "submit", "x", "-p", "nobodys"), "no project 'nobodys'"),
        (("train",), "holds no rollout"),
        (("task", "cancel", "999"), "none that you may see"),
    ):
        outcome = signed_in(*arguments)
        assert outcome.code == 1, outcome
        assert outcome.err.startswith("tentalis: ")
        assert words in outcome.err
        assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("task", "submit"),
        ("task", "show", "x"),
        ("task", "submit", "x", "--group-size", "65"),
        ("task", "submit", "x", "--reference", "{"),
        ("task", "submit", "x", "--metadata", "[]"),
        ("task", "submit", "@/nowhere"),
        ("task", "list", "--limit", "0"),
        ("review", "give", "1"),
        ("review", "give", "1", "--score", "2"),
        ("review", "give", "1", "--step", "nonsense"),
        ("review", "give", "1", "--step", "0=7"),
        ("adapter", "show", "nobody@v1"),
        ("worker", "show", "nobody"),
        ("rollout", "export", "--out", "x", "--format", "xml"),
        ("token", "create", "x", "--days", "0"),
        ("bogus",),
    ],
)
def test_bad_use_is_exit_2_and_changes_nothing(signed_in: Run, arguments: tuple[str, ...]) -> None:
    outcome = signed_in(*arguments)
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert not Task.objects.exists()


def test_a_review_is_shown_and_given(signed_in: Run) -> None:
    task = make_task(Project.objects.get(), state=Task.State.IN_REVIEW, group_size=1)
    attempt = Attempt.objects.create(task=task, index=0, worker=task.worker, answer="hi\x1b[31m", text="hi")
    Step.objects.create(attempt=attempt, index=0, kind="step", text="think " * 20 + "twice")
    review = Review.objects.create(project=task.project, task=task, audience="human")
    assert str(review.pk) in signed_in("review", "list").out
    shown = signed_in("review", "show", str(review.pk)).out
    assert "think " * 20 + "twice" in shown, "who judges it reads it whole"
    assert "\x1b" not in shown
    step = "0=0.5 wrong rule"
    given = signed_in(
        "review", "give", str(review.pk), "--score", "0.25", "--text", "Hm.", "--step", step, "--prefer", "0"
    )
    assert given.code == 0, given
    feedback = Feedback.objects.get()
    assert (feedback.score, feedback.text, feedback.preferred_attempt) == (0.25, "Hm.", attempt)
    word = feedback.steps.get()
    assert (word.score, word.comment) == (0.5, "wrong rule")


def test_projects_workers_and_what_is_in_the_way(signed_in: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert signed_in("project", "list", "--json").json[0]["slug"] == "shop"
    assert "No task was ever submitted." in signed_in("project", "why").out
    User.objects.filter(username="alice").update(may_make_projects=True)
    made = signed_in("project", "create", "lab", "--name", "The lab")
    assert made.out == "made project lab\n"
    assert "The lab" in signed_in("project", "show", "lab").out
    for words in (("why",), ("show",), ("judges",), ("hold-out", "20")):
        asked = signed_in("project", *words)
        assert asked.code == 2, asked
        assert f"name one: tentalis project {' '.join(words)} SLUG: lab, shop" in asked.err
    assert "name one with --project or TENTALIS_PROJECT: lab, shop" in signed_in("task", "submit", "hello").err
    with monkeypatch.context() as environment:
        environment.setenv("TENTALIS_PROJECT", "lab")
        assert "The lab" in signed_in("project", "show").out
        assert "shop" in signed_in("project", "show", "shop").out
    assert signed_in("worker", "create", "desk", "--kind", "desk", "-p", "lab", "--json").json["base_model"] == "desk"
    assert "desk" in signed_in("worker", "show", "desk").out
    told = signed_in("project", "set", "recipe", '{"w_opd": 0}', "lab")
    assert told.out == 'recipe of lab is {"w_opd": 0} now\n', told
    assert "The lab, still" in signed_in("project", "set", "name", "The lab, still", "lab").out
    for field, value, told_of in (
        ("recipe", '{"w_opd": -1}', "w_opd"),
        ("recipe", "grpo", "recipe"),
        ("colour", "7", "colour"),
        ("batch_tasks", "many", "batch_tasks"),
    ):
        refused = signed_in("project", "set", field, value, "lab")
        assert refused.code == 1, refused
        assert told_of in refused.err, refused
    assert signed_in("project", "rename", "lab", "The shed").out == "lab is called The shed now\n"
    archived = signed_in("project", "archive", "lab")
    assert archived.out.startswith("lab is archived\n"), archived
    assert [row["slug"] for row in signed_in("project", "list", "--json").json] == ["shop"]
    assert [row["slug"] for row in signed_in("project", "list", "--archived", "--json").json] == ["lab"]
    assert "is archived" in signed_in("task", "submit", "hello", "-p", "lab").err
    assert "again" in signed_in("project", "unarchive", "lab").out
    assert [row["name"] for row in signed_in("worker", "list", "--json").json] == ["desk", "echo"]


def test_a_run_is_watched_to_its_end(signed_in: Run) -> None:
    worker = Worker.objects.get()
    batch = Batch.objects.create(project=worker.project, worker=worker, number=1, target_tasks=1, state="closed")
    run = TrainingRun.objects.create(
        project=worker.project, worker=worker, batch=batch, recipe={}, recipe_hash="0" * 64, state="succeeded",
        metrics=[{"reward": 0.25}, {"reward": 0.5}],
    )  # fmt: skip
    watched = signed_in("run", "watch", str(run.pk))
    assert watched.out.splitlines() == ["update 1: reward 0.250", "update 2: reward 0.500", f"run {run.pk} succeeded"]
    TrainingRun.objects.update(state="failed", failure="CUDA is out of patience")
    failed = signed_in("run", "watch", str(run.pk), "--json")
    assert failed.code == 1
    assert "out of patience" in failed.err
    assert "out of patience" in signed_in("run", "show", str(run.pk)).out
    assert "failed" in signed_in("run", "list").out
    assert signed_in("run", "describe", str(run.pk), "--name", "half the rate").code == 0
    noted = signed_in("run", "describe", str(run.pk), "--comment", "", "--tag", "rate", "--json")
    assert [noted.json[field] for field in ("name", "comment", "tags")] == ["half the rate", "", ["rate"]]


def test_who_watches_a_run_hears_why_it_waits_and_sees_all_of_the_next_attempt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = {"reward": 0.25}, {"reward": 0.5}
    looks = [("running", 1, [first]), *2 * [("paused", 1, [first])], ("queued", 1, [first])]
    looks += [("running", 2, [first]), ("succeeded", 2, [first, second])]
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/metrics"):
            state, attempt, metrics = looks[len(seen)]
            seen.append(state)
            return httpx.Response(200, json={"run": 7, "state": state, "attempt": attempt, "metrics": metrics})
        reason = "paused by bob" if seen[-1] == "paused" else ""
        return httpx.Response(200, json={"id": 7, "state": seen[-1], "waiting_reason": reason})

    with Client("http://platform.test/", transport=httpx.MockTransport(answer)) as client:
        watch_run(client, 7, as_json=False, poll_s=0)
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "run 7: paused by bob; tentalis run resume 7 lets it go on",
        "run 7: it is queued",
        "run 7 is tried again: attempt 2",
    ]
    updates = ["update 1: reward 0.250", "update 1: reward 0.250", "update 2: reward 0.500"]
    assert said.out.splitlines() == [*updates, "run 7 succeeded"]


def test_a_run_says_what_it_learns_from(signed_in: Run) -> None:
    worker = Worker.objects.get()
    batch = Batch.objects.create(
        project=worker.project, worker=worker, number=1, target_tasks=1, state="closed", kind="pairs"
    )
    run = TrainingRun.objects.create(
        project=worker.project, worker=worker, batch=batch, recipe={}, recipe_hash="0" * 64, state="queued"
    )
    task = make_task(worker.project, worker)
    for number, source in enumerate(("edit", "edit", "choice")):
        values = {"worker": worker, "task": task, "digest": str(number), "text": "a", "rejected_text": "b"}
        PreferencePair.objects.create(project=worker.project, batch=batch, source=source, **values)
    assert "3 pairs from 1 task: 2 edit, 1 choice" in signed_in("run", "show", str(run.pk)).out


def test_an_adapter_is_shown_with_its_verdicts_and_lineage(signed_in: Run) -> None:
    worker = Worker.objects.get()
    adapter = Adapter.objects.create(
        project=worker.project, worker=worker, name="shop.echo@v1-0", version=1, line_version=1, uri="file:///x",
        sha256="0" * 64, manifest={}, state=Adapter.State.REFUSED,
    )  # fmt: skip
    Verdict.objects.create(adapter=adapter, question="safe", outcome="no", words="It only says hello.")
    shown = signed_in("adapter", "show", adapter.name)
    assert "It only says hello." in shown.out, shown
    assert adapter.name in signed_in("adapter", "list", "--worker", "echo").out
    promoted = signed_in("adapter", "promote", adapter.name)
    assert (promoted.code, "cannot be promoted" in promoted.err) == (1, True)
    rolled = signed_in("adapter", "rollback", "echo")
    assert (rolled.code, "nothing to roll back to" in rolled.err) == (1, True)


def test_exports_are_files(signed_in: Run, tmp_path: Path) -> None:
    Member.objects.filter(user__username="alice").update(role=Role.OWNER)
    signed_in("task", "submit", "Say hello.")
    out = tmp_path / "audit.jsonl"
    assert signed_in("audit", "export", "--out", str(out)).code == 0
    assert b"task.submitted" in out.read_bytes()
    assert signed_in("audit", "verify").out.startswith("clean: ")
    assert signed_in("rollout", "export", "-o", str(tmp_path / "r.jsonl"), "--json").json["size_bytes"] == 0
    assert signed_in("rollout", "list").out == "no rollouts\n"


def test_a_token_is_printed_once_listed_and_revoked(signed_in: Run) -> None:
    made = signed_in("token", "create", "for a script", "-s", "tasks:read")
    assert made.out.startswith("tnt_")
    token = ApiToken.objects.get(name="for a script")
    assert token.scopes == ["tasks:read"]
    listed = signed_in("token", "list").out
    assert "for a script" in listed
    assert made.out.strip() not in listed
    assert signed_in("token", "revoke", str(token.pk)).code == 0
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_accounts_are_made_reset_and_switched_off(signed_in: Run) -> None:
    assert "admins of the installation" in signed_in("user", "list").err
    User.objects.filter(username="alice").update(is_superuser=True)
    made = signed_in("user", "create", "dora")
    dora = User.objects.get(username="dora")
    assert dora.check_password(made.out.strip())
    again = signed_in("user", "reset", "dora", "--json").json["password"]
    dora.refresh_from_db()
    assert dora.check_password(again)
    assert signed_in("user", "deactivate", "dora").out == "dora is switched off\n"
    assert signed_in("user", "deactivate", "dora", "--undo").out == "dora is switched on\n"
    assert signed_in("user", "reset", "nobody").code == 2
    assert "dora" in signed_in("user", "list").out


def test_signing_out_ends_the_token_and_removes_it(signed_in: Run, home: Path) -> None:
    file = home / "credentials.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "alice" in signed_in("whoami").out
    assert signed_in("logout").code == 0
    assert not file.exists()
    assert ApiToken.objects.get().revoked_at is not None
    outcome = signed_in("whoami")
    assert (outcome.code, "tentalis login" in outcome.err) == (1, True)


def test_signing_in_by_password(run: Run, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    forget_callers()
    make_user("alice")
    monkeypatch.setattr(sys, "stdin", StringIO("alice-has-a-password\n"))
    monkeypatch.setattr("getpass.getpass", lambda prompt="", stream=None: sys.stdin.readline().strip())
    outcome = run("login", "--url", live_server.url, "-u", "alice")
    assert outcome.code == 0, outcome
    assert f"signing in to {live_server.url}\n" in outcome.err
    assert "signed in" in outcome.out
    assert run("whoami", "--json").json["username"] == "alice"


def test_a_credentials_file_that_others_can_read_is_refused(signed_in: Run, home: Path) -> None:
    (home / "credentials.toml").chmod(0o644)
    outcome = signed_in("whoami")
    assert (outcome.code, "0600" in outcome.err) == (1, True)


@pytest.mark.parametrize("content", ["", "url = 3", "url = 'x'", "\x00", "token = "])
def test_a_credentials_file_that_is_none_is_named(run: Run, home: Path, content: str) -> None:
    home.mkdir()
    file = home / "credentials.toml"
    file.write_text(content)
    file.chmod(0o600)
    outcome = run("task", "list")
    assert (outcome.code, str(file) in outcome.err, "Traceback" in outcome.err) == (1, True, False)


def test_the_platform_of_this_home_needs_no_login(run: Run, home: Path, live_server: LiveServer) -> None:
    place = Home(home)
    place.prepare()
    with override_settings(TENTALIS={**settings.TENTALIS, "ADMIN_PASSWORD": "a-password-for-the-admin"}):
        call_command("bootstrap", token_file=home / "run" / "admin-token")
    state = StackState(supervisor_pid=os.getpid(), supervisor_identity="", phase="ready", started_at=0.0)
    state = replace(state, addresses={"console_url": live_server.url})
    state.write(place)  # of one that is gone: whoever listens there now may be anybody
    stranger = run("whoami")
    assert (stranger.code, "not signed in" in stranger.err) == (1, True)
    replace(state, supervisor_identity=process_identity(os.getpid())).write(place)
    assert run("whoami", "--json").json["username"] == "admin"
    assert [row["name"] for row in run("worker", "list", "--json").json] == ["desk"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(run: Run, command: str) -> None:
    outcome = run(command, "--help")
    assert (outcome.code, "Usage" in outcome.out) == (0, True)


def test_the_command_line_starts_without_django_and_torch() -> None:
    program = (
        "import sys\nfrom tentalis.cli import main\n"
        "try:\n    main(['task', 'list'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('django', 'torch', 'rest_framework') if name in sys.modules])"
    )
    environment = {**os.environ, "TENTALIS_HOME": "/nowhere-at-all"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    assert done.stdout.strip() == "[]"
    assert "not signed in" in done.stderr
