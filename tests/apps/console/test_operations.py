"""The operations pages: what serves and is tried, runs, workers, sessions, queues, the audit."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.tokens import create_token
from apps.adapters.models import Adapter, Deployment
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.calibration.models import Rater
from apps.console.selectors import operations
from apps.console.selectors.dashboard import glance
from apps.console.selectors.lineage import draw_lineage
from apps.console.selectors.sessions import read_calls, show_session
from apps.console.selectors.workers import say_sampling
from apps.inference.models import Exchange, Provider, Session
from apps.outbox.models import Segment
from apps.pipeline import dead_letters
from apps.reports.queues import find_open_queues, find_queue_depths
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.workers.kinds import KINDS, find_kind
from apps.workers.models import Worker
from tests.apps.adapters.test_canary import served  # noqa: F401  (a fixture)
from tests.apps.adapters.test_deployment import make_adapter
from tests.apps.console.builders import sign_in
from tests.e2e.learning_scenery import get_into_trouble
from tests.e2e.pages import find_manager_pages
from tests.e2e.scenery import Scene
from tests.factories import make_task, make_user, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(scene: Scene) -> Client:
    return sign_in(scene.alice)


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("desk", *args))


# --- what serves, and what is tried ----------------------------------------------------------------------------------


def test_managers_pages_are_shown_to_managers_and_refused_to_reviewers(scene: Scene, client: Client) -> None:
    pages = find_manager_pages(scene)
    readable = {"attempt_compare", "run_compare"}
    writing = {
        "adapter_promote",
        "adapter_canary",
        "roll_back",
        "worker_new",
        "worker_change",
        "ensemble_new",
        "ensemble_change",
        "ensemble_remove",
    }
    bob = sign_in(make_user("bob"))
    for name in readable | writing:
        found = pages[name]
        assert client.get(found).status_code == 200, name
        assert bob.get(found).status_code == (200 if name in readable else 403), name


def test_a_confirmation_says_what_will_happen_and_changes_nothing(scene: Scene, client: Client) -> None:
    assert "How to read this" in client.get(path("adapter-canary", scene.candidate.pk)).content.decode()
    page = client.get(path("adapter-promote", scene.candidate.pk)).content.decode()
    assert "What will happen" in page
    assert f"{scene.adapter.name} is retired" in page
    page = client.get(path("roll-back", "desk")).content.decode()
    assert "serves every task that begins from now on" in page
    assert Deployment.objects.get(worker=scene.worker).adapter == scene.adapter


def test_promoting_trying_and_rolling_back_are_done_from_their_pages(served: Worker, alice: User) -> None:  # noqa: F811
    client = sign_in(alice)
    slug, second = served.project.slug, Adapter.objects.get(worker=served, version=2)

    def send(name: str, *args: object, **data: object) -> int:
        return client.post(reverse(f"console:{name}", args=(slug, *args)), data).status_code

    assert send("adapter-canary", second.pk, percent=60) == 400
    assert send("adapter-canary", second.pk, percent=20) == 302
    assert Deployment.objects.get(worker=served).canary == second
    page = client.get(reverse("console:adapter", args=(slug, second.pk))).content.decode()
    assert "Canary: 20 % of new tasks go to" in page
    Deployment.objects.filter(worker=served).update(canary_words="−18.4 points [−31.3, −5.4]")
    third = make_adapter(served, 3)
    page = client.get(reverse("console:adapter-promote", args=(slug, third.pk))).content.decode()
    assert f"The canary of {second.name} ends." in page
    assert "−18.4 points" in page
    assert send("canary-stop", "chatty") == 302
    assert Deployment.objects.get(worker=served).canary is None
    page = client.get(reverse("console:adapter", args=(slug, second.pk))).content.decode()
    for words in ("Ended canaries", "Stopped by hand", "on 20 % of the new tasks", "−18.4 points"):
        assert words in page
    assert send("adapter-promote", second.pk) == 302
    assert Deployment.objects.get(worker=served).adapter == second
    assert send("roll-back", "chatty") == 302
    assert Deployment.objects.get(worker=served).adapter == Adapter.objects.get(worker=served, version=1)


def test_the_lineage_is_drawn_with_links_and_said_as_a_list(scene: Scene, client: Client) -> None:
    lineage = draw_lineage(scene.worker)
    assert lineage is not None
    assert [origin.adapter.version for origin in lineage.origins] == [3, 2, 1]
    assert {origin.feedback for origin in lineage.origins} == {1}
    assert [edge.kind for edge in lineage.edges].count("parent") == 2
    kinds = [node.kind for node in lineage.nodes]
    assert (kinds.count("adapter"), kinds.count("served")) == (3, 1)
    right = max(node.end for node in lineage.nodes)
    assert right <= lineage.width
    page = client.get(path("adapter-list")).content.decode()
    assert page.count('class="node is-') == len(lineage.nodes)
    assert f'href="{path("run", scene.run.pk)}" class="node' in page


def test_lists_are_filtered_in_their_address(scene: Scene, client: Client) -> None:
    failed = client.get(path("run-list"), {"state": "failed"}).context["points"]
    assert [point.run for point in failed] == [scene.failed_run]
    assert client.get(path("run-list"), {"worker": "nobody"}).context["points"] == []
    retired = client.get(path("adapter-list"), {"state": "retired", "worker": "desk"}).context["adapters"]
    assert {row.adapter.state for row in retired} == {"retired"}
    for name in ("run-list", "adapter-list", "session-list"):
        assert client.get(path(name), {"state": "gone"}).status_code == 404, name


# --- runs ------------------------------------------------------------------------------------------------------------


def test_runs_are_compared_side_by_side(scene: Scene, client: Client) -> None:
    others = [run.pk for run in TrainingRun.objects.exclude(metrics=[]).exclude(pk=scene.run.pk)]
    page = client.get(path("run", scene.run.pk), {"with": ",".join(map(str, others))})
    (first, *_) = page.context["view"].groups[0].charts
    assert len(first.series) == 1 + len(others)
    assert f'data-series="{first.columns}"' in page.content.decode()


def test_what_cannot_be_taken_back_asks_first(scene: Scene, client: Client) -> None:
    waiting = get_into_trouble(scene.worker)["waiting"]
    token, _text = create_token(user=scene.alice, name="claw", scopes=["tasks:read"], by=scene.alice)
    for name, row in (("task-cancel", scene.in_review), ("run-cancel", waiting), ("token-revoke", token)):
        page = client.get(path(name, row.pk)).content.decode()
        assert "What will happen" in page, name
    for row in (scene.in_review, waiting, token):
        row.refresh_from_db()
    assert (scene.in_review.state, waiting.state, token.revoked_at) == ("in_review", "queued", None)
    for name, row in (("task-cancel", scene.in_review), ("run-cancel", waiting), ("token-revoke", token)):
        assert client.post(path(name, row.pk)).status_code == 302, name
        assert "It cannot be done" in client.get(path(name, row.pk)).content.decode(), name


def test_a_run_that_has_not_begun_does_not_say_what_it_continues(scene: Scene, client: Client) -> None:
    waiting = get_into_trouble(scene.worker)["waiting"]
    TrainingRun.objects.filter(pk=waiting.pk).update(attempt=0, parent=None)
    page = client.get(path("run", waiting.pk)).content.decode()
    assert "what serves when it begins" in page
    assert "the base model</dd>" not in page


def test_a_run_is_tried_again_from_its_page_with_other_fields(scene: Scene, client: Client) -> None:
    page = client.get(path("run-retry", scene.failed_run.pk)).content.decode()
    assert "the same judged attempts" in page
    refused = client.post(path("run-retry", scene.failed_run.pk), {"recipe": '{"learning_rate": "much"}'})
    assert (refused.status_code, "learning_rate" in refused.content.decode()) == (400, True)
    assert client.post(path("run-retry", scene.failed_run.pk), {"recipe": "[]"}).status_code == 400
    given = {"recipe": '{"learning_rate": 0.0005}', "recipe_from": "run"}
    assert client.post(path("run-retry", scene.failed_run.pk), given).status_code == 302
    scene.failed_run.refresh_from_db()
    assert (scene.failed_run.state, scene.failed_run.recipe["learning_rate"]) == ("queued", 0.0005)


@pytest.mark.parametrize("with_", ["1,2,3,4,5,6", "999999", "x"])
def test_runs_that_are_none_or_too_many_are_not_compared(scene: Scene, client: Client, with_: str) -> None:
    assert client.get(path("run", scene.run.pk), {"with": with_}).status_code == 404


def test_a_run_under_way_asks_for_its_new_points_and_one_that_ended_does_not(scene: Scene, client: Client) -> None:
    assert 'hx-trigger="every 2s"' not in client.get(path("run", scene.run.pk)).content.decode()
    TrainingRun.objects.filter(pk=scene.run.pk).update(state="running")
    assert 'hx-trigger="every 2s"' in client.get(path("run", scene.run.pk), {"fragment": "run"}).content.decode()


# --- the dashboard ---------------------------------------------------------------------------------------------------


def test_alarms_say_what_is_wrong_and_where_to_do_something_about_it(scene: Scene) -> None:
    project = scene.project
    assert {"dead-letters", "run-list"} <= {alarm.page for alarm in glance(project).alarms}
    TrainingRun.objects.filter(pk=scene.run.pk).update(
        state="running", heartbeat_at=timezone.now() - timedelta(hours=1)
    )
    Batch.objects.create(
        project=project, worker=scene.worker, number=90, target_tasks=1, state="closed",
        closed_at=timezone.now() - timedelta(hours=1),
    )  # fmt: skip
    Rater.objects.create(project=project, handle="user:mallory", kind="person", quarantined_at=timezone.now())
    Exchange.objects.create(project=project, model="desk", error="the server answered 500")
    Segment.objects.create(
        kind="work", subject_id=scene.in_review.pk, project_id=project.pk, links=["tasks.work"], queue="workers",
        run_after=timezone.now() + timedelta(minutes=1), errors=[{"type": "ProviderBusyError"}],
    )  # fmt: skip
    Project.objects.filter(pk=project.pk).update(learning_enabled=False)
    project.refresh_from_db()
    newest = Adapter.objects.filter(worker=scene.worker).latest("pk")
    Adapter.objects.filter(pk=newest.pk).update(state="refused")
    said = " ".join(alarm.words for alarm in glance(project).alarms)
    for words in (
        "1 job failed (tries: ",
        f"The gate refused {newest.name}, the newest of desk.",
        f"does not report in run {scene.run.pk}",
        f"failed (run {scene.failed_run.pk})",
        "Batch 90 of desk is full and nothing trains it",
        "No longer counted: PRM, mallory.",
        f"2 of the latest {Exchange.objects.count()} calls to models failed",
        "1 job will be retried",
        "Learning is switched off",
    ):
        assert words in said


def test_tasks_done_are_counted_by_the_hour(scene: Scene) -> None:
    now = timezone.now().replace(minute=30)
    done = list(Task.objects.filter(state="done").values_list("pk", flat=True))
    Task.objects.filter(pk__in=done).update(updated_at=now - timedelta(days=3))
    for hours, pk in zip((0, 2, 2), done, strict=False):
        Task.objects.filter(pk=pk).update(updated_at=now - timedelta(hours=hours))
    seen = glance(scene.project)
    assert [hour.done for hour in seen.hours][-3:] == [2, 0, 1]
    assert (seen.done, seen.busiest, seen.is_partial) == (3, 2, False)


# --- workers, sessions, tasksets -------------------------------------------------------------------------------------


def test_a_manager_adds_and_changes_a_worker(scene: Scene, client: Client) -> None:
    answer = client.post(path("worker-new"), {"name": "echo-2", "kind": "echo"})
    assert answer.headers["Location"] == path("worker", "echo-2")
    given = {"temperature": "0.7", "max_tokens": "40", "is_active": "on", "fallbacks": "engine/desk\r\nengine/other"}
    answer = client.post(path("worker-change", "desk"), given)
    assert answer.status_code == 302
    worker = Worker.objects.get(name="desk")
    assert (worker.sampling, worker.is_active) == ({"temperature": 0.7, "max_tokens": 40}, True)
    assert worker.fallbacks == ["engine/desk", "engine/other"]
    assert "engine/desk, engine/other" in client.get(path("worker", "desk")).content.decode()
    refused = client.post(path("worker-change", "desk"), given | {"fallbacks": "nowhere/x"}).content.decode()
    assert "the project has no model server nowhere" in refused
    assert client.post(path("worker-change", "desk"), {}).status_code == 302
    assert not Worker.objects.get(name="desk").is_active


def test_an_openclaw_worker_names_its_openclaw_and_the_agent_there(scene: Scene, client: Client) -> None:
    gateway = Provider.objects.create(
        project=scene.project, name="claw", kind="custom", base_url="http://claw.example/v1"
    )
    given = {"name": "lobster", "kind": "openclaw", "agent_server": gateway.pk, "agent_id": "support"}
    assert client.post(path("worker-new"), given).status_code == 302
    worker = Worker.objects.get(name="lobster")
    assert (worker.agent_server, worker.agent_id) == (gateway, "support")
    changed = {"agent_server": gateway.pk, "agent_id": "sales", "is_active": "on"}
    assert client.post(path("worker-change", "lobster"), changed).status_code == 302
    worker.refresh_from_db()
    assert (worker.agent_server, worker.agent_id) == (gateway, "sales")
    assert "agent_id" in client.get(path("worker-change", "lobster")).content.decode()
    assert "agent_id" not in client.get(path("worker-change", "desk")).content.decode()


def test_a_worker_is_asked_for_what_its_kind_needs_and_nothing_else(scene: Scene, client: Client) -> None:
    page = client.get(path("worker-new")).content.decode()
    assert all(f'href="?kind={kind}"' in page for kind in KINDS)
    shown = {}
    for kind in KINDS:
        form = client.get(path("worker-new"), {"kind": kind}).context["form"]
        shown[kind] = {field.name: field.field.required for field in form.visible_fields()}
        for name, rule in find_kind(kind).sampling.items():
            assert (form.fields[name].min_value, form.fields[name].max_value) == (rule.low, rule.high)
    assert list(shown["echo"]) == ["name"]
    assert (shown["chat"]["provider"], shown["outside"]["provider"], shown["openclaw"]["agent_server"]) == (
        False, False, True,
    )  # fmt: skip  # a model comes along that the installation's own engine serves
    assert [kind for kind in shown if "agent_id" in shown[kind]] == ["openclaw"]
    assert [kind for kind in shown if "top_p" in shown[kind]] == ["chat", "outside", "openclaw"]
    assert [kind for kind in shown if "base_directory" not in shown[kind]] == ["echo"]
    assert client.get(path("worker-new"), {"kind": "robot"}).status_code == 400
    refused = client.post(path("worker-new"), {"name": "w", "kind": "chat", "base_model": "m"})
    assert (refused.status_code, "provider" in refused.context["form"].errors) == (400, True)


def test_base_weights_stand_on_worker_run_and_adapter_pages(scene: Scene, client: Client) -> None:
    manifest = {"base_model": "/models/mine", "base_sha256": "ab" * 32}
    Adapter.objects.filter(pk=scene.adapter.pk).update(manifest=manifest, run_id=scene.run.pk)
    Worker.objects.filter(pk=scene.worker.pk).update(
        base_directory="/models/mine", base_facts={"model_type": "llama", "fingerprint": "cd" * 32, "parameters": 7}
    )
    for page in (path("worker", scene.worker.name), path("adapter", scene.adapter.pk), path("run", scene.run.pk)):
        said = client.get(page).content.decode()
        assert "/models/mine" in said, page
    page = client.get(path("worker", scene.worker.name)).content.decode()
    assert "files cdcdcdcdcdcd" in page
    assert "not since either was changed" in page
    said = client.post(path("worker-compare", scene.worker.name), follow=True).content.decode()
    assert said.count("found no readable config.json") == 2, "in the message, and kept on the page"
    assert "Compare again" in said
    assert "abababababababab" in client.get(path("adapter", scene.adapter.pk)).content.decode()
    box = Provider.objects.create(project=scene.project, name="own", kind="vllm", base_url="https://box.example.com")
    make_worker(scene.project, "adder", Worker.Kind.CHAT, provider=box, base_model="m")
    assert "none: nothing of it trains" in client.get(path("worker", "adder")).content.decode()


def test_a_candidate_has_its_button_and_a_page_that_says_what_it_does(scene: Scene, client: Client) -> None:
    candidate = make_adapter(scene.worker, 9, Adapter.State.CANDIDATE)
    page = client.get(path("adapter", candidate.pk)).content.decode()
    for name in ("adapter-promote", "adapter-canary", "adapter-shadow"):
        assert path(name, candidate.pk) in page, name
    asked = client.get(path("adapter-promote", candidate.pk)).content.decode()
    assert "you would put it into service without proof" in asked
    Segment.objects.create(
        kind="adopt", subject_id=candidate.pk, project_id=scene.project.pk, links=["adapters.gate"], queue="gates"
    )
    page = client.get(path("adapter", candidate.pk)).content.decode()
    assert path("adapter-canary", candidate.pk) not in page


def test_a_refused_worker_says_which_field_is_at_fault_and_keeps_what_was_typed(scene: Scene, client: Client) -> None:
    answer = client.post(path("worker-new"), {"name": "Not A Name", "kind": "chat", "system_prompt": "Be kind."})
    assert answer.status_code == 422 or answer.status_code == 400
    page = answer.content.decode()
    assert "Lower-case letters" in page
    assert "Be kind." in page
    assert not Worker.objects.filter(kind="chat").exists()


def test_sampling_is_said_in_words(project: Project) -> None:
    worker = make_worker(project, "chatty", Worker.Kind.CHAT, sampling={"temperature": 0.0, "top_p": 0.9})
    said = dict(say_sampling(worker))
    assert "always the likeliest" in said["Temperature"]
    assert said["top-p"] == "0.9"
    assert dict(say_sampling(make_worker(project, "claw", Worker.Kind.OUTSIDE)))["Temperature"] == "as its agent asks"
    assert say_sampling(make_worker(project, "echo")) == []


def test_a_worker_page_names_no_batch_of_a_training_that_has_none(scene: Scene, client: Client) -> None:
    run = scene.worker.runs.latest("pk")
    type(run).objects.filter(pk=run.pk).update(batch=None, purpose="manager")
    page = " ".join(client.get(path("worker", scene.worker.name)).content.decode().split())
    assert f"Run {run.pk}<" in page
    assert "batch ," not in page


def test_a_worker_page_says_who_holds_its_tasks(scene: Scene, client: Client) -> None:
    task = Task.objects.get(state="working")
    Segment.objects.create(
        kind="work", subject_id=task.pk, project_id=scene.project.pk, links=["tasks.work"], queue="workers",
        fence="6b3f5c1e-0000-4000-8000-000000000000", lease_until=timezone.now() + timedelta(minutes=1),
        lease_owner="box:41", attempts=2,
    )  # fmt: skip
    assert "held by box:41, try 2" in client.get(path("worker", "desk")).content.decode()
    Segment.objects.filter(subject_id=task.pk).update(lease_until=timezone.now() - timedelta(minutes=1))
    assert "its lease ran out" in client.get(path("worker", "desk")).content.decode()
    assert client.get(path("worker", "nobody")).status_code == 404


def test_a_session_shows_only_what_is_new_in_each_call(scene: Scene) -> None:
    view = show_session(scene.project, Session.objects.get().pk)
    assert view is not None
    assert [[said.role for said in call.messages] for call in view.calls] == [["system", "user"], ["tool"], ["user"]]
    assert (view.exchanges, view.prompt_tokens, view.completion_tokens) == (3, 44, 28)
    assert view.calls[0].answer.calls == [("stock", {"item": "blue lamp", "room": 3})]
    assert view.calls[0].adapter == scene.adapter
    assert [call.is_part for call in view.calls] == [True, True, False]
    later = show_session(scene.project, Session.objects.get().pk, after=view.calls[0].exchange.pk)
    assert later is not None
    assert [[said.role for said in call.messages] for call in later.calls] == [["tool"], ["user"]]


def test_what_was_said_in_a_session_stays_text(scene: Scene, client: Client) -> None:
    session = Session.objects.get()
    Exchange.objects.create(
        project=scene.project, session=session, model="<img src=x onerror=alert(1)>", text="<script>alert(1)</script>",
        messages=[{"role": "<b>", "content": [{"type": "text", "text": "\u202eevil"}, {"type": "image_url"}]}, "odd"],
        tool_calls=[{"function": {"name": "<i>", "arguments": '{"<u>": "<s>"}'}}, "odd"],
    )  # fmt: skip
    page = client.get(path("session", session.pk)).content.decode()
    assert not [tag for tag in ("<script>alert", "<img src=x", "<b>", "<i>", "<u>", "<s>", "\u202e") if tag in page]
    assert "[image_url]" in page


@pytest.mark.parametrize("calls", [None, "x", [{}], [{"function": None}], [{"name": "look", "input": [1]}], [3]])
def test_odd_tool_calls_do_not_break_a_page(calls: object) -> None:
    assert isinstance(read_calls(calls), list)


# --- queues and the audit --------------------------------------------------------------------------------------------


def bury(project: Project, count: int, *, error: str, worker: Worker | None = None) -> list[Task]:
    """Failed tasks, each with its dead letter."""
    tasks = [
        make_task(project, worker, state="failed", failed_link="tasks.work", failure=f"{error}: no")
        for _ in range(count)
    ]
    Segment.objects.bulk_create(
        Segment(
            kind="work", subject_id=task.pk, project_id=project.pk, links=["tasks.work"], queue="workers",
            state="dead", finished_at=timezone.now(), errors=[{"type": "Older"}, {"type": error, "message": "no"}],
        )
        for task in tasks
    )  # fmt: skip
    return tasks


def test_two_hundred_failed_tasks_are_replayed_by_one_click(project: Project, alice: User) -> None:
    worker = make_worker(project)
    tasks = bury(project, 200, error="ProviderRefusedError", worker=worker)
    (other,) = bury(project, 1, error="NoAnswerError", worker=worker)
    client = sign_in(alice)
    page = client.get(f"/p/{project.slug}/failed-work/?error=ProviderRefusedError").content.decode()
    assert "Replay all 200 of these" in page
    assert "NoAnswerError (1)" in page
    answer = client.post(
        f"/p/{project.slug}/failed-work/replay/", {"kind": "", "error": "ProviderRefusedError"}, follow=True
    )
    assert "200 are at work again." in answer.content.decode()
    assert set(Task.objects.filter(pk__in=[task.pk for task in tasks]).values_list("state", flat=True)) == {"queued"}
    assert Segment.objects.get(subject_id=other.pk).state == "dead"
    bob = sign_in(User.objects.get(username="bob"))
    assert bob.post(f"/p/{project.slug}/failed-work/replay/", {}).status_code == 403


def test_what_is_at_work_already_is_passed_over_and_counted(project: Project, alice: User) -> None:
    first, second = bury(project, 2, error="NoAnswerError")
    Segment.objects.create(
        kind="work", subject_id=first.pk, project_id=project.pk, links=["tasks.work"], queue="workers"
    )
    assert dead_letters.replay_all(project=project, by=alice) == (1, 1, 0)
    second.refresh_from_db()
    assert second.state == "queued"


def test_queues_tell_waiting_sent_held_and_expired_apart(project: Project) -> None:
    now = timezone.now()
    rows: dict[str, dict[str, Any]] = {
        "waiting": {},
        "until it cannot be undone": {"run_after": now + timedelta(minutes=5)},
        "retrying": {"run_after": now + timedelta(minutes=5), "errors": [{"type": "RuntimeError", "message": "no"}]},
        "away": {
            "run_after": now + timedelta(minutes=5),
            "errors": [{"type": "ProviderBusyError", "message": "no"}],
            "away_since": now,
        },
        "sent": {"published_at": now},
        "held": {
            "published_at": now,
            "fence": "6b3f5c1e-0000-4000-8000-000000000001",
            "lease_until": now + timedelta(1),
        },
        "expired": {
            "published_at": now,
            "fence": "6b3f5c1e-0000-4000-8000-000000000002",
            "lease_until": now - timedelta(1),
        },
    }
    for number, values in enumerate(rows.values()):
        Segment.objects.create(
            kind="work", subject_id=number, project_id=project.pk, links=["tasks.work"], queue="workers", **values
        )
    dead = Segment.objects.create(
        kind="work",
        subject_id=9,
        project_id=project.pk,
        links=["tasks.work"],
        queue="control",
        state=Segment.State.DEAD,
    )
    (depth,) = find_open_queues(project)
    assert [(each.queue, each.dead) for each in find_queue_depths([project])] == [(dead.queue, 1), (depth.queue, 0)]
    assert (depth.waiting, depth.retrying, depth.away) == (4, 1, 1)
    assert (depth.out, depth.held, depth.expired, depth.in_flight, depth.open) == (1, 1, 1, 3, 7)
    assert depth.oldest_s is not None


def test_the_audit_is_found_by_day_actor_kind_and_subject(scene: Scene, client: Client) -> None:
    entry = record(Kind.TASK_CANCELLED, subject=scene.failed, by="user:mallory")
    today = timezone.localdate()

    def found(**query: Any) -> list[int]:
        return [one.pk for one in client.get(path("audit"), query).context["entries"]]

    assert found(actor="user:mallory") == [entry.pk]
    assert found(kind="task.cancelled") == [entry.pk]
    assert entry.pk in found(subject="task", id=scene.failed.pk)
    assert found(subject="task", id=999_999) == []
    assert found(since=today, until=today)[0] == entry.pk
    assert found(until=today - timedelta(days=1)) == []
    assert found(since=today + timedelta(days=1)) == []
    for query in ({"since": "soon"}, {"kind": "gone"}, {"id": "x"}, {"until": "0001-01-01"}):
        assert client.get(path("audit"), query).status_code == 404, query


def test_a_filter_looks_through_a_bounded_window_and_goes_on_below_it(scene: Scene) -> None:
    entries = AuditEntry.objects.filter(project_id=scene.project.pk)
    oldest, newest = entries.earliest("pk"), entries.latest("pk")
    wanted = operations.AuditFilter(kind=oldest.kind)
    seen: list[int] = []
    pages = 0
    before: int | None = None
    while pages < 1 + (newest.pk - oldest.pk):
        page, before = operations.find_audit(scene.project, wanted=wanted, before=before, window=5)
        seen += [entry.pk for entry in page]
        pages += 1
        if before is None or before <= oldest.pk:
            break
    assert pages > 3
    assert seen == list(entries.filter(kind=oldest.kind).order_by("-pk").values_list("pk", flat=True))


# --- nothing there ---------------------------------------------------------------------------------------------------


def test_an_empty_project_says_on_every_new_list_what_it_is_for(alice: User, project: Project) -> None:
    client = sign_in(alice)
    said = {
        "worker-list": "No worker yet",
        "session-list": "No session yet",
        "taskset-list": "No taskset yet",
        "my-feedback": "You have not given feedback yet",
    }
    for name, words in said.items():
        assert words in client.get(reverse(f"console:{name}", args=(project.slug,))).content.decode(), name


def test_a_viewer_is_offered_no_worker_to_add(scene: Scene) -> None:
    vera = make_user("vera")
    Member.objects.create(project=scene.project, user=vera, role=Role.VIEWER)
    client = sign_in(vera)
    assert path("worker-new") not in client.get(path("worker-list")).content.decode()
    assert client.get(path("worker-new")).status_code == 403


def test_pages_cost_the_same_however_much_they_show(scene: Scene, client: Client) -> None:
    def count(found: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(found).status_code == 200
        return len(queries)

    pages = [
        path("worker-list"),
        path("worker", "desk"),
        path("session-list"),
        path("taskset-list"),
        path("dead-letters"),
    ]
    pages += [path("my-feedback"), path("adapter-people", scene.adapter.pk), path("session", Session.objects.get().pk)]
    client.get(pages[0])
    before = [count(found) for found in pages]
    for number in range(4):
        worker = make_worker(scene.project, f"more-{number}")
        make_task(scene.project, worker, state="working")
        make_task(scene.project, scene.worker, state="working")
        session = Session.objects.create(project=scene.project, key=f"s{number}")
        for one in (session, Session.objects.earliest("pk")):
            Exchange.objects.create(project=scene.project, session=one, model="desk", text="hm")
        Segment.objects.create(
            kind="work",
            subject_id=number,
            project_id=scene.project.pk,
            links=["tasks.work"],
            queue="workers",
            state="dead",
        )
    assert [count(found) for found in pages] == before


def test_an_adapters_page_says_what_its_verdict_waits_for(scene: Scene, client: Client) -> None:
    Adapter.objects.filter(pk=scene.adapter.pk).update(state="candidate", waits_for="tries of the harness")
    assert "The gate waits for tries of the harness" in client.get(path("adapter", scene.adapter.pk)).content.decode()


def test_an_adapters_page_says_that_the_gate_looks_at_it(scene: Scene, client: Client) -> None:
    adapter = scene.adapter
    adapter.verdicts.all().delete()

    def says_so() -> bool:
        return "The gate is looking at it" in client.get(path("adapter", adapter.pk)).content.decode()

    assert not says_so()
    Segment.objects.create(kind="adopt", subject_id=adapter.pk, links=["gate"], queue="gates")
    assert says_so()
