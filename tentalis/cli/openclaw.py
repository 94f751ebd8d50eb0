"""`tentalis openclaw`: make an OpenClaw ask its model through the gateway, with the plugin and the skills."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True)

DEFAULT_GATEWAY = "http://127.0.0.1:8200"
DEFAULT_URL = "http://127.0.0.1:8000"
SKILLS = (
    "assign-task",
    "check-task",
    "claim-review",
    "list-adapters",
    "submit-feedback",
    "submit-result",
    "submit-review",
    "wait-for-work",
)
MIN_CONTEXT_TOKENS = 16_000
"""OpenClaw refuses a model with less."""
LISTS = ("plugins.load.paths", "skills.load.extraDirs")
"""Lists of the configuration that a patch would replace; what is there stays."""


class OpenClawError(Exception):
    """OpenClaw is not there, or refused."""


@app.callback()
def root() -> None:
    """Connect an OpenClaw."""


@app.command()
def configure(
    worker: Annotated[
        list[str], typer.Argument(help="Workers OpenClaw may talk as; the first becomes its agents' model.")
    ],
    gateway: Annotated[str, typer.Option(help="Address of the Tentalis gateway.")] = DEFAULT_GATEWAY,
    url: Annotated[str, typer.Option(help="Address of the platform, for the skills.")] = DEFAULT_URL,
    context_tokens: Annotated[
        int, typer.Option(min=MIN_CONTEXT_TOKENS, help="How much the model takes, answer included.")
    ] = 32_768,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of one answer.")] = 4096,
    files: Annotated[
        Path | None, typer.Option(help="integrations/openclaw of a checkout; default: that of this installation.")
    ] = None,
    plugin: Annotated[bool, typer.Option(help="Load the plugin: exact sessions, turns, tasks.")] = True,
    skills: Annotated[bool, typer.Option(help="Offer the skills.")] = True,
    inbound: Annotated[bool, typer.Option(help="Let the platform give tasks to this OpenClaw.")] = False,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Talk alone: no tools, no skills, no files; for small models and our own engine."),
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Hand it to `openclaw config patch`; else it is printed.")
    ] = False,
) -> None:
    """Print (or apply) what makes an OpenClaw ask its model through the gateway.

    The token is not part of it: OpenClaw reads it from the environment variable TENTALIS_AGENT_KEY.
    """
    skills = skills and not plain
    place = find_files(files) if plugin or skills else None
    patch = make_patch(
        worker,
        gateway=gateway.rstrip("/"),
        url=url.rstrip("/"),
        context_tokens=context_tokens,
        max_tokens=max_tokens,
        plugin=place / "plugin" if place and plugin else None,
        skills=place / "skills" if place and skills else None,
        inbound=inbound,
        plain=plain,
    )
    if not apply:
        typer.echo(json.dumps(patch, indent=2))
        return
    for path in LISTS:
        keep_entries(patch, path)
    typer.echo(run_openclaw("config", "patch", "--stdin", given=json.dumps(patch)))
    typer.echo("set TENTALIS_AGENT_KEY where OpenClaw runs, then: openclaw gateway restart")


def make_patch(
    workers: list[str],
    *,
    gateway: str,
    url: str,
    context_tokens: int,
    max_tokens: int,
    plugin: Path | None,
    skills: Path | None,
    inbound: bool,
    plain: bool = False,
) -> dict[str, Any]:
    """What is merged into openclaw.json.

    Args:
        plugin, skills: directories; None leaves them out.
        plain: the agent is offered no tools and no skills, and reads no files of its workspace.
    """
    models = [describe_model(worker, context_tokens=context_tokens, max_tokens=max_tokens) for worker in workers]
    patch: dict[str, Any] = {
        "models": {
            "mode": "merge",
            "providers": {
                "tentalis": {
                    "baseUrl": f"{gateway}/v1",
                    "apiKey": "${TENTALIS_AGENT_KEY}",
                    "api": "openai-completions",
                    "timeoutSeconds": 300,
                    "models": models,
                }
            },
        },
        "agents": {"defaults": {"model": {"primary": f"tentalis/{workers[0]}"}}},
    }
    if plugin is not None:
        hooks = {"allowConversationAccess": True}
        entry = {"enabled": True, "hooks": hooks, "config": {"gatewayUrl": gateway}}
        patch["plugins"] = {"load": {"paths": [str(plugin)]}, "entries": {"tentalis": entry}}
    if skills is not None:
        entries = {name: {"enabled": True, "env": {"TENTALIS_URL": url}} for name in SKILLS}
        patch["skills"] = {"load": {"extraDirs": [str(skills)]}, "entries": entries}
    if plain:
        patch["agents"]["defaults"] |= {"skills": [], "skipBootstrap": True, "contextInjection": "never"}
        for model in models:
            model["compat"]["supportsTools"] = False
    if inbound:
        patch["gateway"] = {"http": {"endpoints": {"chatCompletions": {"enabled": True}}}}
    return patch


def describe_model(worker: str, *, context_tokens: int, max_tokens: int) -> dict[str, Any]:
    """A worker as OpenClaw's model: without this it asks for far too many tokens and sends no session."""
    return {
        "id": worker,
        "name": f"Tentalis {worker}",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": context_tokens,
        "contextTokens": max(MIN_CONTEXT_TOKENS, context_tokens - max_tokens),
        "maxTokens": max_tokens,
        "compat": {
            "supportsPromptCacheKey": True,
            "supportsUsageInStreaming": True,
            "supportsDeveloperRole": False,
            "supportsStore": False,
            "supportsReasoningEffort": False,
            "supportsStrictMode": False,
            "maxTokensField": "max_tokens",
            "requiresStringContent": True,
        },
    }


def find_files(given: Path | None) -> Path:
    """The directory with plugin and skills.

    Raises:
        typer.BadParameter: they are not there.
    """
    place = (given or Path(__file__).parents[2] / "integrations" / "openclaw").resolve()
    for part in ("plugin/openclaw.plugin.json", "skills/tentalis.py"):
        if not (place / part).is_file():
            raise typer.BadParameter(f"wanted {part} in {place}, found none: name a checkout's with --files")
    return place


def keep_entries(patch: dict[str, Any], path: str) -> None:
    """Put what a list of the configuration holds before what the patch adds to it."""
    *parents, name = path.split(".")
    for parent in parents:
        patch = patch.get(parent, {})
    if name in patch:
        try:
            present = json.loads(run_openclaw("config", "get", path, "--json"))
        except (OpenClawError, ValueError):
            present = None
        if isinstance(present, list):  # else it has no such list yet
            patch[name] = list(dict.fromkeys([*present, *patch[name]]))


def run_openclaw(*words: str, given: str = "") -> str:
    """What the `openclaw` command printed.

    Raises:
        OpenClawError: it is not installed, or failed.
    """
    if (program := shutil.which("openclaw")) is None:
        raise OpenClawError(
            "there is no `openclaw` on this machine's PATH: run without --apply and hand on what it prints"
        )
    done = subprocess.run([program, *words], input=given, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise OpenClawError(f"openclaw {' '.join(words)} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout.strip()
