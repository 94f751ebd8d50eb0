"""Adapters of people on the pages: shown as theirs, rolled back for them alone."""

from urllib.parse import quote

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.adapters.selectors import find_deployed
from apps.adapters.services import deploy
from apps.audit.kinds import Kind
from apps.rollouts.models import Batch
from apps.workers.models import Worker

GRACE = "grace & <b>co</b>"


def put(worker: Worker, version: int, end_user: str = "") -> Adapter:
    adapter = Adapter.objects.create(
        project=worker.project, worker=worker, name=f"shop.echo@v{version}-0", version=version, line_version=version,
        end_user=end_user, uri="file:///nowhere", sha256="0" * 64, manifest={}, state=Adapter.State.VERIFIED,
    )  # fmt: skip
    with transaction.atomic():
        deploy(worker, adapter, by="gate", kind=Kind.DEPLOYMENT_MOVED, end_user=end_user)
    return adapter


@pytest.fixture
def adapters(worker: Worker) -> tuple[Adapter, Adapter]:
    Worker.objects.filter(pk=worker.pk).update(adapters_per=Worker.AdaptersPer.USER)
    return put(worker, 1), put(worker, 2, GRACE)


def test_pages_say_whose_an_adapter_is_and_roll_back_for_that_person_alone(
    client: Client, project: Project, worker: Worker, alice: User, adapters: tuple[Adapter, Adapter]
) -> None:
    client.force_login(alice)
    for page in (
        reverse("console:adapter-list", args=["shop"]),
        reverse("console:adapter", args=["shop", adapters[1].pk]),
    ):
        text = client.get(page).content.decode()
        assert "grace &amp; &lt;b&gt;co&lt;/b&gt;" in text
        assert "roll-back/?end_user=grace%20%26%20%3Cb%3Eco%3C%2Fb%3E" in text
    url = reverse("console:roll-back", args=["shop", "echo"], query={"end_user": GRACE})
    assert "What serves everybody serves this person too" in client.get(url).content.decode()
    assert client.post(url).status_code == 302
    assert [find_deployed(worker, end_user=name) for name in (GRACE, "")] == [adapters[0]] * 2
    assert "for each person" in client.get(reverse("console:worker", args=["shop", "echo"])).content.decode()


def test_a_persons_batch_is_trained_from_its_own_button(client: Client, worker: Worker, alice: User) -> None:
    everybodys, graces = (
        Batch.objects.create(
            project=worker.project, worker=worker, number=number, end_user=name, target_tasks=9, task_count=1,
            rollout_count=1,
        )
        for number, name in ((1, ""), (2, GRACE))
    )  # fmt: skip
    client.force_login(alice)
    page = client.get(reverse("console:run-list", args=["shop"])).content.decode()
    address = f"{reverse('console:train', args=['shop', 'echo'])}?end_user={quote(GRACE, safe='/')}"
    assert f'href="{address}"' in page
    page = client.get(address).content.decode()
    assert '<input type="hidden" name="end_user" value="grace &amp; &lt;b&gt;co&lt;/b&gt;"' in page
    client.post(reverse("console:train", args=["shop", "echo"]), {"end_user": GRACE})
    for batch in (everybodys, graces):
        batch.refresh_from_db()
    assert (everybodys.state, graces.state, graces.run.end_user) == ("open", "closed", GRACE)
