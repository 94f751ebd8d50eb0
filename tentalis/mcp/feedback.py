"""Tools for what people say of the work."""

from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tentalis.mcp.connection import Connect
from tentalis.mcp.shapes import Feedback
from tentalis.mcp.tasks import ADDS, TaskId


def add_feedback_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""

    @server.tool(annotations=ADDS)
    async def give_feedback(
        ctx: Context[Any, Any],
        task_id: TaskId,
        score: Annotated[float | None, Field(ge=0, le=1, description="Only if the person gave one.")] = None,
        text: Annotated[str, Field(max_length=20_000, description="What the person said, in their words.")] = "",
        edited_answer: Annotated[str, Field(description="What would have been right.")] = "",
        preferred_attempt: Annotated[int | None, Field(ge=0, le=63, description="Index of the best attempt.")] = None,
    ) -> Feedback:
        """Pass on what a person said of a task's answer: a score, words, or both. The worker learns from it."""
        if score is None and not text and not edited_answer and preferred_attempt is None:
            raise ToolError("wanted a score, words, a better answer or the best attempt; found none")
        said: dict[str, Any] = {"score": score, "text": text, "edited_answer": edited_answer}
        given = {name: value for name, value in said.items() if value not in ("", None)}
        if preferred_attempt is not None:
            given["preferred_attempt"] = preferred_attempt
        async with connect(ctx) as client:
            return Feedback.model_validate(await client.give_task_feedback(task_id, **given))
