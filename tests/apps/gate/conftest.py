"""A stranger's project: a model server of its own, a clerk that doubles numbers, held-out items of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Verdict
from apps.evals.models import Item, Taskset
from apps.gate.gating import gate_adapter
from apps.inference.models import Provider
from apps.workers.models import Worker
from tentalis.core.near_duplicates import hash_words, list_bands
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.adapters.vllm_stub import VllmStub
from tests.factories import make_worker


class Clerk(VllmStub):
    """A model that adds: the base gets even sums right, two adapters all of them, another none."""

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        said = body["messages"][-1]["content"].split()[-1]
        number = int(said) if said.isdecimal() else 1
        knows = {"v1": True, "v2": False, "v5": True}
        is_right = next((right for name, right in knows.items() if f"@{name}-" in body["model"]), number % 2 == 0)
        self.reply = lambda prompt, index: str(2 * number if is_right else 2 * number + 1)
        return super()._chat(body)


@pytest.fixture
def server() -> Iterator[Clerk]:
    with Clerk() as stub:
        yield stub


@pytest.fixture
def store(tmp_path: Path, settings: Any) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def clerk(project: Project, server: Clerk) -> Worker:
    project.gate_policy = {"panel_size": 60, "sweep_size": 0, "capability_pairs": 0}
    project.save()
    return make_boxed_worker(project, server, "clerk", Worker.Kind.CHAT)


def make_boxed_worker(project: Project, server: VllmStub, name: str, kind: str) -> Worker:
    """With a model server of the project's own."""
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=server.url, allow_private=True, default_model="desk"
    )
    return make_worker(project, name, kind=kind, provider=provider, base_model="desk")


def hold_out(project: Project, count: int, *, is_checked: bool = True) -> None:
    taskset = Taskset.objects.create(project=project, name="own-work-chat", environment="chat")
    Item.objects.bulk_create(
        Item(
            taskset=taskset, split="held_out", prompt=prompt, content_hash=hash_words(prompt),
            bands=list_bands(prompt), reference=str(2 * number) if is_checked else None,
        )
        for number, prompt in enumerate(f"Double the number {number}" for number in range(count))
    )  # fmt: skip
    Project.objects.filter(pk=project.pk).update(has_held_out=True)
    project.refresh_from_db()


def judge(worker: Worker, version: int, store: Path) -> tuple[str, Verdict]:
    adapter = make_served(worker, version, store, state=Adapter.State.CANDIDATE)
    gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    return adapter.state, adapter.verdicts.get(question="safe")
