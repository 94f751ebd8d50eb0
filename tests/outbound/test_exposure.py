"""A vLLM server at a public address is warned of; one that only its own network reaches is not."""

from collections.abc import Iterable
from typing import Any

import pytest

from tentalis.outbound.exposure import warn_of_exposure


def resolve_to(*addresses: str) -> Any:
    def resolve(host: str, port: int) -> Iterable[Any]:
        return [(2, 1, 6, "", (address, port)) for address in addresses]

    return resolve


@pytest.mark.parametrize(
    "addresses", [("127.0.0.1",), ("10.0.0.7", "192.168.1.2"), ("::1",), ("fd12::7",), ("100.64.0.9",)]
)
def test_a_private_address_is_nothing_to_speak_of(addresses: tuple[str, ...]) -> None:
    assert warn_of_exposure("vllm", "http://box:8000", resolve=resolve_to(*addresses)) == ""


@pytest.mark.parametrize("addresses", [("8.8.8.8",), ("10.0.0.7", "93.184.216.34"), ("2606:4700::1111",)])
def test_a_public_address_is_warned_of_and_why(addresses: tuple[str, ...]) -> None:
    words = warn_of_exposure("vllm", "https://gpu.example.com/v1", resolve=resolve_to(*addresses))
    assert words.startswith(f"gpu.example.com is a public address ({addresses[-1]}).")
    assert "guards /v1 alone" in words


def test_other_kinds_guard_all_their_doors() -> None:
    assert warn_of_exposure("openai", "https://api.openai.com", resolve=resolve_to("8.8.8.8")) == ""


def test_a_name_that_cannot_be_resolved_is_somebody_elses_to_tell() -> None:
    def fail(host: str, port: int) -> Iterable[Any]:
        raise OSError("no such name")

    assert warn_of_exposure("vllm", "http://nowhere:8000", resolve=fail) == ""
