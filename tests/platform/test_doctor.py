"""What `tentalis doctor` says about a machine."""

import contextlib
import json
import os
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tentalis.env import VARIABLES
from tentalis.platform.config import Config, load_or_make_config
from tentalis.platform.doctor import Diagnosis, count_tensors, examine, mask
from tentalis.platform.home import Home
from tentalis.platform.up import running_stack
from tentalis.sandbox.client import SandboxClient, start_host
from tests.sandbox.conftest import find_obstacle


def finding(diagnosis: Diagnosis, name: str) -> tuple[bool | None, str]:
    return next((row.is_good, row.words) for row in diagnosis.findings if row.name == name)


def origin(diagnosis: Diagnosis, name: str) -> tuple[str, str]:
    return next((row.shown, row.origin) for row in diagnosis.settings if row.name == name)


def test_each_setting_is_shown_with_its_value_and_where_it_came_from(home: Home, environ: dict[str, str]) -> None:
    home.prepare()
    config, _ = load_or_make_config(home)
    Config(config.secrets, {"log_level": "DEBUG"}).write(home)
    diagnosis = examine(home, environ)
    assert origin(diagnosis, "TENTALIS_WEB_PORT") == (environ["TENTALIS_WEB_PORT"], "environment")
    assert origin(diagnosis, "TENTALIS_LOG_LEVEL") == ("DEBUG", str(home.config_file))
    assert origin(diagnosis, "TENTALIS_OPD_WEIGHT") == ("0.3", "default")
    groups = "workers,episodes,scorers,hints,gates=threads:16;control=threads:4"
    assert origin(diagnosis, "TENTALIS_QUEUE_PROCESSES") == (groups, "default")
    assert origin(diagnosis, "TENTALIS_SECRET_KEY")[0] == "********"


def test_every_setting_is_told_with_what_it_is_for_and_its_default(home: Home, environ: dict[str, str]) -> None:
    told = call_settings(environ)
    assert [one["name"] for one in told] == list(VARIABLES)
    assert all(one["help"] for one in told)
    weight = next(one for one in told if one["name"] == "TENTALIS_OPD_WEIGHT")
    assert weight["default"] == weight["shown"] == "0.3"
    said = call_settings(environ | {"TENTALIS_OPD_WEIGHT": "1", "TENTALIS_TOKEN": "the-token"}, as_json=False)
    assert "TENTALIS_OPD_WEIGHT=1  [environment]\n    weight of the OPD loss (default: 0.3)\n" in said
    assert "the-token" not in said
    assert not home.root.exists()


def call_settings(environ: dict[str, str], *, as_json: bool = True) -> Any:
    asked = [sys.executable, "-m", "tentalis", "doctor", "--settings", *["--json"] * as_json]
    done = subprocess.run(asked, env=environ, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout) if as_json else done.stdout


def test_no_secret_is_ever_shown(home: Home, environ: dict[str, str]) -> None:
    home.prepare()
    config, _ = load_or_make_config(home)
    environ["TENTALIS_DATABASE_URL"] = "postgres://me:the-password@127.0.0.1:1/tickets"
    environ["TENTALIS_INFERENCE_API_KEY"] = "the-key"
    text = repr(examine(home, environ))
    assert "postgres://me:********@127.0.0.1:1/tickets" in text
    assert not [word for word in ("the-password", "the-key", *vars(config.secrets).values()) if word in text]


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("redis://:pw@host:1/0", "redis://:********@host:1/0"),
        ("postgres://me@host/db", "postgres://me@host/db"),
        ("a plain secret", "********"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_password_and_another_secret_not_at_all(secret: str, shown: str) -> None:
    assert mask(secret) == shown


def test_a_writer_of_curves_whose_library_is_missing_is_wrong(home: Home, environ: dict[str, str]) -> None:
    environ |= {"TENTALIS_TRACKING": "tensorboard,mlflow", "TENTALIS_TRACKING_OPTIONS": '{"wandb": {}}'}
    diagnosis = examine(home, environ)
    for writer, module in (("tensorboard", "tensorboardX"), ("mlflow", "mlflow")):
        is_good, words = finding(diagnosis, f"tracking: {writer}")
        assert is_good == (find_spec(module) is not None)
        assert is_good or "TENTALIS_TRACKING names it: wanted the package" in words
    assert finding(diagnosis, "tracking") == (False, "TENTALIS_TRACKING_OPTIONS sets wandb, which does not write")


def test_trainings_at_tinker_want_a_key_and_a_model(home: Home, environ: dict[str, str]) -> None:
    environ["TENTALIS_TRAINER_BACKEND"] = "tinker"
    is_good, words = finding(examine(home, environ), "tinker")
    assert is_good is False
    assert "TENTALIS_TINKER_API_KEY and TENTALIS_TINKER_OPTIONS" in words or "wanted its client" in words


@pytest.mark.parametrize(("url", "is_good"), [("http://127.0.0.1:8000", True), ("http://8.8.8.8:8000", False)])
def test_a_vllm_server_at_a_public_address_is_wrong(
    url: str, is_good: bool, home: Home, environ: dict[str, str]
) -> None:
    given = {"TENTALIS_INFERENCE_BACKEND": "vllm", "TENTALIS_INFERENCE_BASE_URL": url}
    found, words = finding(examine(home, environ | given), "model server")
    assert found is is_good
    assert ("guards /v1 alone" in words) is not is_good


def test_an_unknown_variable_is_what_is_wrong(home: Home, environ: dict[str, str]) -> None:
    diagnosis = examine(home, environ | {"TENTALIS_WEP_PORT": "1"})
    is_good, words = finding(diagnosis, "settings")
    assert not diagnosis.is_healthy
    assert is_good is False
    assert "TENTALIS_WEP_PORT" in words
    assert origin(diagnosis, "TENTALIS_WEP_PORT")[1] == "environment, unknown"


def test_a_taken_port_is_wrong_only_when_somebody_asked_for_it(
    home: Home, environ: dict[str, str], taken_port: int
) -> None:
    home.prepare()
    asked = examine(home, environ | {"TENTALIS_WEB_PORT": str(taken_port)})
    is_good, words = finding(asked, f"port {taken_port}")
    assert (is_good, words) == (False, "taken by another program, but TENTALIS_WEB_PORT asks for it")


def test_a_home_that_cannot_be_written_is_wrong(home: Home, environ: dict[str, str]) -> None:
    home.root.write_text("a file stands here")
    assert finding(examine(home, environ), "home") == (False, f"{home.root} must be a directory we can write to")


def test_a_server_of_somebody_else_that_does_not_answer_is_wrong(home: Home, environ: dict[str, str]) -> None:
    home.prepare()
    load_or_make_config(home)
    environ["TENTALIS_REDIS_URL"] = f"redis://127.0.0.1:{environ['TENTALIS_REDIS_PORT']}/0"
    assert finding(examine(home, environ), "redis") == (False, f"{environ['TENTALIS_REDIS_URL']} does not answer")


@pytest.mark.broker
def test_running_servers_answer(home: Home, environ: dict[str, str]) -> None:
    with running_stack(home, environ, is_throwaway=True, only=("postgres", "redis")):
        diagnosis = examine(home, environ)
    assert finding(diagnosis, "redis")[0] is True
    assert finding(diagnosis, "database")[0] is True
    assert finding(diagnosis, "service postgres") == (True, "ready")


def test_the_command_exits_1_with_its_reasons(home: Home, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tentalis", "doctor", "--json"],
        env=environ | {"TENTALIS_WEP_PORT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    document = json.loads(done.stdout)
    assert (done.returncode, document["is_healthy"], done.stderr) == (1, False, "")
    assert next(row["name"] for row in document["findings"] if row["is_good"] is False) == "settings"


def safetensors(header: dict[str, object], body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (safetensors({"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}, b"abcd"), 1),
        (safetensors({"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}, b"ab"), 0),
        (b"\xff" * 64, 0),
        (b"", 0),
    ],
)
def test_a_truncated_model_is_seen(tmp_path: Path, content: bytes, count: int) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    assert count_tensors(file) == count


def test_it_tells_which_browser_is_driven_and_what_lacks_where_there_is_none(
    home: Home, environ: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "chromium"
    environ["TENTALIS_BROWSER"] = str(program)
    is_good, words = finding(examine(home, environ), "browser")
    assert is_good is None
    assert f"Chromium: {program} is not there" in words
    program.touch(mode=0o755)
    assert finding(examine(home, environ), "browser") == (True, str(program))


@pytest.mark.skipif(bool(find_obstacle()), reason="no sandbox could be made here")
def test_the_sandbox_host_that_the_settings_name_is_the_one_that_is_asked(
    home: Home, environ: dict[str, str], tmp_path: Path
) -> None:
    named = environ | {"TENTALIS_SANDBOXES": str(tmp_path / "host")}
    is_good, words = finding(examine(home, named), "sandboxes")
    assert is_good is False
    assert "no sandbox host answers" in words
    with start_host(tmp_path / "host", warm=0):
        is_good, words = finding(examine(home, named), "sandboxes")
        assert is_good, words
        with contextlib.closing(SandboxClient(tmp_path / "host")) as client:
            assert (client.describe()["sandboxes"], list((tmp_path / "host/store/layers").iterdir())) == (0, [])


@pytest.mark.skipif(bool(find_obstacle()), reason="no sandbox could be made here")
def test_it_tells_what_holds_sandboxes_in_by_making_one(home: Home, environ: dict[str, str]) -> None:
    is_good, words = finding(examine(home, environ), "sandboxes")
    assert is_good
    assert words.startswith("namespaces, system call filter")
    assert "cgroup" in words
    assert ("System V" in words) == (os.geteuid() != 0)
