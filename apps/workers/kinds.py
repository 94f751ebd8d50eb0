"""The kinds of workers there are, by name: our own, those the worlds bring along, and what other packages add."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Final

from apps.worlds.registry import find_own_agents
from tentalis.core.checked import Number
from tentalis.core.worlds import Agent, AgentKind, AgentSeat, FlowProgram
from tentalis.plugin_process import describe
from tentalis.plugin_trials import find_python
from tentalis.plugins import AGENTS, Plugin, Registry

if TYPE_CHECKING:
    from apps.workers.models import Worker

ECHO, CHAT, OUTSIDE, OPENCLAW = "echo", "chat", "outside", "openclaw"
_MODEL: Final = {
    "temperature": Number(low=0, high=2, is_whole=False),
    "max_tokens": Number(low=1, high=65_536, is_whole=True),
    "top_p": Number(low=0.01, high=1, is_whole=False),
}
_FLOW: Final = {**_MODEL, "stream": Number(low=0, high=1, is_whole=True)}


def find_kind(name: str) -> AgentKind:
    """The kind of that name; of one that is here no more, one that does nothing."""
    return KINDS.get(name) or AgentKind(name=name, label=name)


def find_longest_try(worker: "Worker") -> int | None:
    """Tokens of a try at most; 0: no model is asked; None: nobody knows."""
    usual = find_kind(worker.kind).longest_try
    return None if usual is None else int(worker.sampling.get("max_tokens", usual))


def _list_own() -> Mapping[str, AgentKind]:
    from apps.workers.agents.chat import MAX_TOKENS, ChatAgent  # the agents' package asks for the kinds
    from apps.workers.agents.echo import EchoAgent

    def make_echo(_seat: AgentSeat) -> Agent:
        return EchoAgent()

    def make_chat(seat: AgentSeat) -> Agent:
        sampling = {"max_tokens": seat.longest_answer, **seat.sampling}
        told: dict[str, Any] = {"top_k": seat.top_k, "context_tokens": seat.context_tokens}
        return ChatAgent(seat.client, system_prompt=seat.system_prompt, **told, **sampling)

    ours = (
        AgentKind(
            name=CHAT,
            label="Chat (any OpenAI-compatible model)",
            about="A model of your own, behind any OpenAI-compatible address, answers the tasks you give it.",
            make=make_chat,
            sampling=_MODEL,
            longest_try=MAX_TOKENS,
            takes_turns=True,
        ),
        AgentKind(
            name=OUTSIDE,
            label="Outside (an agent of your own, over the API)",
            about="Your own agent takes tasks and hands in results over REST, MCP or the command line.",
            sampling=_MODEL,
        ),
        AgentKind(
            name=OPENCLAW,
            label="OpenClaw (an agent on an OpenClaw of yours)",
            about="An agent on an OpenClaw of yours does the tasks with its own tools.",
            sampling=_MODEL,
            acts=True,
            through_gateway=True,
        ),
        *find_own_agents(),
        AgentKind(
            name=ECHO,
            label="Echo (repeats the prompt; for trying things out)",
            about="It repeats what it is told: to try out pages and programs.",
            make=make_echo,
            longest_try=0,
        ),
    )
    return {kind.name: kind for kind in ours}


def _read_kind(name: str, found: Any) -> AgentKind:
    if not isinstance(found, AgentKind):
        raise TypeError(f"wanted a tentalis.core.worlds.AgentKind or a flow, found {type(found).__name__}")
    if found.name != name:
        raise ValueError(f"wanted a kind that is named as its entry point, {name!r}, found {found.name!r}")
    if found.make is None and found.flow is None:
        raise ValueError("wanted a kind that makes its agent, found none; one that works elsewhere is `outside`")
    return found


def _make_flow(plugin: Plugin, point: EntryPoint, told: Mapping[str, Any]) -> AgentKind | None:
    """The kind of an agent of another framework, which is not imported here; None of what is another kind."""
    python = find_python(point)
    said = (told or describe(point.load())).get("flow")
    if said is None:
        if python is not None:
            raise TypeError("wanted a flow: what is no agent of another framework is installed beside Tentalis")
        return None
    return AgentKind(
        name=plugin.name,
        label=said["label"] or f"{plugin.name} (an agent of {plugin.package.rpartition(' ')[0]})",
        about=said["about"],
        sampling=_FLOW,
        acts=True,
        through_gateway=True,
        flow=FlowProgram(point.value, str(python or "")),
    )


KINDS: Final = Registry[AgentKind](AGENTS, "kind of worker", _list_own, _read_kind, _make_flow)


def kind_choices() -> list[tuple[str, str]]:
    """(name, label) of every kind, for who chooses one."""
    return [(kind.name, kind.label) for kind in KINDS.values()]
