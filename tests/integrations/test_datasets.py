"""Hugging Face's own `datasets` reads our layout, and what it writes comes in again.

`pytest -m clients tests/integrations/test_datasets.py`
"""

import io
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.apps.console.builders import sign_in
from tests.apps.console.test_exports import ask_tasks, export, judge_work, learn_all, upload
from tests.e2e.scenery import build_scene
from tests.factories import make_project, make_user, make_worker
from tests.integrations.clients.installing import CannotBeHadError, Client, install

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.django_db, pytest.mark.timeout(1200)]

DATASETS = Client("datasets", ("datasets==5.2.0",))
RUN_S = 240.0
READ = """
import sys, datasets
rows = datasets.load_dataset(sys.argv[1], split="train")
rows.to_json(sys.argv[2] + "/again.jsonl")
rows.to_parquet(sys.argv[2] + "/again.parquet")
print(len(rows))
"""


@pytest.mark.parametrize("name", ["tasks", "preferences", "sft", "kto", "stepwise"])
def test_what_datasets_loads_and_writes_is_the_same_content_in_another_project(name: str, tmp_path: Path) -> None:
    try:
        python = install(DATASETS) / "python"
    except CannotBeHadError as error:
        pytest.skip(str(error))
    if name == "tasks":
        alice, here = make_user("alice"), make_project("here")
        ask_tasks(here, make_worker(here, name="echo"))
        client = sign_in(alice)
    else:
        scene = build_scene(updates=2)
        judge_work(scene)
        here, client = scene.project, sign_in(scene.alice)
    whole, told = export(client, here.slug, name, "hf")
    folder, out = tmp_path / "set", tmp_path / "out"
    out.mkdir()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        archive.extractall(folder)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(python), "-c", READ, str(folder), str(out)],
        env=environment, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    assert int(done.stdout.split()[-1]) == told["rows"] > 0
    for file in ("again.jsonl", "again.parquet"):
        there = make_project(f"{name}-{file.rpartition('.')[2]}")
        make_worker(there, name="echo")
        answer = upload(client, there.slug, (out / file).read_bytes(), file)
        assert answer.status_code == 302, answer.content.decode()[-3_000:]
        learn_all(there)
        _, again = export(client, there.slug, name, "jsonl")
        assert (again["content_sha256"], again["rows"]) == (told["content_sha256"], told["rows"]), file
