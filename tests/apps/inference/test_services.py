"""Model servers as rows, sealed keys, and the record of what was answered."""

from functools import partial
from typing import Any

import pytest
from django.test import override_settings

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.inference.client import ModelClient
from apps.inference.errors import AddressNotAllowedError
from apps.inference.models import Exchange, Provider
from apps.inference.providers import change_provider, create_provider, delete_provider
from apps.inference.services import find_server, open_client, record_exchanges
from apps.judges.models import JudgeProbe
from tentalis.core.worlds import AttemptDraft
from tests.factories import make_user, make_worker
from tests.fakes import FakeModelServer


@pytest.fixture
def admin(db: None) -> User:
    return make_user("root", is_superuser=True)


def make_provider(project: Project, by: User, api_key: str = "sk-1") -> Provider:
    return create_provider(
        project=project, name="lab", kind="vllm", base_url="http://lab:8000/v1", api_key=api_key, by=by
    )


def test_a_key_is_sealed_in_the_database_and_opened_for_the_client(project: Project, alice: User) -> None:
    provider = make_provider(project, alice)
    stored = Provider.objects.get(pk=provider.pk)
    assert b"sk-1" not in bytes(stored.api_key_sealed)
    assert open_client(stored).api_key == "sk-1"
    assert open_client(stored).kind == "vllm"


def test_the_audit_of_a_provider_never_holds_its_key(project: Project, alice: User) -> None:
    provider = make_provider(project, alice)
    change_provider(provider=provider, by=alice, api_key="sk-2")
    entries = AuditEntry.objects.filter(kind__startswith="provider.")
    assert [entry.kind for entry in entries.order_by("id")] == ["provider.created", "provider.changed"]
    assert "sk-" not in str([entry.payload for entry in entries])


def test_a_key_is_not_sent_to_a_new_address(project: Project, alice: User) -> None:
    provider = make_provider(project, alice)
    changed = change_provider(provider=provider, by=alice, base_url="http://elsewhere:8000")
    assert open_client(changed).api_key == ""


def test_a_key_survives_a_change_of_name(project: Project, alice: User) -> None:
    changed = change_provider(provider=make_provider(project, alice), by=alice, name="lab-2")
    assert open_client(changed).api_key == "sk-1"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base_url", "ftp://models"),
        ("base_url", "http://user:pw@models"),
        ("base_url", "http://models:99999"),
        ("base_url", "models:8000"),
        ("kind", "mainframe"),
        ("name", "two words"),
        ("name", ""),
    ],
)
def test_a_bad_field_of_a_provider_is_named(project: Project, alice: User, field: str, value: str) -> None:
    fields = {"name": "lab", "kind": "vllm", "base_url": "http://lab:8000"} | {field: value}
    with pytest.raises(BadInputError) as raised:
        create_provider(project=project, by=alice, **fields)
    assert list(raised.value.errors) == [field]
    assert not Provider.objects.exists()


def test_only_an_admin_allows_private_addresses_and_then_the_error_says_how(
    project: Project, alice: User, admin: User
) -> None:
    here = {"name": "here", "kind": "ollama", "base_url": "http://127.0.0.1:11434/v1"}
    with pytest.raises(BadInputError, match="an admin allows it with “Allow private addresses”"):
        create_provider(project=project, by=alice, **here)
    with pytest.raises(NotAllowedError, match="an admin of the installation"):
        create_provider(project=project, by=alice, allow_private=True, **here)
    provider = create_provider(project=project, by=admin, allow_private=True, **here)
    assert open_client(provider).allow_private


def test_where_private_addresses_are_allowed_only_an_admin_changes_the_address(
    project: Project, alice: User, admin: User
) -> None:
    provider = create_provider(
        project=project, name="here", kind="vllm", base_url="http://127.0.0.1:1", by=admin, allow_private=True
    )
    for change in ({"base_url": "http://127.0.0.1:6379"}, {"more_urls": ["http://10.0.0.1"]}):
        with pytest.raises(NotAllowedError):
            change_provider(provider=provider, by=alice, **change)
    assert change_provider(provider=provider, by=alice, name="renamed").name == "renamed"
    assert change_provider(provider=provider, by=admin, base_url="http://127.0.0.1:2").base_url == "http://127.0.0.1:2"


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "0.0.0.0", "100.100.100.200", "[::ffff:169.254.169.254]"]
)
def test_not_even_an_admin_adds_a_metadata_or_link_local_address(project: Project, admin: User, host: str) -> None:
    with pytest.raises(BadInputError, match="nobody may use"):
        create_provider(
            project=project, name="x", kind="vllm", base_url=f"http://{host}/", by=admin, allow_private=True
        )


def test_the_refusal_of_a_private_address_says_how_to_allow_it() -> None:
    with FakeModelServer() as server, pytest.raises(AddressNotAllowedError, match="tentalis model change") as raised:
        ModelClient(server.url).list_models()
    assert server.requests == []
    assert raised.value.is_final


def test_a_hosted_kind_needs_no_address(project: Project, alice: User) -> None:
    provider = create_provider(project=project, name="cloud", kind="anthropic", api_key="k", by=alice)
    assert provider.base_url == "https://api.anthropic.com"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("more_urls", ["ftp://x"]),
        ("more_urls", "http://x"),
        ("timeout_s", 0.0),
        ("api_key", "sk-1\n"),
        ("api_key", "sk 1"),
    ],
)
def test_a_bad_further_field_is_named(project: Project, alice: User, field: str, value: Any) -> None:
    with pytest.raises(BadInputError) as raised:
        create_provider(project=project, name="lab", kind="vllm", base_url="http://lab", by=alice, **{field: value})
    assert list(raised.value.errors) == [field]


def test_a_taken_name_is_a_conflict(project: Project, alice: User) -> None:
    make_provider(project, alice)
    with pytest.raises(ConflictError, match="the name lab is taken"):
        make_provider(project, alice)


def test_who_may_not_run_workers_cannot_touch_providers(
    project: Project, alice: User, bob: User, charlie: User
) -> None:
    provider = make_provider(project, alice)
    with pytest.raises(NotAllowedError):
        change_provider(provider=provider, by=bob, name="mine")
    with pytest.raises(NotFoundError):
        delete_provider(provider=provider, by=charlie)
    with pytest.raises(NotAllowedError, match="only an admin"):
        create_provider(project=None, name="all", kind="vllm", base_url="http://lab:1", by=alice)


def test_a_provider_in_use_cannot_be_deleted(project: Project, alice: User) -> None:
    provider = make_provider(project, alice)
    make_worker(project, name="writer", kind="chat", provider=provider)
    with pytest.raises(ConflictError, match="used by writer"):
        delete_provider(provider=provider, by=alice)
    assert not AuditEntry.objects.filter(kind="provider.deleted").exists()


@pytest.mark.parametrize("field", ["model", "hint_model"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_provider_that_a_review_policy_names_is_neither_deleted_nor_renamed(
    project: Project, alice: User, admin: User, field: str, is_shared: bool
) -> None:
    by = admin if is_shared else alice
    shared = {"project": None, "granted_to": "everyone"} if is_shared else {"project": project}
    provider = create_provider(name="judges", kind="vllm", base_url="http://lab:1", by=by, **shared)
    Project.objects.update(review_policy={field: "judges/m"})
    for take_away in (
        partial(delete_provider, provider=provider),
        partial(change_provider, provider=provider, name="x"),
    ):
        with pytest.raises(ConflictError, match=f"judges is named by the review policy of {project.slug}"):
            take_away(by=by)
    assert find_server(project.pk, "judges/m") == (provider, "m")
    Project.objects.update(review_policy={field: "judges-2/m"})
    delete_provider(provider=provider, by=by)
    assert not Provider.objects.exists()


def test_another_projects_policy_that_names_its_own_provider_holds_no_shared_one(project: Project, admin: User) -> None:
    shared = create_provider(project=None, name="judges", kind="vllm", base_url="http://lab:1", by=admin)
    Project.objects.update(review_policy={"model": "judges/m"})
    own = create_provider(project=project, name="judges", kind="vllm", base_url="http://lab:2", by=admin)
    change_provider(provider=shared, by=admin, granted_to="everyone")
    delete_provider(provider=shared, by=admin)
    assert find_server(project.pk, "judges/m") == (own, "m")


def test_a_provider_that_was_probed_as_a_judge_stays_with_what_was_found(project: Project, alice: User) -> None:
    provider = make_provider(project, alice)
    probe = JudgeProbe.objects.create(
        project=project, provider=provider, model="m", version="1", state="done", verdict="above", asked_by="alice"
    )
    with pytest.raises(ConflictError, match=f"used by probe {probe.pk} of lab/m"):
        delete_provider(provider=provider, by=alice)
    assert JudgeProbe.objects.filter(pk=probe.pk).exists()


def test_a_provider_switched_off_gives_no_client(project: Project, alice: User) -> None:
    provider = change_provider(provider=make_provider(project, alice), by=alice, is_active=False)
    with pytest.raises(ConflictError, match="switched off"):
        open_client(provider)


def test_without_a_provider_the_installations_own_engine_is_asked() -> None:
    with override_settings(ENGINE_URL="http://127.0.0.1:18409"):
        assert open_client(None).base_url == "http://127.0.0.1:18409"
    assert open_client(None).tells_tokens


def test_exchanges_keep_the_exact_tokens_of_their_drafts(project: Project) -> None:
    exact = AttemptDraft(
        text="ab",
        prompt_token_ids=[5, 6],
        token_ids=[1, 70_000, 3],
        logprobs=[-0.5, 0.0, -0.25],
        sampled=[True, False, True],
        messages=[{"role": "user", "content": "x"}],
        elapsed_s=0.5,
    )
    record_exchanges(
        project=project,
        drafts=[exact, AttemptDraft(error="it was refused")],
        worker_name="clerk",
        model="clerk@v2-ab",
        adapter_name="clerk@v2-ab",
        policy_version=2,
    )
    first, second = Exchange.objects.order_by("id")
    assert first.unpack_token_ids() == [1, 70_000, 3]
    assert first.unpack_prompt_token_ids() == [5, 6]
    assert first.unpack_logprobs() == [-0.5, 0.0, -0.25]
    assert first.unpack_sampled() == [True, False, True]
    assert first.has_exact_tokens
    assert (first.latency_ms, first.policy_version, first.completion_tokens) == (500.0, 2, 3)
    assert (second.error, second.has_exact_tokens) == ("it was refused", False)
