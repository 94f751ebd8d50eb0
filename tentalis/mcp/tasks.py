"""Tools for tasks: submit, look, hand in, give up."""

from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations
from pydantic import Field

from tentalis.client import AsyncClient
from tentalis.core.field_limits import MAX_GROUP, MAX_HANDED_IN_STEPS, MAX_PROMPT_CHARS
from tentalis.mcp.connection import Connect, choose_project, read_rows
from tentalis.mcp.shapes import Attempt, Identity, Step, Task, TaskReport, Tasks

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

SETTLED = frozenset({"done", "failed", "cancelled"})
State = Literal["queued", "working", "scoring", "in_review", "learning", "done", "failed", "cancelled"]
Environment = Annotated[str, Field(max_length=32, description="Where it is done.")]
TaskId = Annotated[int, Field(ge=1, description="Number of the task.")]
ProjectSlug = Annotated[str, Field(description="Slug; empty: the only one the token may be used in.")]
Limit = Annotated[int, Field(ge=1, le=200)]
Seen = Annotated[State, Field(description="With wait_s: the state you know; one that is another is not waited for.")]
WaitS = Annotated[int, Field(ge=0, le=25, description="Seconds to wait for it to change, at most.")]


def add_task_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""

    @server.tool(annotations=READS)
    async def whoami(ctx: Context[Any, Any]) -> Identity:
        """Whose token this is, and in which projects it may be used."""
        async with connect(ctx) as client:
            return Identity.model_validate(await client.whoami())

    @server.tool(annotations=ADDS)
    async def submit_task(
        ctx: Context[Any, Any],
        prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_CHARS, description="What is to be done.")],
        project: ProjectSlug = "",
        environment: Environment = "chat",
        worker: Annotated[str, Field(description="Who does it; empty: the project's only one.")] = "",
        group_size: Annotated[
            int | None, Field(ge=1, le=MAX_GROUP, description="Attempts; null: the project's.")
        ] = None,
        parent: Annotated[int | None, Field(ge=1, description="Task this one is part of.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Kept with the task.")] = None,
    ) -> Task:
        """Give a worker a task. It is done in the background: look with check_task."""
        async with connect(ctx) as client:
            task = await client.submit_task(
                project=await choose_project(client, project),
                prompt=prompt,
                environment=environment,
                worker=worker or None,
                group_size=group_size,
                parent=parent,
                metadata=metadata,
            )
            return Task.model_validate(task)

    @server.tool(annotations=READS)
    async def check_task(
        ctx: Context[Any, Any], task_id: TaskId, wait_s: WaitS = 0, seen: Seen | None = None
    ) -> TaskReport:
        """How far a task is, its answer, and the tries at it. With wait_s it answers as soon as the state changes."""
        async with connect(ctx) as client:
            return await _wait_for_change(client, task_id, wait_s, seen)

    @server.tool(annotations=READS)
    async def list_tasks(
        ctx: Context[Any, Any],
        project: ProjectSlug = "",
        state: State | None = None,
        worker: str = "",
        limit: Limit = 20,
    ) -> Tasks:
        """The newest tasks; state=queued and your own worker's name find the work that waits for you."""
        async with connect(ctx) as client:
            rows = await read_rows(client.list_tasks, limit, project=project, state=state, worker=worker)
            return Tasks(tasks=[Task.model_validate(row) for row in rows])

    @server.tool(annotations=ENDS)
    async def cancel_task(ctx: Context[Any, Any], task_id: TaskId) -> Task:
        """Give a task up. What was done of it stays readable and trains nothing."""
        async with connect(ctx) as client:
            return Task.model_validate(await client.cancel_task(task_id))

    @server.tool(annotations=ADDS)
    async def submit_result(
        ctx: Context[Any, Any],
        task_id: TaskId,
        answer: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_CHARS, description="The result, in words.")],
        steps: Annotated[list[Step], Field(max_length=MAX_HANDED_IN_STEPS, description="How you got there.")] = [],  # noqa: B006
    ) -> Attempt:
        """Hand in your own work on a queued task; it is scored and reviewed like any."""
        async with connect(ctx) as client:
            given = [step.model_dump() for step in steps]
            return Attempt.model_validate(await client.submit_attempt(task=task_id, steps=given, answer=answer))


async def _wait_for_change(client: AsyncClient, task_id: int, wait_s: int, seen: str | None) -> TaskReport:
    row = await client.get_task(task_id, wait_s=wait_s or None, seen=seen)
    attempts = await read_rows(client.list_attempts, 64, task_id=task_id)
    return TaskReport(
        task=Task.model_validate(row),
        attempts=sorted((Attempt.model_validate(one) for one in attempts), key=lambda one: one.index),
        is_settled=row["state"] in SETTLED,
    )
