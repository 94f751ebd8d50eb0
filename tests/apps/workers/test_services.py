"""Workers made, changed and removed."""

from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Deployment
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.evals.models import ChosenPanel, ItemTry, Taskset
from apps.inference.models import Provider
from apps.workers.agents import find_longest_answer, get_agent
from apps.workers.agents.chat import ChatAgent
from apps.workers.agents.echo import EchoAgent
from apps.workers.models import Worker
from apps.workers.rules import find_environment_error
from apps.workers.selectors import find_base_model
from apps.workers.services import WorkerKeptError, change_worker, create_worker, delete_worker
from apps.worlds.desk.agent import DeskAgent
from tests.factories import make_measured, make_project, make_task


def make_provider(project: Project | None, name: str = "lab") -> Provider:
    return Provider.objects.create(
        project=project, name=name, kind="vllm", base_url="http://lab:8000", default_model="qwen"
    )


def kinds(worker: Worker) -> list[str]:
    entries = AuditEntry.objects.filter(subject_type="worker", subject_id=worker.pk)
    return list(entries.order_by("id").values_list("kind", flat=True))


def make_adapter(worker: Worker) -> Adapter:
    return Adapter.objects.create(
        project=worker.project, worker=worker, name="clerk@v1-ab", version=1, line_version=1, uri="file:///x",
        sha256="0" * 64, manifest={},
    )  # fmt: skip


def test_a_desk_worker_needs_nothing_but_a_name(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    assert worker.base_model == "desk"
    assert isinstance(get_agent(worker), DeskAgent)
    assert kinds(worker) == ["worker.created"]


def test_a_chat_worker_takes_the_default_model_of_its_server(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="writer", kind="chat", provider=make_provider(project), by=alice)
    assert worker.base_model == "qwen"
    assert isinstance(get_agent(worker), ChatAgent)


@pytest.mark.parametrize(
    ("facts", "probe", "most"),
    [
        ({}, {}, 1024),
        ({"context_tokens": 512}, {}, 256),
        ({"context_tokens": None}, {"model": "qwen", "context_tokens": 300}, 150),
        ({"context_tokens": 512}, {"model": "another", "context_tokens": 300}, 256),
        ({"context_tokens": 32_768}, {"model": "qwen", "context_tokens": 32_768}, 1024),
    ],
)
def test_the_usual_longest_answer_leaves_room_for_the_prompt(
    project: Project, facts: dict[str, Any], probe: dict[str, Any], most: int
) -> None:
    provider = make_provider(project)
    provider.probe = probe
    worker = Worker(project=project, kind="chat", provider=provider, base_facts=facts)
    assert find_longest_answer(worker) == most
    assert isinstance(get_agent(worker), ChatAgent)


def test_an_echo_worker_asks_no_server(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="echo", kind="echo", by=alice)
    assert isinstance(get_agent(worker), EchoAgent)
    with pytest.raises(BadInputError, match="asks no model"):
        change_worker(worker=worker, by=alice, provider=make_provider(project))


def test_the_desks_worker_fits_the_desk_alone(project: Project, alice: User) -> None:
    clerk = create_worker(project=project, name="clerk", kind="desk", by=alice)
    assert find_environment_error(clerk, "desk") == ""
    assert "found environment 'chat'" in find_environment_error(clerk, "chat")


def test_the_base_model_of_a_row_made_without_one_is_its_kinds(project: Project) -> None:
    def base(kind: str, **values: Any) -> str:
        return find_base_model(Worker(project=project, kind=kind, **values))

    assert [base("desk"), base("echo"), base("chat"), base("desk", base_model="mine")] == ["desk", "", "", "mine"]
    assert base("chat", provider=make_provider(project)) == "qwen"


@pytest.mark.parametrize(
    ("fields", "at_fault", "words"),
    [
        ({"kind": "robot"}, {"kind"}, "found 'robot'"),
        ({"name": "Two Words"}, {"name"}, "found 'Two Words'"),
        ({"name": "x" * 65}, {"name"}, "64"),
        ({"kind": "chat"}, {"provider", "base_model"}, "needs a model server"),
        ({"sampling": {"temperature": 3}}, {"sampling"}, "from 0 to 2, found 3"),
        ({"sampling": {"temperature": float("nan")}}, {"sampling"}, "found nan"),
        ({"sampling": {"max_tokens": 16.5}}, {"sampling"}, "a whole number from 8 to 128"),
        ({"sampling": {"max_tokens": True}}, {"sampling"}, "found True"),
        ({"sampling": {"best_of": 2}}, {"sampling"}, "found 'best_of'"),
        ({"sampling": ["temperature"]}, {"sampling"}, "must be an object, found list"),
        ({"kind": "echo", "sampling": {"temperature": 1}}, {"sampling"}, "may hold nothing"),
    ],
)
def test_a_bad_field_of_a_worker_is_named_with_what_was_found(
    project: Project, alice: User, fields: dict[str, Any], at_fault: set[str], words: str
) -> None:
    with pytest.raises(BadInputError) as raised:
        create_worker(project=project, by=alice, **{"name": "clerk", "kind": "desk"} | fields)
    assert set(raised.value.errors) == at_fault
    assert words in str(raised.value)
    assert not Worker.objects.exists()


def test_a_worker_cannot_use_the_model_server_of_another_project(project: Project, alice: User) -> None:
    foreign = make_provider(make_project("other"))
    with pytest.raises(BadInputError, match="one of the project's model servers"):
        create_worker(project=project, name="writer", kind="chat", provider=foreign, by=alice)


def test_a_worker_may_use_a_model_server_that_is_open_to_all_projects(project: Project, alice: User) -> None:
    provider = make_provider(None)
    Provider.objects.update(granted_to="everyone")
    provider.refresh_from_db()
    assert create_worker(project=project, name="writer", kind="chat", provider=provider, by=alice).pk


def test_a_taken_name_is_a_conflict(project: Project, alice: User) -> None:
    create_worker(project=project, name="clerk", kind="desk", by=alice)
    with pytest.raises(ConflictError, match="the name clerk is taken"):
        create_worker(project=project, name="clerk", kind="echo", by=alice)


def test_only_who_runs_workers_may_make_change_or_delete_them(
    project: Project, alice: User, bob: User, charlie: User
) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    with pytest.raises(NotAllowedError):
        create_worker(project=project, name="mine", kind="echo", by=bob)
    with pytest.raises(NotFoundError):
        change_worker(worker=worker, by=charlie, is_active=False)
    with pytest.raises(NotFoundError):
        delete_worker(worker=worker, by=charlie)


def test_a_change_is_audited_with_before_and_after(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    changed = change_worker(worker=worker, by=alice, sampling={"temperature": 0.5}, is_active=True)
    assert changed.sampling == {"temperature": 0.5}
    entry = AuditEntry.objects.get(kind="worker.changed")
    assert entry.payload == {"before": {"sampling": {}}, "after": {"sampling": {"temperature": 0.5}}}


def test_a_change_of_nothing_is_not_audited(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    change_worker(worker=worker, by=alice, is_active=True)
    assert kinds(worker) == ["worker.created"]


def test_name_and_kind_cannot_change(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    with pytest.raises(BadInputError) as raised:
        change_worker(worker=worker, by=alice, kind="echo", name="other")
    assert set(raised.value.errors) == {"kind", "name"}


def test_a_bad_change_leaves_the_row_as_it_was(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    with pytest.raises(BadInputError):
        change_worker(worker=worker, by=alice, system_prompt="new", sampling={"temperature": -1})
    assert Worker.objects.get(pk=worker.pk).system_prompt == ""


def test_the_base_under_trained_adapters_cannot_be_swapped(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    make_adapter(worker)
    with pytest.raises(ConflictError, match="adapters trained on 'desk'"):
        change_worker(worker=worker, by=alice, base_model="other")


def test_since_when_a_worker_has_its_base_model_is_known(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="chat", by=alice, provider=make_provider(project))
    for said in ({"sampling": {"temperature": 0.5}}, {"base_directory": "desk"}, {"base_model": worker.base_model}):
        assert change_worker(worker=worker, by=alice, **said).base_since is None, "nobody had named its files before"
    since = change_worker(worker=worker, by=alice, base_model="large").base_since
    assert since is not None
    assert change_worker(worker=worker, by=alice, is_active=False).base_since == since
    Worker.objects.update(base_facts={"fingerprint": "f"}, base_directory="desk")
    assert change_worker(worker=worker, by=alice, base_directory="", base_model="other").base_since != since


def test_a_worker_that_never_worked_can_be_deleted(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    delete_worker(worker=Worker.objects.get(pk=worker.pk), by=alice)
    assert kinds(worker) == ["worker.created", "worker.deleted"]


def test_a_worker_with_tasks_stays(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    make_task(project, worker)
    with pytest.raises(ConflictError, match="switch it off"):
        delete_worker(worker=worker, by=alice)
    assert kinds(worker) == ["worker.created"]


def test_a_worker_that_was_measured_stays_with_what_was_found(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    evaluation = make_measured(worker, None, [1.0, 0.0], purpose="report", asked_by=alice.handle)
    with pytest.raises(WorkerKeptError, match="clerk stays in the history of evaluations: switch it off"):
        delete_worker(worker=worker, by=alice)
    assert ItemTry.objects.filter(evaluation=evaluation).count() == 2
    assert kinds(worker) == ["worker.created"]


def test_a_worker_that_learnt_stays_with_its_adapters(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    adapter = make_adapter(worker)
    with pytest.raises(WorkerKeptError, match="history of adapters"):
        delete_worker(worker=worker, by=alice)
    assert Adapter.objects.filter(pk=adapter.pk).exists()


def test_what_was_chosen_for_a_worker_goes_with_it(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="clerk", kind="desk", by=alice)
    taskset = Taskset.objects.create(project=project, name="sums", version=1, environment="desk")
    ChosenPanel.objects.create(worker=worker, taskset=taskset)
    Deployment.objects.create(worker=worker)
    delete_worker(worker=worker, by=alice)
    assert not ChosenPanel.objects.exists()
    assert not Deployment.objects.exists()


def test_an_outside_workers_tasks_are_not_done_here_and_it_may_be_supervised(project: Project, alice: User) -> None:
    worker = create_worker(project=project, name="claw", kind="outside", supervision={"tools": ["refund"]}, by=alice)
    assert change_worker(worker=worker, by=alice, sampling={"temperature": 0.7}).sampling == {"temperature": 0.7}
    with pytest.raises(ConflictError, match="claw works outside"):
        get_agent(worker)
    assert change_worker(worker=worker, by=alice, supervision={}).supervision == {}


@pytest.mark.parametrize(
    ("kind", "supervision", "words"),
    [
        ("outside", {"tools": "refund"}, "tools: wanted a list"),
        ("outside", [], "wanted an object"),
        ("desk", {"tools": ["*"]}, "kind desk answers in one go"),
        ("echo", {"messages": True}, "kind echo answers in one go"),
        ("chat", {"messages": True}, "of kind chat only calls of tools wait"),
    ],
)
def test_a_supervision_that_cannot_be_is_refused(
    project: Project, alice: User, kind: str, supervision: Any, words: str
) -> None:
    with pytest.raises(BadInputError, match=words) as raised:
        create_worker(project=project, name="claw", kind=kind, supervision=supervision, by=alice)
    assert "supervision" in raised.value.errors
