"""The kinds of workers: how each does a group of tries."""

from typing import TYPE_CHECKING

from apps.base.errors import ConflictError
from apps.inference.services import client_for
from apps.workers.agents.chat import ChatAgent
from apps.workers.agents.desk import BASE_MODEL, DeskAgent
from apps.workers.agents.echo import EchoAgent
from tentalis.core.worlds import Agent

if TYPE_CHECKING:
    from apps.workers.models import Worker


def get_agent(worker: "Worker") -> Agent:
    """The agent that does this worker's tasks, with its model server, system prompt and sampling.

    Raises:
        ConflictError: an outside worker's tasks are not done here.
    """
    if worker.kind == "outside":
        raise ConflictError(f"{worker.name} works outside: its agent hands in what it did")
    if worker.kind == "echo":
        return EchoAgent()
    client = client_for(worker.provider)
    if worker.kind == "desk":
        return DeskAgent(
            client,
            base_model=worker.base_model or BASE_MODEL,
            system_prompt=worker.system_prompt,
            **worker.sampling,
        )
    return ChatAgent(client, system_prompt=worker.system_prompt, **worker.sampling)
