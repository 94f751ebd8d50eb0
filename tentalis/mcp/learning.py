"""Tools that tell who works here and what was learnt."""

from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import Field

from tentalis.mcp.connection import Connect, read_rows
from tentalis.mcp.shapes import Adapter, Adapters, Run, Runs, Skill, Skills, Steps, StepScores, Worker, Workers
from tentalis.mcp.tasks import READS, Limit, ProjectSlug


def add_learning_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""

    @server.tool(annotations=READS)
    async def list_workers(ctx: Context[Any, Any], project: ProjectSlug = "", limit: Limit = 20) -> Workers:
        """Who does tasks here, and which adapter serves each."""
        async with connect(ctx) as client:
            rows = await read_rows(client.list_workers, limit, project=project)
            return Workers(workers=[Worker.model_validate(row) for row in rows])

    @server.tool(annotations=READS)
    async def read_steps(
        ctx: Context[Any, Any],
        attempt_id: Annotated[int, Field(ge=1, description="Number of the attempt, as check_task tells it.")],
        limit: Limit = 50,
    ) -> Steps:
        """The steps of one try at a task, in order, with their scores."""
        async with connect(ctx) as client:
            rows = (await client.list_steps(attempt_id, limit=limit))["results"]
            return Steps(steps=[StepScores.model_validate(row) for row in rows])

    @server.tool(annotations=READS)
    async def list_adapters(
        ctx: Context[Any, Any], project: ProjectSlug = "", worker: str = "", limit: Limit = 20
    ) -> Adapters:
        """What was learnt: trained versions of the workers, newest first, and what became of each."""
        async with connect(ctx) as client:
            rows = await read_rows(client.list_adapters, limit, project=project, worker=worker)
            return Adapters(adapters=[Adapter.model_validate(row) for row in rows])

    @server.tool(annotations=READS)
    async def list_runs(
        ctx: Context[Any, Any],
        project: ProjectSlug = "",
        worker: str = "",
        state: Literal["queued", "running", "paused", "succeeded", "failed", "refused", "cancelled"] | None = None,
        limit: Limit = 20,
    ) -> Runs:
        """Trainings, newest first: which run, which wait and why, how they ended."""
        async with connect(ctx) as client:
            rows = await read_rows(client.list_runs, limit, project=project, worker=worker, state=state)
            return Runs(runs=[Run.model_validate(row) for row in rows])

    @server.tool(annotations=READS)
    async def list_skills(ctx: Context[Any, Any], project: ProjectSlug = "", limit: Limit = 20) -> Skills:
        """Written procedures that workers here follow."""
        async with connect(ctx) as client:
            rows = await read_rows(client.list_skills, limit, project=project, is_active=True)
            return Skills(skills=[Skill.model_validate(row) for row in rows])
