"""The pages of environments: where each comes from, whether it may train, and what its examination found."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Verdict
from apps.console.words_learning import EXAMINED
from apps.evals.models import Evaluation
from apps.worlds import certificates
from apps.worlds.certificates import certify
from apps.worlds.models import WorldCertificate
from apps.worlds.registry import WORLDS, get_world
from tests.apps.console.builders import sign_in
from tests.factories import make_measured, make_task, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(project: Project, alice: User) -> Client:
    return sign_in(alice)


def read(pages: Client, *place: str, query: str = "") -> str:
    page = reverse(f"console:environment{'' if place else '-list'}", args=("shop", *place))
    return pages.get(page + query).content.decode()


def test_every_environment_is_listed_with_where_it_stands(pages: Client) -> None:
    certify(get_world("desk"), by="user:alice", tasks=2)
    listed = read(pages)
    assert all(f"/environments/{world.name}/" in listed for world in WORLDS.values())
    row = listed[listed.index("/environments/desk/") :]
    assert row.index("May train") < row.index("</tr>")
    row = listed[listed.index("/environments/chat/") :]
    assert row.index("Nothing to examine") < row.index("</tr>")
    row = listed[listed.index("/environments/workbench/") :]
    assert row.index("Not examined") < row.index("</tr>")


def test_a_certificate_says_what_was_wanted_and_found_and_what_to_do(pages: Client) -> None:
    made = certify(get_world("workbench"), by="user:alice", tasks=2)
    assert {one["name"] for one in made.checks} < set(EXAMINED)
    shown = read(pages, "workbench")
    assert f"Certificate {made.pk}" in shown
    assert "Its own right way is worth 1" in shown
    assert "all of 3 right ways are worth 1" in shown
    assert "Mend what judges" not in shown
    made.checks = [{"name": "oracle", "passed": False, "words": "2 of 3 right ways are <not> worth 1"}]
    made.passed = False
    made.save()
    failed = read(pages, "workbench")
    assert "2 of 3 right ways are &lt;not&gt; worth 1" in failed
    assert "Mend what judges" in failed
    assert "tentalis world doctor workbench" in failed


def test_an_older_certificate_is_not_taken_for_one_of_now(pages: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = certify(get_world("desk"), by="user:alice", tasks=2)
    monkeypatch.setattr(certificates, "hash_world", lambda world: "f" * 64)
    assert "it says nothing of the environment as it is now" in read(pages, "desk")
    assert "Changed since" in read(pages, "desk")
    monkeypatch.undo()
    second = certify(get_world("desk"), by="user:alice", tasks=2)
    assert "it says nothing" not in read(pages, "desk")
    older = read(pages, "desk", query=f"?certificate={first.pk}")
    assert f"Certificate {first.pk}" in older
    assert "it says nothing of the environment as it is now" in older
    assert f"?certificate={second.pk}" in older


def test_one_that_is_gone_keeps_its_certificates_and_what_never_was_has_no_page(
    pages: Client, project: Project, alice: User
) -> None:
    made = certify(get_world("desk"), by="user:alice", tasks=2)
    WorldCertificate.objects.filter(pk=made.pk).update(world="moon")
    assert "It is not here any more" in read(pages, "moon")
    assert pages.get(reverse("console:environment", args=("shop", "mars"))).status_code == 404
    other = reverse("console:environment", args=("shop", "desk")) + f"?certificate={made.pk}"
    assert pages.get(other).status_code == 404
    task = make_task(project, make_worker(project), environment="moon")
    page = pages.get(reverse("console:task", args=("shop", task.pk))).content.decode()
    assert "/environments/moon/" not in page


def test_where_an_environment_is_named_its_page_is_near(pages: Client, project: Project) -> None:
    worker = make_worker(project, "typist", kind="desk")
    task = make_task(project, worker, environment="desk")
    link = reverse("console:environment", args=("shop", "desk"))
    measured = make_measured(worker, None, [1.0], purpose="report", asked_by="user:alice")
    adapter = Adapter.objects.create(
        project=project, worker=worker, name="typist@v1-0a", version=1, line_version=1, uri="file:///a", manifest={}
    )
    Verdict.objects.create(adapter=adapter, question="safe", outcome="yes", words="It is not worse.", details={})
    for model in (None, adapter):
        make_measured(worker, model, [1.0])
    Evaluation.objects.update(asked_with={"world": "desk+0123456789ab"})
    taskset = project.tasksets.create(name="sums", environment="desk")
    rows = {"task": task.pk, "evaluation": measured.pk, "taskset": taskset.pk, "adapter": adapter.pk}
    for name, which in {"worker": "typist", **rows}.items():
        page = reverse(f"console:{name}", args=("shop", which))
        assert f'href="{link}"' in pages.get(page).content.decode()
    assert "typist" in read(pages, "desk")
