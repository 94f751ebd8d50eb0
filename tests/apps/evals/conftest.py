"""A worker whose model is asked to say numbers."""

import json
from collections.abc import Iterator

import pytest

from apps.accounts.models import Project
from apps.inference.models import Provider
from apps.workers.models import Worker
from tests.factories import make_worker
from tests.fakes import FakeModelServer


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    """Says the number that it was asked for, and 0 for every third."""
    with FakeModelServer(reply=lambda prompt, _: "0" if number_of(prompt) % 3 == 0 else str(number_of(prompt))) as fake:
        yield fake


@pytest.fixture
def worker(project: Project, server: FakeModelServer) -> Worker:
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=server.url, allow_private=True, default_model="desk"
    )
    return make_worker(project, "helper", Worker.Kind.CHAT, provider=provider, base_model="desk")


def number_of(prompt: str) -> int:
    return int(json.loads(prompt)[-1]["content"].split()[-1])
