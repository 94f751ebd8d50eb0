"""The kinds of workers: how each does a group of tries."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.conf import settings

from apps.base.errors import ConflictError
from apps.inference.grants import require_granted
from apps.inference.openclaw import OpenClawServer
from apps.inference.services import client_for
from apps.workers.agents.chat import MAX_TOKENS, ChatAgent
from apps.workers.agents.desk import BASE_MODEL, DeskAgent
from apps.workers.agents.echo import EchoAgent
from apps.workers.agents.openclaw import OpenClawAgent
from apps.workers.recipes import choose_recipe
from tentalis.core.worlds import Agent

if TYPE_CHECKING:
    from apps.workers.models import Worker

AGENTS: Mapping[str, type[Agent]] = {
    "echo": EchoAgent,
    "desk": DeskAgent,
    "chat": ChatAgent,
    "openclaw": OpenClawAgent,
}
"""By the kind of worker; an outside worker's agent is none of ours."""
QUICK_TOKENS = 256


def get_agent(worker: "Worker", *, task_id: int | None = None) -> Agent:
    """The agent that does this worker's tasks, with its model server, system prompt and sampling.

    Args:
        task_id: the task it is for, where it is for one.

    Raises:
        ConflictError: an outside worker's tasks are not done here; or its server is switched off.
    """
    if worker.kind == "outside":
        raise ConflictError(f"{worker.name} works outside: its agent hands in what it did")
    if worker.kind == "echo":
        return EchoAgent()
    if worker.kind == "openclaw":
        return _make_openclaw(worker, task_id)
    client = client_for(worker.provider, worker.project_id)
    top_k = choose_recipe(worker.project, worker).stored_top_k
    if worker.kind == "desk":
        return DeskAgent(
            client,
            base_model=worker.base_model or BASE_MODEL,
            system_prompt=worker.system_prompt,
            top_k=top_k,
            **worker.sampling,
        )
    sampling = {"max_tokens": find_longest_answer(worker), **worker.sampling}
    return ChatAgent(client, system_prompt=worker.system_prompt, top_k=top_k, **sampling)


def can_ask_model(worker: "Worker") -> bool:
    """Whether an agent of ours can do this worker's tasks with a model that is named to it."""
    return worker.kind in AGENTS and AGENTS[worker.kind].asks_model


def is_quick(worker: "Worker") -> bool:
    """Whether tries at several tasks take about as long as those at one, so that none holds up the others."""
    usual = AGENTS[worker.kind].longest_try if worker.kind in AGENTS else None
    return usual is not None and worker.sampling.get("max_tokens", usual) <= QUICK_TOKENS


def find_longest_answer(worker: "Worker") -> int:
    """Tokens of an answer where nobody set it: the usual, but at most half of what the model takes, as far as known."""
    context = worker.context_tokens
    return MAX_TOKENS if context is None else min(MAX_TOKENS, max(1, context // 2))


def _make_openclaw(worker: "Worker", task_id: int | None) -> OpenClawAgent:
    if worker.agent_server is None:
        raise ConflictError(f"{worker.name} has no OpenClaw: name its gateway as `agent_server`")
    require_granted(worker.agent_server, worker.project_id)
    timeout_s: float = settings.TENTALIS["TASK_TIMEOUT_SECONDS"]
    return OpenClawAgent(
        OpenClawServer.of(worker.agent_server, timeout_s=timeout_s),
        project_id=worker.project_id,
        worker_name=worker.name if worker.base_model else "",
        agent_id=worker.agent_id,
        task_id=task_id,
        system_prompt=worker.system_prompt,
        **worker.sampling,
    )
