"""A model is fetched from a hub by name: its licence first, each large file compared with the hub's own hash."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tentalis.cli import main
from tentalis.kept_models import find_model, list_models
from tests.gpu_workers.templated import make_templated_model
from tests.local_server import LocalHandler, LocalServer

pytestmark = pytest.mark.torch
COMMIT = "a" * 40


class Hub:
    """A hub with one model, as its client sees it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lies = False
        owner = self

        class Handler(LocalHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner._answer(self, with_body=True)

            def do_HEAD(self) -> None:
                owner._answer(self, with_body=False)

        self.server = LocalServer(Handler)

    def _answer(self, handler: LocalHandler, *, with_body: bool) -> None:
        path = urlsplit(handler.path).path
        if path.startswith("/api/models/team/tiny"):
            data, headers = json.dumps(self._describe()).encode(), {"Content-Type": "application/json"}
        elif path.startswith(f"/team/tiny/resolve/{COMMIT}/"):
            data = (self.directory / path.rpartition("/")[2]).read_bytes()
            headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        else:
            handler.answer(404, b"{}", **{"X-Error-Code": "RepoNotFound", "Content-Type": "application/json"})
            return
        if with_body:
            handler.answer(200, data, **headers)
            return
        handler.send_response(200)
        for name, value in (headers | {"Content-Length": str(len(data))}).items():
            handler.send_header(name, value)
        handler.end_headers()

    def _describe(self) -> dict[str, object]:
        files = []
        for path in sorted(self.directory.iterdir()):
            data = path.read_bytes()
            found = "0" * 64 if self.lies else hashlib.sha256(data).hexdigest()
            lfs = {"size": len(data), "sha256": found, "pointerSize": 1} if path.suffix == ".safetensors" else None
            files.append({"rfilename": path.name, "size": len(data), **({"lfs": lfs} if lfs else {})})
        card = {"license": "tiny-terms", "license_link": "https://example.org/terms"}
        return {"id": "team/tiny", "sha": COMMIT, "siblings": files, "cardData": card}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    found = Hub(Path(shutil.copytree(make_templated_model("qwen2.5"), tmp_path / "there")))
    monkeypatch.setenv("TENTALIS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "240")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with found.server:
        monkeypatch.setenv("HF_ENDPOINT", found.server.url)
        yield found


def _get(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["model", "get", *arguments])
    return int(str(stop.value.code or 0))


def test_a_model_is_fetched_once_its_terms_are_agreed_to(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _get("team/tiny") == 2
    said = capsys.readouterr().err
    for words in ("Its licence: tiny-terms, https://example.org/terms", "--accept-licence", "KiB"):
        assert words in said
    assert list_models(tmp_path / "home") == []
    assert _get("team/tiny", "--accept-licence") == 0, capsys.readouterr()
    kept = find_model(tmp_path / "home", "tiny")
    assert kept.source == f"{hub.server.url}/team/tiny at {COMMIT}"
    assert kept.source_sha256 == kept.files["model.safetensors"]
    assert kept.licence == "tiny-terms, https://example.org/terms"
    assert kept.facts is not None
    assert ".cache" not in kept.files


def test_what_the_hub_has_not_or_sends_wrong_is_told_and_nothing_is_kept(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _get("team/other", "--accept-licence") == 1
    assert "knows no model 'team/other'" in capsys.readouterr().err
    assert _get("team/tiny", "--file", "tiny.gguf", "--accept-licence") == 1
    assert "team/tiny has no file 'tiny.gguf'; its GGUF files: none" in capsys.readouterr().err
    hub.lies = True
    assert _get("team/tiny", "--accept-licence") == 1
    assert f"model.safetensors: wanted a file of sha256 {'0' * 64}, found" in capsys.readouterr().err
    assert _get("tiny") == 2
    assert "or a name on the hub like Qwen/Qwen3-0.6B" in capsys.readouterr().err
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert _get("team/tiny", "--accept-licence") == 1
    assert "cannot be reached" in (said := capsys.readouterr().err)
    assert "`tentalis model add PLACE` takes a directory" in said
    assert list_models(tmp_path / "home") == []
