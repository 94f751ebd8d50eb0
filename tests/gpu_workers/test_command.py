import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_workers.__main__ import main
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec

pytestmark = pytest.mark.torch


def test_the_command_trains_a_spec_without_broker_or_web_or_what_it_does_not_use(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, make_rollouts())
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_json()))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpu_workers", "run", "spec.json", "--out", "elsewhere"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ok"]
    assert result["adapter_uri"].startswith((tmp_path / "elsewhere").as_uri())
    assert "update 2/2" in done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "torch" in imported
    assert not {"transformers", "peft", "torch._dynamo", "httpx", "django"} & imported, "seconds of every start"


def test_a_failed_training_leaves_with_one_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = make_spec(tmp_path, make_rollouts(reward=None, hinted_messages=None))
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_json()))
    assert main(["run", str(tmp_path / "spec.json")]) == 1
    assert "NothingToLearnError: none of 12 rollouts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        ("not json", "is no training spec: Expecting value"),
        ("[]", "is no training spec"),
        ('{"schema": "other"}', "schema must be 'tentalis.train-spec/1', found 'other'"),
        ('{"schema": "tentalis.train-spec/1"}', "TrainSpec lacks attempt"),
    ],
)
def test_a_bad_spec_leaves_with_two_and_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    path = tmp_path / "spec.json"
    if content is not None:
        path.write_text(content)
    assert main(["run", str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"{path}: ")
    assert message in shown
    assert "Traceback" not in shown
