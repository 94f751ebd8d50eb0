"""Clients from PyPI and npm, each in an environment of its own under the user's cache, filled the first time.

`python -m tests.integrations.clients.installing` installs all of them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_S = 900
WORDS = 600


@dataclass(frozen=True)
class Client:
    """What is installed of one client.

    Args:
        packages: with their versions. from_npm: else from PyPI.
    """

    name: str
    packages: tuple[str, ...]
    from_npm: bool = False


TELLING = ("opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp-proto-http==1.45.2")
CLIENTS = {
    client.name: client
    for client in (
        Client("openai", ("openai==3.51.0",)),
        Client("openai_agents", ("openai-agents==0.24.0",)),
        Client("anthropic", ("anthropic==2.10.0",)),
        Client("litellm", ("litellm==1.106.2", "mcp")),
        Client("langgraph", ("langgraph==1.2.22", "langchain==1.4.7", "langchain-openai==1.7.3")),
        Client("langchain_anthropic", ("langchain==1.4.7", "langchain-anthropic==1.7.7")),
        Client("pydantic_ai", ("pydantic-ai-slim[openai,anthropic]==2.68.0",)),
        Client("smolagents", ("smolagents[openai]==1.26.0",)),
        Client("strands", ("strands-agents[openai,anthropic,litellm]==1.62.0",)),
        Client("google_adk", ("google-adk==2.13.0", "litellm==1.106.2", "mcp")),
        Client("crewai", ("crewai==1.15.30",)),
        Client("autogen", ("autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5")),
        Client("dspy", ("dspy==3.4.1",)),
        Client("instructor", ("instructor[anthropic]==1.17.0",)),
        Client(
            "llama_index",
            (
                "llama-index-core==0.14.25",
                "llama-index-llms-openai==0.8.3",
                "llama-index-llms-openai-like==0.8.1",
            ),
        ),
        Client("mini_swe_agent", ("mini-swe-agent==2.4.6", "litellm==1.106.2", "mcp")),
        Client("otel_genai", ("opentelemetry-instrumentation-genai-openai==1.3b0", "openai==3.54.0", *TELLING)),
        Client(
            "otel_openai_v2",
            (
                "opentelemetry-instrumentation-openai-v2==2.4b0",
                "opentelemetry-util-genai==0.4b0",
                "openai==2.54.0",
                *TELLING,
            ),
        ),
        Client("openinference", ("openinference-instrumentation-openai==0.1.66", "openai==3.54.0", *TELLING)),
        Client("traceloop", ("opentelemetry-instrumentation-openai==0.62.4", "openai==3.54.0", *TELLING)),
        Client("claude_agent_sdk", ("claude-agent-sdk==0.2.184",)),
        Client(
            "vercel_ai",
            (
                "ai@7.0.173",
                "@ai-sdk/openai@4.0.118",
                "@ai-sdk/openai-compatible@3.0.92",
                "@ai-sdk/anthropic@4.0.105",
                "zod@4.6.7",
            ),
            from_npm=True,
        ),
        Client("claude_code", ("@anthropic-ai/claude-code@2.1.328",), from_npm=True),
        Client("codex", ("@openai/codex@0.169.0",), from_npm=True),
        Client("opencode", ("opencode-ai@1.18.33",), from_npm=True),
    )
}


class CannotBeHadError(Exception):
    """A client cannot be installed here; the message says why."""


def install(client: Client) -> Path:
    """The directory of a client's commands: of its Python, or of npm's.

    Raises:
        CannotBeHadError: it is not to be had.
    """
    mark = hashlib.sha256(" ".join(client.packages).encode()).hexdigest()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tentalis-tests" / "clients"
    place = cache / f"{client.name}-{mark}"
    commands = place / ("node_modules/.bin" if client.from_npm else "bin")
    if not (place / "whole").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        if client.from_npm:
            _install_from_npm(place, client)
        else:
            _install_from_pypi(place, client)
        (place / "whole").touch()
    return commands


def _install_from_pypi(place: Path, client: Client) -> None:
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if uv is None:
        raise CannotBeHadError("wanted uv beside this Python (make install), found none")
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)], place.parent)
    python = str(place / "bin" / "python")
    _run([uv, "pip", "install", "--quiet", "--python", python, *client.packages], place)


def _install_from_npm(place: Path, client: Client) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotBeHadError("wanted npm, found none")
    (place / "package.json").write_text('{"private": true, "type": "module"}')
    _run([npm, "install", "--no-fund", "--no-audit", "--loglevel=error", *client.packages], place)


def _run(argv: list[str], place: Path) -> None:
    try:
        done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotBeHadError(f"{' '.join(argv[:3])} took longer than {INSTALL_S} s") from None
    if done.returncode:
        raise CannotBeHadError(f"{' '.join(argv[:3])}: {(done.stderr or done.stdout).strip()[-WORDS:]}")


def main() -> None:
    for client in CLIENTS.values():
        try:
            words = str(install(client))
        except CannotBeHadError as error:
            words = f"cannot be had: {error}"
        sys.stdout.write(f"{client.name}: {words}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
