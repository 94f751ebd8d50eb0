"""An adapter's page says why it is suspected and what the gate measured; its buttons ask for a reason."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Verdict
from apps.audit.models import AuditEntry
from apps.console.selectors.gate_tables import read_gate_tables
from apps.workers.models import Worker
from tentalis.core.field_limits import MAX_REASON_CHARS
from tests.apps.adapters.test_deployment import make_adapter
from tests.factories import make_measured


@pytest.fixture
def adapter(worker: Worker) -> Adapter:
    return make_adapter(worker, 1)


def path_of(name: str, project: Project, adapter: Adapter) -> str:
    return reverse(f"console:{name}", args=(project.slug, adapter.pk))


def read(client: Client, project: Project, adapter: Adapter) -> str:
    return client.get(path_of("adapter", project, adapter)).content.decode()


def test_suspected_and_released_by_hand_each_for_a_reason(
    client: Client, project: Project, adapter: Adapter, alice: User
) -> None:
    client.force_login(alice)
    assert "Put under suspicion" in read(client, project, adapter)
    path = path_of("adapter-suspect", project, adapter)
    assert "What serves now stays in service." in client.get(path).content.decode()
    assert client.post(path, {"reason": "  "}).status_code == 400
    assert client.post(path, {"reason": "x" * (MAX_REASON_CHARS + 1)}).status_code == 400  # as REST says
    assert client.post(path, {"reason": "It <b>flatters</b>."}).status_code == 302
    shown = read(client, project, adapter)
    assert "Why it is under suspicion" in shown
    assert "It &lt;b&gt;flatters&lt;/b&gt;." in shown
    assert "Put into service" not in shown
    path = path_of("adapter-release", project, adapter)
    assert "&lt;b&gt;flatters" in client.get(path).content.decode()
    assert client.post(path, {"reason": "Read a hundred of its answers."}).status_code == 302
    adapter.refresh_from_db()
    assert adapter.state == "verified"
    assert AuditEntry.objects.latest("pk").payload["words"].endswith("Read a hundred of its answers.")
    refused = client.post(path, {"reason": "Once more."})
    assert refused.status_code == 409
    assert "wanted quarantined, found verified" in refused.content.decode()


def test_one_that_is_barred_has_no_way_back(client: Client, project: Project, adapter: Adapter, alice: User) -> None:
    words = "it learnt from somebody who was forgotten"
    Adapter.objects.update(state="quarantined", barred=words, suspicion=words)
    client.force_login(alice)
    shown = read(client, project, adapter)
    assert "It cannot be put into service again." in shown
    assert "Release it" not in shown
    refused = client.post(path_of("adapter-release", project, adapter), {"reason": "It looks harmless."})
    assert refused.status_code == 409
    assert words in refused.content.decode()


def test_the_gates_tables_pair_what_both_were_measured_on(worker: Worker, adapter: Adapter) -> None:
    second = make_adapter(worker, 2)
    Verdict.objects.create(adapter=second, question="safe", outcome="yes", words="", compared_with=adapter.name)
    for model, right in ((adapter, 10), (second, 18)):
        outcomes = [1.0] * right + [0.0] * (20 - right)
        make_measured(worker, model, outcomes)
        make_measured(worker, model, outcomes[::-1], purpose="fresh", items="desk/20/ab", places=range(19, -1, -1))
    make_measured(worker, second, [1.0], purpose="skills", items="alone")
    rows = read_gate_tables(second, list(second.verdicts.all())).measured
    assert [(str(row.title), row.found.items, row.found.candidate, row.found.reference) for row in rows] == [
        ("The held-out panel", 20, 0.9, 0.5),
        ("Tasks drawn for it alone", 20, 0.9, 0.5),
    ], "skills that the other was not tried on are compared with nothing"
    assert all(row.is_apart for row in rows)
    for scale, right in ((0.25, 2), (0.5, 3)):
        outcomes = [1.0] * right + [0.0] * (4 - right)
        make_measured(worker, second, outcomes, purpose="scale", scale=scale, places=(18, 19, 0, 1))
    assert [vars(row) for row in read_gate_tables(second, []).strengths] == [
        {"scale": 0.25, "accuracy": 0.5, "own": 0.5, "items": 4, "planned": 4},
        {"scale": 0.5, "accuracy": 0.75, "own": 0.5, "items": 4, "planned": 4},
    ], "beside what it does on the very same tasks as trained"
    stopped = Verdict(question="safe", details={"scales": {"0.25": {"tried": 4, "of": 20, "right": 2.0}}})
    [row, _] = read_gate_tables(second, [stopped]).strengths
    assert (row.own, row.items, row.planned) == (0.5, 4, 20)
    assert read_gate_tables(adapter, []).strengths == []
