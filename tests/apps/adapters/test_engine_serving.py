"""Adapters on our own engine, as a process: the same promises as of a vLLM server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.adapters import serving
from apps.adapters.artifacts import path_of
from apps.adapters.errors import WrongAdapterServedError
from apps.adapters.models import Adapter
from apps.inference.errors import AdapterNameTakenError
from apps.workers.models import Worker
from tests.apps.adapters.desk_adapters import make_served
from tests.engine_process import run_engine
from tests.factories import make_worker

pytestmark = [pytest.mark.torch, pytest.mark.django_db]


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """One of this module's own: here a name is spoilt for good."""
    with run_engine() as address:
        yield address


@pytest.fixture
def helper(project: Project, engine: str, settings: Any, tmp_path: Path) -> Worker:
    settings.ARTIFACTS = tmp_path
    settings.ENGINE_URL = engine
    return make_worker(project, "helper")


def test_other_weights_under_a_name_are_found_out(helper: Worker, tmp_path: Path) -> None:
    first, second = make_served(helper, 1, tmp_path), make_served(helper, 2, tmp_path)
    for adapter in (first, second):
        serving.load(adapter)
        serving.load(adapter)
        serving.probe(adapter)
    client = serving.client_of(helper)
    try:
        assert client.find_busy_adapters() == frozenset()
        client.unload_adapter(second.name)
        client.load_adapter(second.name, str(path_of(first.uri)))
        with pytest.raises(AdapterNameTakenError, match="never given to other weights"):
            client.load_adapter(second.name, str(path_of(second.uri)))
        with pytest.raises(WrongAdapterServedError, match="serves other weights"):
            serving.probe(Adapter.objects.get(pk=second.pk))
    finally:
        for adapter in (first, second):
            client.unload_adapter(adapter.name)
