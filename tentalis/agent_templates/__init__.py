"""Packages that a new agent begins as: one skeleton, and for each framework the one module that differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from tentalis.contract import scripted_model
from tentalis.plugins import NAME

_FRAMEWORKS: Final = Path(__file__).with_name("frameworks")
_SKELETON: Final = Path(__file__).with_name("skeleton")


@dataclass(frozen=True)
class Framework:
    """What a template stands on.

    Args:
        requires: as its pyproject.toml has it. `more`: modules of its own beside `agent.py`. `points`: entry points
            beside the agent's, group -> `module:attribute` in its package.
    """

    about: str
    requires: Sequence[str]
    more: Sequence[str] = ()
    points: Mapping[str, str] | None = None


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "react": Framework("a loop over tool calls, without a framework", ("openai>=2",)),
    "smolagents": Framework("smolagents' ToolCallingAgent", ("smolagents[openai]>=1.24",)),
    "langgraph": Framework(
        "an agent of LangChain, on LangGraph", ("langchain>=1", "langgraph>=1", "langchain-openai>=1")
    ),
    "openai-agents": Framework("OpenAI's Agents SDK", ("openai-agents>=0.6",)),
    "google-adk": Framework("Google's Agent Development Kit, by LiteLLM", ("google-adk>=1.18", "litellm>=1.75")),
    "strands-agents": Framework("Strands Agents", ("strands-agents[openai]>=1.18",)),
    "pydantic-ai": Framework("Pydantic AI", ("pydantic-ai-slim[openai]>=1.20",)),
    "crewai": Framework("a crew of CrewAI with one agent", ("crewai>=1.5",)),
    "mcp": Framework("the loop of react over the tools of an MCP server", ("openai>=2", "mcp>=1.20"), more=("server",)),
    "supervised": Framework(
        "the loop of react, whose tool calls are looked at before they are made",
        ("openai>=2",),
        more=("rules",),
        points={"tentalis.supervisors": "rules:Rules"},
    ),
}
_LOOP: Final = ("mcp", "supervised", "react")
"""Who share react's loop."""


class TemplateError(Exception):
    """A package cannot be made: what was wanted, what was found."""


def write_package(directory: Path, *, name: str, framework: str) -> list[Path]:
    """Make a package that adds an agent; its files, in order.

    Raises:
        TemplateError: there is something already, or no such framework, or no such name.
    """
    if framework not in FRAMEWORKS:
        raise TemplateError(f"template: wanted one of {', '.join(FRAMEWORKS)}, found {framework!r:.80}")
    if not NAME.fullmatch(name):
        raise TemplateError(f"name: wanted lower-case letters, digits and _, a letter first, found {name!r:.80}")
    if directory.exists() and any(directory.iterdir()):
        raise TemplateError(f"{directory}: wanted an empty directory, or none, found files in it")
    chosen = FRAMEWORKS[framework]
    files = dict(_read_skeleton(name))
    module = framework.replace("-", "_")
    files[f"{name}/agent.py"] = (_FRAMEWORKS / f"{module}.py").read_text(encoding="utf-8")
    if framework in _LOOP:
        files[f"{name}/loop.py"] = (_FRAMEWORKS / "loop.py").read_text(encoding="utf-8")
    for more in chosen.more:
        files[f"{name}/{more}.py"] = (_FRAMEWORKS / f"{module}_{more}.py").read_text(encoding="utf-8")
    files["tests/scripted_model.py"] = Path(scripted_model.__file__).read_text(encoding="utf-8")
    points = {"tentalis.agents": "agent:Agent", **(chosen.points or {})}
    told = {
        "name": name,
        "framework": framework,
        "about": chosen.about,
        "requires": ", ".join(f'"{one}"' for one in chosen.requires),
        "points": "\n".join(
            f'[project.entry-points."{group}"]\n{name} = "{name}.{at}"\n' for group, at in points.items()
        ),
    }
    for path, text in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(Template(text).safe_substitute(told) if path in _FILLED else text, encoding="utf-8")
    return [directory / path for path in files]


_FILLED: Final = frozenset({"pyproject.toml", "README.md", "tests/test_agent.py"})


def _read_skeleton(name: str) -> list[tuple[str, str]]:
    paths = sorted(path for path in _SKELETON.rglob("*.in"))
    return [
        (
            str(path.relative_to(_SKELETON)).removesuffix(".in").replace("PACKAGE", name),
            path.read_text(encoding="utf-8"),
        )
        for path in paths
    ]
