"""Between a look at what serves and the row that says so others act: nobody is served what may not serve, and no honest
adapter is lost.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.adapters import services, serving
from apps.adapters.artifacts import path_of
from apps.adapters.errors import MovedMeanwhileError
from apps.adapters.models import Adapter, Deployment, Shadow, Verdict
from apps.adapters.selectors import find_deployed
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move
from apps.base.errors import ConflictError, IllegalMoveError
from apps.erasure import unlearn_adapters
from apps.gate import gating
from apps.inference.errors import ProviderBusyError
from apps.inference.models import Provider
from apps.outbox import services as outbox
from apps.outbox.models import Segment
from apps.pipeline import canary_trials, shadow_trials, sweep
from apps.training.services import is_unsettled
from apps.workers.models import Worker
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.adapters.vllm_stub import VllmStub
from tests.chaos.interleave import Side, at_once, until_waiting
from tests.factories import make_project, make_worker
from tests.links import run_link

pytestmark = pytest.mark.django_db(transaction=True)

PROBE, PANEL = "/v1/chat/completions", "/v1/completions"
SMALL = {"panel_size": 12, "fresh_size": 4, "skills_size": 0, "sweep_size": 0}


@dataclass
class EventfulServer(VllmStub):
    """Something happens once, when it is first asked for an answer at `at`."""

    at: str = PROBE
    meanwhile: Callable[[], object] | None = None

    def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == self.at and "prompt_logprobs" not in body and (event := self.meanwhile) is not None:
            self.meanwhile = None
            try:
                event()
            finally:
                connection.close()
        return super()._serve(path, body)


@pytest.fixture
def server() -> Iterator[EventfulServer]:
    with EventfulServer() as stub:
        yield stub


@pytest.fixture
def store(tmp_path: Path, settings: Any) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


def make_line(project: Project, server: VllmStub, kind: str = Worker.Kind.CHAT) -> Worker:
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=server.url, allow_private=True, default_model="desk"
    )
    return make_worker(project, "helper", kind, provider=provider, base_model="desk")


@pytest.fixture
def helper(project: Project, server: EventfulServer, store: Path) -> Worker:
    project.gate_policy = SMALL
    project.save()
    return make_line(project, server, "desk")


def deploy(adapter: Adapter) -> None:
    adapter.refresh_from_db()
    serving.load(adapter)
    with transaction.atomic():
        services.deploy(adapter.worker, adapter, by="gate", kind=Kind.DEPLOYMENT_MOVED)


def bar(adapter: Adapter) -> None:
    with transaction.atomic():
        unlearn_adapters.bar([adapter], reason="it learnt from somebody who was forgotten", by="user:olivia")


def continue_from(parent: Adapter, version: int, store: Path) -> Adapter:
    """A candidate whose manifest says what it continues."""
    adapter = make_served(parent.worker, version, store, Adapter.State.CANDIDATE)
    file = path_of(adapter.uri) / "manifest.json"
    manifest = json.loads(file.read_bytes()) | {"parent_sha256": parent.sha256}
    file.write_bytes(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())
    adapter.sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    adapter.save(update_fields=["sha256"])
    return adapter


# --- trials and what was barred or suspected while they began --------------------------------------------------------


def suspect(adapter: Adapter, by: User) -> None:
    services.suspect(adapter=Adapter.objects.get(pk=adapter.pk), by=by, reason="it flatters")


@pytest.mark.parametrize("begin", [canary_trials.start_canary, shadow_trials.start_shadow])
@pytest.mark.parametrize("is_barred", [True, False], ids=["barred", "suspected"])
def test_what_is_taken_out_while_its_trial_begins_is_not_tried(
    helper: Worker, server: EventfulServer, store: Path, alice: User, begin: Any, is_barred: bool
) -> None:
    """Else somebody who was forgotten answers half of the tasks until a person looks."""
    adapter = make_served(helper, 1, store)
    server.meanwhile = partial(bar, adapter) if is_barred else partial(suspect, adapter, alice)
    with pytest.raises(IllegalMoveError, match="cannot be tried"):
        begin(adapter=adapter, percent=50, by=alice)
    assert not Deployment.objects.filter(canary=adapter).exists()
    assert not Shadow.objects.exists()


def test_a_canary_that_is_promoted_and_barred_at_once_meets_no_deadlock(
    helper: Worker, store: Path, alice: User
) -> None:
    adapter = make_served(helper, 1, store)
    deployment = canary_trials.start_canary(adapter=adapter, percent=10, by=alice)
    with transaction.atomic():
        Deployment.objects.select_for_update().get(pk=deployment.pk)
        barred = Side(partial(bar, adapter))
        until_waiting(1)
        Adapter.objects.filter(pk=adapter.pk).update(state="deployed")  # as `deploy` does next, with that lock
    barred.end()
    adapter.refresh_from_db()
    assert adapter.barred


# --- two who decide --------------------------------------------------------------------------------------------------


def test_who_rolls_back_what_was_replaced_meanwhile_is_told(
    helper: Worker, server: EventfulServer, store: Path, alice: User
) -> None:
    first, second, third = (make_served(helper, version, store) for version in (1, 2, 3))
    deploy(first)
    deploy(second)
    server.meanwhile = partial(deploy, third)
    with pytest.raises(ConflictError, match=f"is served by {third.name} by now"):
        services.roll_back(worker=helper, by=alice)
    assert find_deployed(helper) == third


def test_of_two_who_roll_back_at_once_one_does(helper: Worker, store: Path, alice: User) -> None:
    for version in (1, 2, 3):
        deploy(make_served(helper, version, store))
    found = at_once([partial(services.roll_back, worker=helper, by=alice)] * 2)
    served = find_deployed(helper)
    done = sum(isinstance(one, Deployment) for one in found)
    assert (done, served.version if served else None) in [(1, 2), (2, 1)]
    assert Adapter.objects.filter(state="deployed").count() == 1


def test_however_many_promote_at_once_one_serves_and_the_rows_agree(helper: Worker, store: Path, alice: User) -> None:
    adapters = [make_served(helper, version, store) for version in range(1, 6)]
    at_once([partial(services.promote, adapter=adapter, by=alice) for adapter in adapters])
    deployment = Deployment.objects.get(worker=helper)
    assert Adapter.objects.get(state="deployed") == deployment.adapter
    assert deployment.epoch == 5


def test_a_promotion_that_the_server_will_not_have_proves_nothing(
    helper: Worker, server: EventfulServer, store: Path, alice: User
) -> None:
    adapter = make_served(helper, 1, store, Adapter.State.CANDIDATE)
    server.mode = "broken"
    with pytest.raises(ProviderBusyError):
        services.promote(adapter=adapter, by=alice)
    adapter.refresh_from_db()
    assert adapter.state == "candidate"


@pytest.mark.parametrize("state", ["candidate", "verified"])
@pytest.mark.parametrize("is_by_person", [True, False], ids=["person", "gate"])
def test_a_promotion_does_not_override_who_suspects_it_while_it_is_loaded(
    helper: Worker, server: EventfulServer, store: Path, alice: User, state: str, is_by_person: bool
) -> None:
    adapter = make_served(helper, 1, store, state)

    @transaction.atomic
    def suspect_by_gate() -> None:
        services.quarantine(Adapter.objects.get(pk=adapter.pk), reason="its tensors", by="gate")

    server.meanwhile = partial(suspect, adapter, alice) if is_by_person else suspect_by_gate
    with pytest.raises(IllegalMoveError, match=r"cannot be promoted: wanted .* found quarantined"):
        services.promote(adapter=adapter, by=alice)
    adapter.refresh_from_db()
    assert (adapter.state, find_deployed(helper)) == ("quarantined", None)


def test_what_the_gate_found_safe_while_a_person_promotes_it_is_not_called_unproved(
    helper: Worker, server: EventfulServer, store: Path, alice: User
) -> None:
    adapter = make_served(helper, 1, store, Adapter.State.CANDIDATE)
    server.meanwhile = partial(move, Adapter.objects.get(pk=adapter.pk), "verified", by="gate")
    services.promote(adapter=adapter, by=alice)
    assert [one.payload.get("words") for one in AuditEntry.objects.filter(kind=Kind.ADAPTER_VERIFIED)] == [None]


def test_a_trial_that_went_well_does_not_override_who_suspects_it_while_it_is_loaded(
    helper: Worker, server: EventfulServer, store: Path, alice: User
) -> None:
    adapter = make_served(helper, 1, store, Adapter.State.CANDIDATE)
    deployment = canary_trials.start_canary(adapter=adapter, percent=10, by=alice)
    server.meanwhile = partial(Adapter.objects.filter(pk=adapter.pk).update, state="quarantined")
    with pytest.raises(IllegalMoveError, match="found quarantined"):
        services.promote_tried(deployment, by="canary")
    assert find_deployed(helper) is None


# --- the gate --------------------------------------------------------------------------------------------------------


def test_what_was_judged_beside_an_adapter_that_was_rolled_back_meanwhile_is_judged_again(
    helper: Worker, server: EventfulServer, store: Path, alice: User
) -> None:
    first = make_served(helper, 1, store)
    deploy(first)
    second = continue_from(first, 2, store)
    server.at, server.meanwhile = PANEL, partial(services.roll_back, worker=helper, by=alice)
    with pytest.raises(MovedMeanwhileError, match="serves no more"):
        gating.gate_adapter(second.pk, by="gate")
    assert not second.verdicts.exists()
    gating.gate_adapter(second.pk, by="gate")
    second.refresh_from_db()
    assert second.state in {"quarantined", "refused"}, "it continues what a person took back"


def test_what_was_found_safe_beside_another_waits_for_a_person(
    helper: Worker, server: EventfulServer, store: Path, alice: User
) -> None:
    first = make_served(helper, 1, store)
    deploy(first)
    second = make_served(helper, 2, store)
    services.give_verdict(
        second, Verdict.Question.SAFE, Verdict.Outcome.YES, reason="safe", compared_with=first, details={}, by="gate"
    )
    server.meanwhile = partial(services.roll_back, worker=helper, by=alice)
    services.promote_verified(second.pk, by="gate")
    second.refresh_from_db()
    assert (second.state, find_deployed(helper)) == ("quarantined", None)
    assert second.suspicion == f"it was found safe beside {first.name}, and the base model serves by now"


@pytest.mark.parametrize("at", [PROBE, PANEL])
def test_a_server_that_is_restarted_in_the_middle_loses_no_adapter(
    helper: Worker, server: EventfulServer, store: Path, at: str
) -> None:
    first = make_served(helper, 1, store)
    deploy(first)
    second = continue_from(first, 2, store)
    server.at, server.meanwhile = at, server.restart
    gating.gate_adapter(second.pk, by="gate")
    verdict = second.verdicts.get(question="safe")
    assert verdict.compared_with == first.name
    assert "does not exist" not in verdict.words


def try_to_gate(segment: Segment) -> None:
    Segment.objects.filter(pk=segment.pk).update(run_after=Now())
    run_link(partial(gating.gate_adapter, by="gate"), segment.pk, 0)
    segment.refresh_from_db()


def test_a_server_that_is_away_for_an_hour_costs_no_training(
    helper: Worker, server: EventfulServer, store: Path
) -> None:
    adapter = make_served(helper, 1, store, Adapter.State.CANDIDATE)
    outbox.start("adopt", subject_id=adapter.pk, project_id=helper.project_id)
    segment = Segment.objects.get(kind="adopt")
    server.mode = "broken"
    for _ in range(9):
        try_to_gate(segment)
    assert (segment.state, segment.attempts, len(segment.errors)) == ("open", 0, 1), "one wait, told once"
    assert is_unsettled(helper.pk), "nothing else of the line is trained meanwhile"
    server.mode = "ok"
    try_to_gate(segment)
    assert (segment.position, adapter.verdicts.filter(question="safe").count()) == (1, 1)


def test_a_server_that_stays_away_is_the_reason_in_words(helper: Worker, server: EventfulServer, store: Path) -> None:
    adapter = make_served(helper, 1, store, Adapter.State.CANDIDATE)
    outbox.start("adopt", subject_id=adapter.pk, project_id=helper.project_id)
    segment = Segment.objects.get(kind="adopt")
    server.mode = "broken"
    try_to_gate(segment)
    Segment.objects.update(away_since=Now() - timedelta(hours=3))
    for _ in range(5):
        try_to_gate(segment)
    adapter.refresh_from_db()
    assert (segment.state, adapter.state) == ("dead", "refused")
    assert "ProviderBusyError" in adapter.verdicts.get().words


# --- the sweep -------------------------------------------------------------------------------------------------------


@pytest.fixture
def others(server: EventfulServer, store: Path) -> Iterator[tuple[Worker, VllmStub]]:
    """Another project's line on a server of its own, found before the rest."""
    with VllmStub() as stub:
        yield make_line(make_project(slug="other"), stub), stub


@pytest.mark.parametrize("harm", ["server", "disk"])
def test_one_projects_lost_server_or_disk_keeps_no_other_from_being_served_again(
    others: tuple[Worker, VllmStub], helper: Worker, server: EventfulServer, store: Path, harm: str
) -> None:
    other, stub = others
    theirs, mine = make_served(other, 1, store), make_served(helper, 1, store)
    deploy(theirs)
    deploy(mine)
    server.restart()
    stub.restart()
    if harm == "server":
        stub.mode = "broken"
    else:
        (path_of(theirs.uri) / "manifest.json").unlink()
    sweep.sweep_adapters()
    assert mine.name in server.models


def test_what_may_not_serve_goes_whatever_else_is_broken(
    others: tuple[Worker, VllmStub], helper: Worker, server: EventfulServer, store: Path
) -> None:
    other, stub = others
    deploy(make_served(other, 1, store))
    stub.restart()
    stub.mode = "broken"
    mine = make_served(helper, 1, store)
    deploy(mine)
    bar(mine)
    Project.objects.filter(pk=helper.project_id).update(training_policy={"serves_until_rebuilt": False})
    sweep.sweep_adapters()
    assert find_deployed(helper) is None
