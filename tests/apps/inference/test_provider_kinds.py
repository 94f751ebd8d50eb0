"""The registry: every kind is whole, and addresses and headers are made from its row alone."""

import pytest
from django.db import connection

from apps.base.errors import BadInputError
from apps.inference.models import Provider
from apps.inference.provider_kinds import KINDS, ProviderKind, find_kind
from tentalis.env import PROVIDER_KINDS


def test_every_kind_is_there_and_can_be_stored() -> None:
    assert list(KINDS) == PROVIDER_KINDS
    field = Provider._meta.get_field("kind")
    assert [kind for kind, _ in field.choices or ()] == PROVIDER_KINDS
    assert max(map(len, PROVIDER_KINDS)) <= (field.max_length or 0)


@pytest.mark.parametrize("row", KINDS.values(), ids=KINDS)
def test_a_hosted_kind_says_where_it_is_and_where_a_key_comes_from(row: ProviderKind) -> None:
    if row.kind in {"engine", "vllm", "custom"}:
        assert row.base_url == ""
        return
    assert row.urls().chat.startswith("http://127.0.0.1" if row.is_local else "https://")
    assert row.docs_url.startswith("https://")
    assert row.key_url.startswith("https://")


@pytest.mark.parametrize(
    ("kind", "given", "chat", "root"),
    [
        ("vllm", "http://h:8000", "http://h:8000/v1/chat/completions", "http://h:8000"),
        ("vllm", "http://h:8000/v1/", "http://h:8000/v1/chat/completions", "http://h:8000"),
        ("zhipu", "", "https://api.z.ai/api/paas/v4/chat/completions", "https://api.z.ai/api/paas/v4"),
        ("groq", "", "https://api.groq.com/openai/v1/chat/completions", "https://api.groq.com/openai"),
        ("gemini", "", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", None),
        ("anthropic", "", "https://api.anthropic.com/v1/messages", "https://api.anthropic.com"),
        ("anthropic", "https://api.minimax.io/anthropic", "https://api.minimax.io/anthropic/v1/messages", None),
        ("anthropic", "https://h/anthropic/v1", "https://h/anthropic/v1/messages", "https://h/anthropic"),
    ],
)
def test_an_address_is_made_as_the_vendors_own_clients_make_it(
    kind: str, given: str, chat: str, root: str | None
) -> None:
    urls = find_kind(kind).urls(given)
    assert urls.chat == chat
    assert root is None or urls.root == root


def test_a_key_goes_into_the_header_of_its_kind_and_no_key_into_none() -> None:
    assert find_kind("openai").headers("k") == {"Authorization": "Bearer k"}
    assert find_kind("anthropic").headers("k") == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert find_kind("openai").headers("") == {}


def test_token_ids_are_asked_of_those_alone_who_tell_them() -> None:
    tellers = {kind for kind, row in KINDS.items() if row.capture_fields()}
    assert tellers == {"engine", "vllm"}
    assert find_kind("vllm").capture_fields(completions=True) == {"return_token_ids": True, "logprobs": 0}


def test_an_unknown_kind_and_a_missing_address_are_named() -> None:
    with pytest.raises(BadInputError, match="found 'mainframe'"):
        find_kind("mainframe")
    with pytest.raises(BadInputError, match="like http://host:port"):
        find_kind("vllm").urls()


def test_the_database_takes_no_price_of_nothing(db: None) -> None:
    names = set(connection.introspection.get_constraints(connection.cursor(), "inference_price"))
    assert {"price_is_unique", "price_is_of_a_provider_or_a_kind", "price_is_not_negative"} <= names
