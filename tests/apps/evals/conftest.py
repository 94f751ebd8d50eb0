"""A worker whose model is asked to say numbers."""

import json
from collections.abc import Iterator, Sequence

import pytest

from apps.accounts.models import Project
from apps.evals.models import Item, Taskset
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


def make_numbers(project: Project, numbers: Sequence[int]) -> Taskset:
    """Held-out items that want a number said each."""
    taskset = Taskset.objects.create(project=project, name="numbers", environment="chat")
    Item.objects.bulk_create(
        Item(
            taskset=taskset,
            split="held_out",
            prompt=f"Say {n}",
            reference=n,
            seed=n,
            content_hash=f"{n:064x}",
            bands=[],
        )
        for n in numbers
    )
    return taskset
