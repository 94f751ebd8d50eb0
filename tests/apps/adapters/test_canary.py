"""A canary: its share of the new tasks, its end by harm, by promotion, by hand."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.adapters import canary as trials
from apps.adapters import services
from apps.adapters.models import MOST_HELD, Adapter, Deployment, Verdict
from apps.adapters.selectors import choose_adapters
from apps.adapters.services import promote, promote_verified
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, IllegalMoveError, NotAllowedError
from apps.inference.models import Provider
from apps.outbox.models import Segment
from apps.pipeline import canary_trials
from apps.tasks.models import Attempt, Task
from apps.tasks.services import work_tasks
from apps.workers.models import Worker
from tests.apps.adapters.test_deployment import deploy, make_adapter
from tests.apps.console.builders import sign_in
from tests.factories import make_task, make_worker
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db


class TruthfulServer(FakeModelServer):
    """Its log-probs recompute, as the probe before a deployment wants."""

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = super()._chat(body)
        for choice in answer["choices"]:
            for content, token in zip(choice["logprobs"]["content"], choice["token_ids"], strict=True):
                content["logprob"] = -token / 8
        return answer


@pytest.fixture
def served(project: Project) -> Iterator[Worker]:
    """A chat worker whose model server answers, with version 1 in service and version 2 found safe."""
    with TruthfulServer() as server:
        provider = Provider.objects.create(
            project=project, name="box", kind="vllm", base_url=server.url, allow_private=True
        )
        worker = make_worker(project, "chatty", Worker.Kind.CHAT, provider=provider, base_model="desk")
        first, second = make_adapter(worker, 1), make_adapter(worker, 2)
        server.models += [first.name, second.name, "chatty@v3", "chatty@v4"]
        deploy(worker, first)
        yield worker


def begin(worker: Worker, alice: User, percent: int = 50) -> Deployment:
    return canary_trials.start_canary(adapter=Adapter.objects.get(worker=worker, version=2), percent=percent, by=alice)


def try_out(worker: Worker, *, scores: dict[int, float], tasks: int = 60) -> None:
    """Tasks done and scored: version -> the share of right ones, each side's own, however the tasks are shared out."""
    done: Counter[int] = Counter()
    for _ in range(tasks):
        task = make_task(worker.project, worker)
        adapter = choose_adapters(worker, {task.pk: True})[task.pk]
        assert adapter is not None
        outcome = 1.0 if (done[adapter.version] * 7 % 20) / 20 < scores[adapter.version] else 0.0
        done[adapter.version] += 1
        Attempt.objects.create(task=task, index=0, worker=worker, adapter=adapter, outcome=outcome)


def test_only_new_tasks_go_to_the_canary_and_always_the_same_ones(served: Worker, alice: User) -> None:
    old = [make_task(served.project, served).pk for _ in range(20)]
    begin(served, alice)
    new = [make_task(served.project, served).pk for _ in range(200)]

    def versions(ids: list[int], *, is_new: bool = True) -> list[int]:
        found = (choose_adapters(served, {pk: is_new})[pk] for pk in ids)
        return [adapter.version for adapter in found if adapter is not None]

    assert versions(old) == [1] * 20
    assert 60 < versions(new).count(2) < 140
    assert versions(new) == versions(new)
    assert versions(new, is_new=False) == [1] * 200


def test_work_is_done_by_the_adapter_that_the_share_says(served: Worker, alice: User) -> None:
    begin(served, alice)
    tasks = [make_task(served.project, served, group_size=1) for _ in range(12)]
    for task in tasks:
        work_tasks([task.pk], by="worker")
    done = dict(Attempt.objects.values_list("task_id", "adapter__version"))
    wanted = {task.pk: choose_adapters(served, {task.pk: True})[task.pk] for task in tasks}
    assert done == {pk: adapter.version for pk, adapter in wanted.items() if adapter is not None}
    assert set(done.values()) == {1, 2}


def test_a_harmful_canary_is_taken_back_and_refused(served: Worker, alice: User) -> None:
    begin(served, alice)
    try_out(served, scores={1: 0.9, 2: 0.1}, tasks=120)
    assert canary_trials.watch_canaries() == 1
    deployment = Deployment.objects.get(worker=served)
    assert (deployment.canary, deployment.adapter and deployment.adapter.version) == (None, 1)
    assert Adapter.objects.get(version=2).state == Adapter.State.REFUSED
    ended = AuditEntry.objects.get(kind=Kind.CANARY_ENDED)
    assert (ended.payload["outcome"], ended.actor) == ("harm", "canary")
    assert "worse than what is in service" in ended.payload["words"]


def test_a_good_canary_is_promoted(served: Worker, alice: User) -> None:
    Project.objects.filter(pk=served.project_id).update(gate_policy={"margin": 0.3})
    begin(served, alice)
    try_out(served, scores={1: 0.7, 2: 0.95}, tasks=200)
    assert canary_trials.watch_canaries() == 1
    deployment = Deployment.objects.get(worker=served)
    assert deployment.adapter is not None
    assert (deployment.canary, deployment.adapter.version, deployment.epoch) == (None, 2, 2)
    assert AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload["outcome"] == "promoted"


def test_an_unclear_canary_goes_on_and_says_so(served: Worker, alice: User) -> None:
    begin(served, alice)
    try_out(served, scores={1: 0.7, 2: 0.7}, tasks=120)
    assert canary_trials.watch_canaries() == 0
    deployment = Deployment.objects.get(worker=served)
    assert deployment.canary_id is not None
    assert "nothing can be said yet" in deployment.canary_words


def test_what_ends_a_trial_says_so_with_what_it_had_found(served: Worker, alice: User) -> None:
    begin(served, alice)
    try_out(served, scores={1: 0.7, 2: 0.7}, tasks=120)
    canary_trials.watch_canaries()
    third = make_adapter(served, 3)
    deploy(served, third)
    ended = AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload
    assert ended["outcome"] == "replaced"
    assert ended["words"].startswith(f"{third.name} was put into service meanwhile; until then: ")
    assert "nothing can be said yet" in ended["words"]
    assert ended["started_at"]


@pytest.mark.parametrize("link", ["tasks.work", "tasks.play"])
def test_tasks_without_any_answer_count_against_the_side_that_failed(served: Worker, alice: User, link: str) -> None:
    begin(served, alice)
    try_out(served, scores={1: 0.9, 2: 0.9}, tasks=120)
    for _ in range(120):
        task = make_task(served.project, served)
        adapter = choose_adapters(served, {task.pk: True})[task.pk]
        if adapter is not None and adapter.version == 2:
            Task.objects.filter(pk=task.pk).update(state="failed", failed_link=link)
    reading = canary_trials.read_canary(
        Deployment.objects.select_related("worker__project", "canary").get(worker=served)
    )
    assert reading.canary.mean < 0.5 < reading.deployed.mean
    assert canary_trials.watch_canaries() == 1
    assert AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload["outcome"] == "harm"


def test_a_person_may_stop_it_and_then_start_another(served: Worker, alice: User) -> None:
    deployment = begin(served, alice)
    with pytest.raises(ConflictError, match="has a canary already"):
        begin(served, alice)
    trials.stop_canary(deployment=deployment, by=alice)
    with pytest.raises(ConflictError, match="no such canary"):
        trials.stop_canary(deployment=deployment, by=alice)
    assert begin(served, alice, percent=5).canary_percent == 5
    kinds = AuditEntry.objects.filter(kind__startswith="canary").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["canary.started", "canary.ended", "canary.started"]


def test_whatever_is_deployed_ends_the_trial(served: Worker, alice: User) -> None:
    begin(served, alice)
    deploy(served, make_adapter(served, 3))
    assert Deployment.objects.get(worker=served).canary is None
    assert AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload["outcome"] == "replaced"


def test_the_policy_has_a_safe_adapter_tried_once(served: Worker) -> None:
    assert canary_trials.watch_canaries() == 0
    Project.objects.filter(pk=served.project_id).update(gate_policy={"canary_percent": 10})
    assert canary_trials.watch_canaries() == 1
    deployment = Deployment.objects.select_related("canary").get(worker=served)
    assert (deployment.canary and deployment.canary.version, deployment.canary_percent) == (2, 10)
    trials.end_canary(deployment, outcome="stopped", reason="", by="user:alice")
    assert canary_trials.watch_canaries() == 0


@pytest.mark.parametrize("percent", [0, 51, -1])
def test_a_share_outside_1_to_50_is_refused(served: Worker, alice: User, percent: int) -> None:
    with pytest.raises(BadInputError, match=f"from 1 to 50, found {percent}"):
        begin(served, alice, percent)


@pytest.mark.parametrize("state", ["refused", "quarantined"])
def test_what_the_gate_refused_or_suspects_is_not_tried(served: Worker, alice: User, state: str) -> None:
    Adapter.objects.filter(version=2).update(state=state)
    with pytest.raises(IllegalMoveError, match=f"found {state}"):
        begin(served, alice)


def test_a_candidate_is_tried_once_the_gate_is_done_with_it(served: Worker, alice: User) -> None:
    adapter = Adapter.objects.get(version=2)
    Adapter.objects.filter(pk=adapter.pk).update(state="candidate")
    gate = Segment.objects.create(
        kind="adopt", subject_id=adapter.pk, project_id=served.project_id, links=[], queue="q"
    )
    with pytest.raises(IllegalMoveError, match="the gate is looking at it"):
        begin(served, alice)
    Segment.objects.filter(pk=gate.pk).update(state=Segment.State.DONE)
    assert begin(served, alice).canary == adapter


@pytest.mark.parametrize(("good", "state"), [(0.95, "deployed"), (0.05, "refused")])
def test_a_candidates_trial_says_whether_it_serves(served: Worker, alice: User, good: float, state: str) -> None:
    Project.objects.filter(pk=served.project_id).update(gate_policy={"margin": 0.3})
    Adapter.objects.filter(version=2).update(state="candidate")
    begin(served, alice)
    try_out(served, scores={1: 0.7, 2: good}, tasks=200)
    assert canary_trials.watch_canaries() == 1
    assert Adapter.objects.get(version=2).state == state


def test_a_reviewer_may_neither_start_nor_stop_it(served: Worker, alice: User, bob: User) -> None:
    with pytest.raises(NotAllowedError):
        begin(served, bob)
    with pytest.raises(NotAllowedError):
        trials.stop_canary(deployment=begin(served, alice), by=bob)


def test_postgres_refuses_a_share_without_a_canary(served: Worker) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Deployment.objects.filter(worker=served).update(canary_percent=10)


def pass_the_gate(worker: Worker, version: int, **values: Any) -> Adapter:
    """Found safe beside version 1, and about to be put into service by the gate."""
    adapter = make_adapter(worker, version)
    Adapter.objects.filter(pk=adapter.pk).update(**values)
    beside = Adapter.objects.get(worker=worker, version=1).name
    Verdict.objects.create(adapter=adapter, question="safe", outcome="yes", words="safe", compared_with=beside)
    promote_verified(adapter.pk, by="gate")
    adapter.refresh_from_db()
    return adapter


def serving(worker: Worker) -> tuple[int | None, int | None]:
    """Versions that serve and are on trial."""
    found = Deployment.objects.values_list("adapter__version", "canary__version").get(worker=worker)
    return (found[0], found[1])


def test_what_passes_the_gate_waits_for_the_end_of_a_trial(served: Worker, alice: User) -> None:
    begin(served, alice)
    third, fourth = pass_the_gate(served, 3), pass_the_gate(served, 4)
    promote_verified(fourth.pk, by="gate")
    assert serving(served) == (1, 2)
    held = AuditEntry.objects.filter(kind=Kind.ADAPTER_HELD)
    assert list(held.values_list("subject_id", flat=True).order_by("id")) == [third.pk, fourth.pk]
    assert "held back until the canary chatty@v2 has ended" in held[0].payload["words"]
    client = sign_in(alice)
    for version, words in ((4, "Held back: it passed the gate"), (2, "waits for the end of this canary")):
        adapter = Adapter.objects.get(version=version)
        page = client.get(reverse("console:adapter", args=(served.project.slug, adapter.pk))).content.decode()
        assert words in page
    assert canary_trials.watch_canaries() == 0
    trials.stop_canary(deployment=Deployment.objects.get(worker=served), by=alice)
    assert canary_trials.watch_canaries() == 1
    assert serving(served) == (4, None)
    assert list(Adapter.objects.filter(version__gte=3).order_by("version").values_list("state", "held_since")) == [
        ("verified", None),
        ("deployed", None),
    ]


def test_what_waited_is_looked_at_by_a_person_when_the_trial_ended_in_service(served: Worker, alice: User) -> None:
    Project.objects.filter(pk=served.project_id).update(gate_policy={"margin": 0.3})
    begin(served, alice)
    third = pass_the_gate(served, 3)
    try_out(served, scores={1: 0.7, 2: 0.95, 3: 0.9}, tasks=200)
    canary_trials.watch_canaries()
    third.refresh_from_db()
    assert serving(served) == (2, None)
    assert (third.state, third.held_since) == ("quarantined", None)
    assert "was found safe beside chatty@v1, and chatty@v2 serves by now" in third.suspicion


def test_a_trial_holds_back_no_longer_than_a_day(served: Worker, alice: User) -> None:
    begin(served, alice)
    pass_the_gate(served, 3)
    Deployment.objects.update(canary_started_at=timezone.now() - MOST_HELD)
    assert canary_trials.watch_canaries() == 1
    assert serving(served) == (3, None)
    assert AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload["outcome"] == "replaced"


def test_a_person_puts_what_is_held_back_into_service_at_once(served: Worker, alice: User) -> None:
    begin(served, alice)
    third = pass_the_gate(served, 3)
    promote(adapter=third, by=alice)
    assert serving(served) == (3, None)


def test_what_was_made_again_without_somebody_waits_for_no_trial(served: Worker, alice: User) -> None:
    begin(served, alice)
    assert pass_the_gate(served, 3, is_rebuilt=True).held_since is None
    assert serving(served) == (3, None)


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (lambda adapter: services.refuse(adapter, reason="it leaks", by="gate"), "refused"),
        (lambda adapter: services.quarantine(adapter, reason="it leaks", by="gate"), "quarantined"),
        (lambda adapter: services.refuse_unjudged(adapter.pk, reason="it leaks", by="outbox"), "refused"),
    ],
    ids=["refused", "suspected", "unjudged"],
)
def test_what_is_refused_or_suspected_is_tried_no_longer(
    served: Worker, alice: User, act: Callable[[Adapter], None], state: str
) -> None:
    adapter = begin(served, alice).canary
    assert adapter is not None
    with transaction.atomic():
        act(adapter)
    assert serving(served) == (1, None)
    assert Adapter.objects.get(pk=adapter.pk).state == state
    ended = AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload
    assert (ended["outcome"], ended["words"]) == ("stopped", "it leaks")


@pytest.mark.parametrize("state", ["refused", "quarantined"])
def test_a_trial_that_was_left_of_one_that_may_not_serve_is_ended(served: Worker, alice: User, state: str) -> None:
    begin(served, alice)
    Adapter.objects.filter(version=2).update(state=state)
    assert (canary_trials.watch_canaries(), canary_trials.watch_canaries()) == (1, 0)
    assert serving(served) == (1, None)
    assert f"found {state}" in AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload["words"]


@pytest.mark.parametrize(("state", "found"), [("quarantined", 1), ("refused", 1), ("retired", 2), ("verified", 2)])
def test_a_roll_back_passes_over_what_may_not_serve_again(served: Worker, alice: User, state: str, found: int) -> None:
    deploy(served, Adapter.objects.get(version=2))
    deploy(served, make_adapter(served, 3))
    Adapter.objects.filter(version=2).update(state=state)
    page = reverse("console:roll-back", args=(served.project.slug, served.name))
    assert f"Roll back to version {found}" in sign_in(alice).get(page).content.decode()
    services.roll_back(worker=served, by=alice)
    assert serving(served) == (found, None)


def test_what_was_barred_while_it_served_gives_way_to_what_may_serve_again(served: Worker) -> None:
    deploy(served, Adapter.objects.get(version=2))
    deploy(served, make_adapter(served, 3))
    deployment = Deployment.objects.select_related("adapter", "previous").get(worker=served)
    Adapter.objects.filter(version=2).update(state="quarantined")
    Adapter.objects.filter(version=3).update(barred="it learnt from somebody who was forgotten")
    deployment = Deployment.objects.select_related("adapter", "previous").get(worker=served)
    services.rollback_blocked(deployment, by="forget")
    assert serving(served) == (1, None)


@pytest.mark.parametrize("is_base", [False, True], ids=["to version 1", "to the base model"])
def test_the_policy_tries_nothing_that_was_found_safe_beside_what_was_rolled_back(
    served: Worker, alice: User, is_base: bool
) -> None:
    Project.objects.filter(pk=served.project_id).update(gate_policy={"canary_percent": 10})
    if not is_base:
        deploy(served, Adapter.objects.get(version=2))
    beside = Adapter.objects.get(state="deployed")
    third = pass_the_gate(served, 3, held_since=None)
    third.verdicts.update(compared_with=beside.name)
    services.roll_back(worker=served, by=alice)
    assert (canary_trials.watch_canaries(), canary_trials.watch_canaries()) == (1, int(is_base))  # version 2 is tried
    third.refresh_from_db()
    assert third.state == "quarantined"
    now = "the base model" if is_base else "chatty@v1"
    assert third.suspicion == f"it was found safe beside {beside.name}, and {now} serves by now"
    Deployment.objects.update(canary=None, canary_percent=0)
    services.release(adapter=third, by=alice, reason="Read a hundred of its answers.")
    assert canary_trials.watch_canaries() == 1
    assert serving(served) == (None if is_base else 1, 3)


def test_the_policy_tries_what_was_found_safe_beside_something_older(served: Worker) -> None:
    Project.objects.filter(pk=served.project_id).update(gate_policy={"canary_percent": 10})
    pass_the_gate(served, 3)
    deploy(served, Adapter.objects.get(version=2))
    assert canary_trials.watch_canaries() == 1
    assert serving(served) == (2, 3)
