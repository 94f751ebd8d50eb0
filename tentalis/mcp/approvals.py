"""Tools of a supervised agent: it asks before it acts."""

from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tentalis.mcp.connection import Connect
from tentalis.mcp.shapes import Proposal
from tentalis.mcp.tasks import ADDS, READS, TaskId, WaitS


def add_approval_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""

    @server.tool(annotations=ADDS)
    async def propose_action(
        ctx: Context[Any, Any],
        task_id: TaskId,
        kind: Literal["tool", "message", "answer"],
        tool: Annotated[str, Field(description="Of kind tool: its name.")] = "",
        arguments: Annotated[dict[str, Any] | None, Field(description="Of kind tool.")] = None,
        text: Annotated[str, Field(description="Of kind message or answer.")] = "",
        step_index: Annotated[int | None, Field(ge=0, description="Which step of the work it would be.")] = None,
        why: Annotated[str, Field(description="What led here, for the person who decides.")] = "",
        risk: Annotated[str, Field(description="What may go wrong.")] = "",
    ) -> Proposal:
        """Ask whether an action may be done. Do nothing before `outcome` says so."""
        if kind == "tool":
            if not tool or text:
                raise ToolError("kind tool wants `tool` and `arguments`, and no `text`")
            action: dict[str, Any] = {"kind": kind, "tool": tool, "arguments": arguments or {}}
        else:
            if not text or tool or arguments:
                raise ToolError(f"kind {kind} wants `text` alone")
            action = {"kind": kind, "text": text}
        async with connect(ctx) as client:
            proposal = await client.propose(
                task=task_id, action=action, step_index=step_index, context=why or None, risk=risk or None
            )
            return Proposal.model_validate(proposal)

    @server.tool(annotations=READS)
    async def check_proposal(
        ctx: Context[Any, Any], proposal_id: Annotated[int, Field(ge=1)], wait_s: WaitS = 20
    ) -> Proposal:
        """The word on a proposal; with wait_s it answers as soon as there is one."""
        async with connect(ctx) as client:
            return Proposal.model_validate(await client.get_proposal(proposal_id, wait_s=wait_s or None))
