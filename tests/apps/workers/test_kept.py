"""Workers on models that are kept on this machine: named, their files found, and offered in the console."""

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.workers.base_names import name_base
from apps.workers.recipes import choose_recipe
from apps.workers.services import change_worker, create_worker
from tentalis.core.model_facts import ModelFacts
from tentalis.kept_models import find_model, link_shipped, write_facts, write_manifest
from tests.apps.console.builders import sign_in
from tests.apps.workers.base_files import write_base

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(tmp_path: Path, settings: Any) -> Path:
    settings.HOME = tmp_path
    settings.TENTALIS = {**settings.TENTALIS, "INFERENCE_BACKEND": "engine"}
    directory = tmp_path / "models" / "small-talk"
    write_base(directory)
    write_manifest(directory, source="here", source_sha256="", licence="", template="its own", made_at="2026-11-24")
    return directory


def test_a_chat_worker_on_a_kept_model_needs_no_server_and_trains_on_its_files(
    project: Project, alice: User, kept: Path
) -> None:
    worker = create_worker(project=project, name="talker", kind="chat", base_model="small-talk", by=alice)
    assert (worker.provider, name_base(worker)) == (None, str(kept))
    assert worker.base_facts["fingerprint"]
    with pytest.raises(BadInputError, match=r"wanted a model kept on this machine \(small-talk;.*found 'big-talk'"):
        create_worker(project=project, name="other", kind="chat", base_model="big-talk", by=alice)
    with pytest.raises(BadInputError, match="found 'big-talk'"):
        change_worker(worker=worker, by=alice, base_model="big-talk")
    worker.refresh_from_db()
    assert worker.base_directory == str(kept)


def test_the_built_in_model_stays_what_a_desk_worker_has(project: Project, alice: User, kept: Path) -> None:
    desk = create_worker(project=project, name="desk", kind="desk", by=alice)
    assert name_base(desk) == "desk"
    assert name_base(change_worker(worker=desk, by=alice, base_model="small-talk")) == str(kept)
    assert name_base(change_worker(worker=desk, by=alice, base_model="desk")) == "desk"


def test_the_form_offers_what_is_kept(project: Project, alice: User, kept: Path) -> None:
    client = sign_in(alice)
    path = reverse("console:worker-new", args=("shop",)) + "?kind=chat"
    page = client.get(path).content.decode()
    assert '<datalist id="suggested"><option value="small-talk"></option></datalist>' in page
    said = {"name": "talker", "kind": "chat", "base_model": "small-talk", "adapters_per": "worker"}
    assert client.post(path, said).status_code == 302
    assert project.workers.get(name="talker").base_directory == str(kept)


def test_a_kept_model_that_has_no_room_is_refused_before_anything_asks_it(
    project: Project, alice: User, kept: Path, settings: Any
) -> None:
    facts = ModelFacts("llama", 268_000_000, 512, "F32", True, 1_072_000_000)
    write_facts(find_model(settings.HOME, "small-talk"), facts)
    page = sign_in(alice).get(reverse("console:worker-new", args=("shop",)) + "?kind=chat").content.decode()
    assert "llama, 268.0 M parameters, 1,022 MiB of memory</option>" in page
    assert "Kept here: small-talk (llama, 268.0 M parameters, 1,022 MiB of memory)." in page
    settings.TENTALIS = {**settings.TENTALIS, "ENGINE_MEMORY_MIB": 1_000}
    with pytest.raises(BadInputError, match="small-talk takes 1,022 MiB of memory, and kept models may take 1,000 MiB"):
        create_worker(project=project, name="talker", kind="chat", base_model="small-talk", by=alice)
    settings.TENTALIS = {**settings.TENTALIS, "ENGINE_MEMORY_MIB": 1_100}
    worker = create_worker(project=project, name="talker", kind="chat", base_model="small-talk", by=alice)
    assert worker.base_directory == str(kept)


def test_the_apprentice_that_comes_along_is_a_base_by_its_name(project: Project, alice: User, kept: Path) -> None:
    link_shipped(kept.parents[1])
    worker = create_worker(project=project, name="learner", kind="chat", base_model="apprentice", by=alice)
    assert name_base(worker) == str(kept.parent / "apprentice")
    assert worker.base_facts["parameters"] < 1_500_000
    assert choose_recipe(project, worker).learning_rate == pytest.approx(4e-3)
