"""The pages of model servers: added, tried out, priced; a key goes in and never comes out."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.inference.models import Exchange, Price, Provider, ProviderGrant
from apps.inference.providers import create_provider, open_key
from apps.workers.models import Worker
from tests.factories import make_project, make_user, make_worker
from tests.fakes import FakeModelServer

KEY = "sk-canary-0123456789"


@pytest.fixture
def browser(client: Client, alice: User) -> Client:
    client.force_login(alice)
    return client


@pytest.fixture
def admin_browser(project: Project) -> Client:
    client = Client()
    client.force_login(make_user("root", is_superuser=True))
    return client


def path(name: str, *args: object, slug: str = "shop") -> str:
    return reverse(f"console:{name}", args=(slug, *args))


def form(**values: Any) -> dict[str, Any]:
    return {
        "name": "cloud",
        "kind": "openai",
        "base_url": "",
        "api_key": "",
        "default_model": "",
        "more_urls": "",
    } | values


def read(answer: Any) -> str:
    return str(answer.content.decode())


def test_a_server_is_added_and_its_key_is_never_shown(browser: Client) -> None:
    answer = browser.post(path("provider-new"), form(api_key=KEY, default_model="gpt-5"), follow=True)
    provider = Provider.objects.get()
    assert (provider.base_url, open_key(provider)) == ("https://api.openai.com/v1", KEY)
    pages = [answer, *(browser.get(path(name, provider.pk)) for name in ("provider", "provider-change"))]
    pages.append(browser.get(path("provider-list")))
    assert "stored, encrypted" in read(pages[1])
    assert not any(KEY in read(page) for page in pages)


def test_a_refused_form_does_not_give_the_key_back(browser: Client) -> None:
    answer = browser.post(path("provider-new"), form(name="two words", api_key=KEY))
    assert answer.status_code == 400
    assert KEY not in read(answer)


def test_a_private_address_is_refused_beside_its_field_and_an_admin_may(browser: Client, admin_browser: Client) -> None:
    here = form(name="here", kind="ollama", base_url="http://127.0.0.1:11434/v1")
    refused = browser.post(path("provider-new"), here)
    assert refused.status_code == 400
    assert "an admin allows it with “Allow private addresses”" in read(refused)
    assert "allow_private" not in browser.get(path("provider-new")).context["form"].fields
    browser.post(path("provider-new"), here | {"allow_private": "on"})
    assert not Provider.objects.exists(), "a manager who sends the field all the same gains nothing"
    assert admin_browser.post(path("provider-new"), here | {"allow_private": "on"}).status_code == 302
    assert Provider.objects.get().allow_private


def test_an_empty_key_keeps_it_and_the_box_takes_it_away(browser: Client, project: Project, alice: User) -> None:
    provider = create_provider(project=project, name="cloud", kind="openai", api_key=KEY, by=alice)
    same = form(base_url=provider.base_url, is_active="on")
    browser.post(path("provider-change", provider.pk), same | {"default_model": "gpt-5"})
    assert open_key(Provider.objects.get()) == KEY
    answer = browser.post(
        path("provider-change", provider.pk), same | {"base_url": "https://elsewhere.example"}, follow=True
    )
    assert "It has no key now" in read(answer)
    browser.post(path("provider-change", provider.pk), same | {"api_key": KEY})
    browser.post(path("provider-change", provider.pk), same | {"forget_key": "on"})
    assert open_key(Provider.objects.get()) == ""


def test_the_button_tries_it_out_and_the_page_says_what_it_showed(browser: Client, project: Project) -> None:
    with FakeModelServer(usage={"prompt_tokens": 3, "completion_tokens": 1}) as server:
        provider = Provider.objects.create(
            project=project, name="box", kind="vllm", base_url=server.url, allow_private=True
        )
        assert "Never tested" in read(browser.get(path("provider", provider.pk)))
        answer = browser.post(path("provider-test", provider.pk), follow=True)
    assert "what it says can be trained on" in read(answer)
    assert "Answers" in read(browser.get(path("provider-list")))
    Provider.objects.update(base_url="http://127.0.0.1:9")
    answer = browser.post(path("provider-test", provider.pk), follow=True)
    assert "nothing listens there" in read(answer)
    assert "Not running" in read(answer)


def test_the_servers_own_words_are_shown_as_words(browser: Client, project: Project) -> None:
    words = "<script>alert(1)</script>\u202eevil"
    probe = {"ok": False, "words": words, "remarks": [words], "models": [words]}
    provider = Provider.objects.create(project=project, name="box", kind="vllm", base_url="http://box", probe=probe)
    page = read(browser.get(path("provider", provider.pk)))
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_a_price_is_set_shown_and_taken_back(browser: Client, project: Project) -> None:
    provider = Provider.objects.create(project=project, name="cloud", kind="openai", base_url="https://api.openai.com")
    price = {"model": "gpt-*", "input": "1.25", "cached_input": "", "output": "10"}
    page = read(browser.post(path("price-set", provider.pk), price, follow=True))
    assert "gpt-*" in page
    assert "1.25" in page
    refused = browser.post(path("price-set", provider.pk), price | {"input": "-1"})
    assert refused.status_code == 400
    row = Price.objects.get()
    other = Provider.objects.create(project=project, name="other", kind="openai", base_url="https://x.example")
    assert browser.post(path("price-remove", other.pk, row.pk)).status_code == 404
    browser.post(path("price-remove", provider.pk, row.pk))
    assert not Price.objects.exists()


def test_who_uses_it_and_what_was_paid_are_this_projects_alone(browser: Client, project: Project) -> None:
    shared = Provider.objects.create(name="shared", kind="openai", base_url="https://api.openai.com")
    assert browser.get(path("provider", shared.pk)).status_code == 404, "it is not granted to the project"
    ProviderGrant.objects.create(provider=shared, project=project, granted_by="user:root", tokens_per_day=5000)
    make_worker(project, name="writer", kind="chat", provider=shared)
    other = make_project("other")
    make_worker(other, name="secretive", kind="chat", provider=shared)
    for owner, usd in ((project, "1.5"), (other, "99")):
        Exchange.objects.create(project=owner, provider=shared, model="gpt", cost_usd=Decimal(usd))
    page = read(browser.get(path("provider", shared.pk)))
    assert "writer" in page
    assert "secretive" not in page
    assert "$1.5000" in page
    assert "provider-test" not in page
    assert "5,000 tokens a day" in page
    assert "Grant it to a project" not in page
    assert browser.post(path("grant", shared.pk), {"project": "other"}).status_code in {400, 403}
    grant = ProviderGrant.objects.create(provider=shared, project=other, granted_by="user:root")
    assert browser.post(path("grant-revoke", shared.pk, grant.pk)).status_code == 404
    assert browser.get(path("provider-list")).status_code == 200


def test_a_server_of_every_project_is_changed_by_an_admin_alone(browser: Client, project: Project) -> None:
    shared = Provider.objects.create(name="shared", kind="openai", base_url="https://api.openai.com")
    ProviderGrant.objects.create(provider=shared, project=project, granted_by="user:root")
    answer = browser.post(path("provider-change", shared.pk), form(name="mine", base_url="https://x.example"))
    assert answer.status_code == 403
    page = read(browser.post(path("provider-remove", shared.pk), follow=True))
    assert "only an admin" in page
    assert Provider.objects.filter(name="shared").exists()


def test_an_admin_grants_a_shared_server_on_its_page(browser: Client, project: Project, alice: User) -> None:
    make_project("other")
    shared = Provider.objects.create(name="shared", kind="openai", base_url="https://api.openai.com")
    User.objects.filter(pk=alice.pk).update(is_superuser=True)
    assert "not granted to this project" in read(browser.get(path("provider-list")))
    wrong = browser.post(path("grant", shared.pk), {"project": "other", "usd_per_month": "-1"})
    assert wrong.status_code == 400
    page = read(browser.post(path("grant", shared.pk), {"project": "other", "tokens_per_day": "5000"}, follow=True))
    assert "other may ask it now" in page
    grant = ProviderGrant.objects.get()
    assert (grant.project.slug, grant.tokens_per_day, grant.usd_per_month) == ("other", 5000, None)
    browser.post(path("grant-change", shared.pk, grant.pk), {"tokens_per_day": "", "usd_per_month": "2.5"})
    grant.refresh_from_db()
    assert (grant.tokens_per_day, grant.usd_per_month) == (None, 2.5)
    assert "above 0" in read(
        browser.post(path("grant-change", shared.pk, grant.pk), {"usd_per_month": "x"}, follow=True)
    )
    browser.post(path("grant-revoke", shared.pk, grant.pk))
    assert not ProviderGrant.objects.exists()
    changed = form(name="shared", base_url="https://api.openai.com", is_active="on", granted_to="everyone")
    browser.post(path("provider-change", shared.pk), changed)
    shared.refresh_from_db()
    assert shared.granted_to == "everyone"


def test_a_server_that_a_worker_uses_is_not_removed(browser: Client, project: Project) -> None:
    provider = Provider.objects.create(project=project, name="box", kind="vllm", base_url="http://box")
    worker = make_worker(project, name="writer", kind="chat", provider=provider)
    assert "is used by writer" in read(browser.post(path("provider-remove", provider.pk), follow=True))
    worker.delete()
    browser.post(path("provider-remove", provider.pk))
    assert not Provider.objects.exists()


def test_a_server_that_tells_log_probs_at_1_is_said_to_teach_only_that(browser: Client, project: Project) -> None:
    provider = Provider.objects.create(project=project, name="box", kind="vllm", base_url="https://vllm.example")
    worker = make_worker(project, "helper", kind="chat", provider=provider, base_model="m", sampling={})
    pages = path("provider", provider.pk), f"/p/{project.slug}/workers/{worker.name}/"

    def told() -> list[bool]:
        words = "by reward and hint only what is sampled at temperature 1, at which it tells log-probs: start vLLM with"
        return [words in read(browser.get(page)) for page in pages]

    assert told() == [True, True]
    assert "sampled at temperature 1" in browser.get(f"/api/v1/providers/{provider.pk}").json()["teaches"]
    Worker.objects.update(sampling={"temperature": 0.7})
    assert "nothing by reward as it is set: sampled at temperature 0.7" in read(browser.get(pages[1]))
    Provider.objects.update(tells_processed=True)
    assert told() == [False, False]
    assert "nothing by reward" not in read(browser.get(pages[1]))
    assert browser.get(f"/api/v1/providers/{provider.pk}").json()["teaches"] == ""
