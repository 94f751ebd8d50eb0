"""Tools for what people say of the work."""

from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tentalis.core.field_limits import MAX_JUDGEMENT_CHARS
from tentalis.mcp.connection import Connect
from tentalis.mcp.shapes import Feedback
from tentalis.mcp.tasks import ADDS

Number = Annotated[int | None, Field(ge=1)]
Session = Annotated[int | str | None, Field(description="Its number, or the key that its agent named it by.")]
Exchange = Annotated[
    int | str | None,
    Field(description="Its number, its public id, or the id of the answer's body: chatcmpl-…, msg_…, resp_…."),
]


def add_feedback_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""

    @server.tool(annotations=ADDS)
    async def give_feedback(
        ctx: Context[Any, Any],
        task_id: Number = None,
        session_id: Session = None,
        exchange_id: Exchange = None,
        score: Annotated[float | None, Field(ge=0, le=1, description="Only if the person gave one.")] = None,
        text: Annotated[str, Field(max_length=MAX_JUDGEMENT_CHARS, description="What the person said, in words.")] = "",
        edited_answer: Annotated[str, Field(description="What would have been right.")] = "",
        preferred_attempt: Annotated[int | None, Field(ge=0, le=63, description="Of a task: its best attempt.")] = None,
    ) -> Feedback:
        """Pass on what a person said of an answer: a score, words, or both. The worker learns from it.

        Say what it is about: a task, a session (its last answer) or one exchange of a session.
        """
        about = [one for one in (task_id, session_id, exchange_id) if one not in (None, "")]
        if len(about) != 1:
            raise ToolError(f"wanted task_id, session_id or exchange_id, one of them; found {len(about)}")
        if score is None and not text and not edited_answer and preferred_attempt is None:
            raise ToolError("wanted a score, words, a better answer or the best attempt; found none")
        said = {"score": score, "text": text or None, "edited_answer": edited_answer or None}
        said |= {"preferred_attempt": preferred_attempt}
        given = {name: value for name, value in said.items() if value is not None}
        async with connect(ctx) as client:
            if task_id is not None:
                row = await client.give_task_feedback(task_id, **given)
            elif session_id:
                row = await client.give_session_feedback(session_id, **given)
            else:
                row = await client.give_exchange_feedback(exchange_id or "", **given)
            return Feedback.model_validate(row)
