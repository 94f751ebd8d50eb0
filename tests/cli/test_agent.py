"""A package to begin with: every framework's is whole, and the loop without one passes its own tests."""

import ast
import asyncio
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tentalis.agent_templates import FRAMEWORKS, TemplateError, write_package
from tentalis.contract.scripted_model import Asked, Call, ScriptedModel
from tests.cli.conftest import Run


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_package_of_each_framework_is_whole(framework: str, tmp_path: Path) -> None:
    files = write_package(tmp_path, name="sums", framework=framework)
    for path in files:
        text = path.read_text()
        assert "${" not in text
        if path.suffix == ".py":
            ast.parse(text)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["tentalis.agents"] == {"sums": "sums.agent:Agent"}
    assert project["dependencies"] == list(FRAMEWORKS[framework].requires)


def test_the_loop_without_a_framework_passes_its_own_tests(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tentalis", "agent", "init", str(tmp_path / "my-sums")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:django", "-p", "no:cacheprovider"],
        cwd=tmp_path / "my-sums", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "8 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("framework", ["react", "supervised"])
def test_arguments_that_are_no_object_are_told_to_the_model_and_end_no_try(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"sums_{framework}"
    write_package(tmp_path, name=name, framework=framework)
    monkeypatch.syspath_prepend(str(tmp_path))
    written: list[Any] = [None, [1], "12", {"expression": "6 * 7"}]

    def script(asked: Asked) -> str | Call:
        done = len(asked.results)
        return Call("calculate", written[done]) if done < len(written) else f"It is {asked.results[-1]}."

    with ScriptedModel(script) as model:
        task = SimpleNamespace(messages=[{"role": "user", "content": "What is 6 * 7?"}])
        config = SimpleNamespace(
            base_url=f"{model.url}/v1", api_key="k", model="m", stream=False, timeout_s=60.0,
            temperature=None, top_p=None, max_tokens=None, seed=None,
        )  # fmt: skip
        asyncio.run(import_module(f"{name}.agent").Agent().arun(task, config))
    told = model.asked[-1].results
    assert told[-1] == "42"
    assert all("cannot be used" in words for words in told[:-1])


def test_what_cannot_be_a_package_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"wanted one of react, .*found 'moon'"):
        write_package(tmp_path, name="sums", framework="moon")
    with pytest.raises(TemplateError, match="lower-case letters"):
        write_package(tmp_path, name="Sums!", framework="react")
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(TemplateError, match="found files in it"):
        write_package(tmp_path, name="sums", framework="react")


def test_an_agent_gets_its_place_and_loses_it(signed_in: Run) -> None:
    made = signed_in("agent", "register", "scout", "--json").json
    assert (made["name"], made["kind"], made["project"]) == ("scout", "outside", "shop")
    assert {row["name"] for row in signed_in("agent", "list", "--json").json} == {"echo", "scout"}
    assert signed_in("agent", "info", "scout", "--json").json["id"] == made["id"]
    assert signed_in("agent", "unregister", "scout", "--json").json["removed"]
    assert signed_in("agent", "info", "scout").code == 2
    unknown = signed_in("agent", "register", "scout", "--kind", "unheard_of")
    assert (unknown.code, "kind" in unknown.err) == (1, True)
    signed_in("task", "submit", "Say hello.", "--environment", "chat")
    kept = signed_in("agent", "unregister", "echo")
    assert (kept.code, kept.out) == (0, "echo has a history: it is switched off\n")
    assert signed_in("agent", "info", "echo", "--json").json["is_active"] is False
