"""The agents that do the tasks of workers."""

from typing import TYPE_CHECKING

from django.conf import settings

from apps.base.errors import ConflictError
from apps.inference.grants import require_granted
from apps.inference.openclaw import OpenClawServer
from apps.inference.services import client_for
from apps.workers.agents.chat import MAX_TOKENS
from apps.workers.agents.flows import FlowAgent
from apps.workers.agents.openclaw import OpenClawAgent
from apps.workers.kinds import OPENCLAW, OUTSIDE, find_kind, find_longest_try
from apps.workers.recipes import choose_recipe
from apps.workers.selectors import find_base_model
from tentalis.core.worlds import Agent, AgentSeat

if TYPE_CHECKING:
    from apps.workers.models import Worker

QUICK_TOKENS = 256


def get_agent(worker: "Worker", *, task_id: int | None = None) -> Agent:
    """The agent that does this worker's tasks, with its model server, system prompt and sampling.

    Args:
        task_id: the task it is for, where it is for one.

    Raises:
        ConflictError: an outside worker's tasks are not done here; or its server is switched off.
    """
    kind = find_kind(worker.kind)
    if kind.name == OPENCLAW:
        return _make_openclaw(worker, task_id)
    if kind.name == OUTSIDE:
        raise ConflictError(f"{worker.name} works outside: its agent hands in what it did")
    if kind.flow is not None:
        return FlowAgent(kind.flow, worker, task_id=task_id)
    if kind.make is None:
        raise ConflictError(f"{worker.name} is of kind {worker.kind}, which is not installed any more")
    seat = AgentSeat(
        client=client_for(worker.provider, worker.project_id) if kind.asks_model else None,
        base_model=find_base_model(worker),
        system_prompt=worker.system_prompt,
        sampling=worker.sampling,
        longest_answer=find_longest_answer(worker),
        top_k=choose_recipe(worker.project, worker).stored_top_k if kind.asks_model else 0,
        context_tokens=worker.context_tokens if kind.asks_model else None,
    )
    return kind.make(seat)


def can_ask_model(worker: "Worker") -> bool:
    """Whether an agent of ours can do this worker's tasks with a model that is named to it."""
    kind = find_kind(worker.kind)
    return kind.make is not None and kind.asks_model and not kind.acts


def works_outside(worker: "Worker") -> bool:
    """Whether its tries are made by an agent elsewhere that thinks through our gateway: it hands them in, or is asked
    for them."""
    return (worker.kind == OUTSIDE and bool(find_base_model(worker))) or (
        find_kind(worker.kind).through_gateway and bool(worker.base_model)
    )


def can_measure(worker: "Worker") -> bool:
    """Whether it can be told how well this worker does with one model or another: asked here, or by its agent's tries
    that the gateway answers with that model."""
    return can_ask_model(worker) or works_outside(worker)


def is_quick(worker: "Worker") -> bool:
    """Whether tries at several tasks take about as long as those at one, so that none holds up the others."""
    longest = find_longest_try(worker)
    return longest is not None and longest <= QUICK_TOKENS


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
