"""Tools for who judges the work of others: find it, take it, say what one thinks, pass it on."""

import asyncio
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tentalis.client import AsyncClient
from tentalis.core.field_limits import MAX_JUDGEMENT_CHARS, MAX_REASON_CHARS, MAX_STEPS_SPOKEN_OF
from tentalis.mcp.connection import Connect, choose_project, read_rows
from tentalis.mcp.shapes import Answered, Claimed, Feedback, Review, Reviews, StepWord, Task
from tentalis.mcp.tasks import ADDS, READS, Limit, ProjectSlug

ReviewId = Annotated[int, Field(ge=1, description="Number of the review.")]


def add_review_tools(server: MCPServer[Any], connect: Connect) -> None:
    """Register them."""

    @server.tool(annotations=READS)
    async def list_reviews(
        ctx: Context[Any, Any],
        project: ProjectSlug = "",
        state: Literal["open", "closed", "skipped", "expired"] = "open",
        worker: str = "",
        limit: Limit = 20,
    ) -> Reviews:
        """Work that waits for a judgement, longest waiting first."""
        async with connect(ctx) as client:
            rows = await read_rows(client.list_reviews, limit, project=project, state=state, worker=worker)
            return Reviews(reviews=[Review.model_validate(row) for row in rows])

    @server.tool(annotations=ADDS)
    async def claim_review(
        ctx: Context[Any, Any],
        review_id: Annotated[int | None, Field(ge=1, description="This one; null: the next that nobody has.")] = None,
        project: ProjectSlug = "",
    ) -> Claimed:
        """Take a review for ten minutes: the task and its answers. Judge it with submit_review, or give it back."""
        async with connect(ctx) as client:
            if review_id is not None:
                row = await client.claim_review(review_id)
            else:
                row = await client.claim_next_review(project=await choose_project(client, project))
            return await _read_claimed(client, row) if row else Claimed()

    @server.tool(annotations=ADDS)
    async def release_review(ctx: Context[Any, Any], review_id: ReviewId) -> Review:
        """Give a review that you took back to the others."""
        async with connect(ctx) as client:
            return Review.model_validate(await client.release_review(review_id))

    @server.tool(annotations=ADDS)
    async def submit_review(
        ctx: Context[Any, Any],
        review_id: ReviewId,
        score: Annotated[float | None, Field(ge=0, le=1, description="Of the work as a whole.")] = None,
        text: Annotated[str, Field(max_length=MAX_JUDGEMENT_CHARS, description="What was good or bad, in words.")] = "",
        preferred_attempt: Annotated[int | None, Field(ge=0, le=63, description="Index of the best answer.")] = None,
        none_good: Annotated[bool, Field(description="Even the best is not good enough.")] = False,
        edited_answer: Annotated[str, Field(description="What would have been right.")] = "",
        hint_text: Annotated[str, Field(description="What the worker should learn from it.")] = "",
        steps: Annotated[
            list[StepWord], Field(max_length=MAX_STEPS_SPOKEN_OF, description="Words on single steps.")
        ] = [],  # noqa: B006
    ) -> Feedback:
        """Judge the work and close the review. The worker learns from it: never make up a judgement."""
        said: dict[str, Any] = {"score": score, "preferred_attempt": preferred_attempt}
        said |= {"text": text, "edited_answer": edited_answer, "hint_text": hint_text}
        said |= {"none_good": none_good or None, "steps": [one.model_dump(exclude_none=True) for one in steps]}
        given = {name: value for name, value in said.items() if value not in (None, "", [])}
        if not given:
            raise ToolError("wanted a score, words, the best attempt, a better answer or words on steps; found none")
        async with connect(ctx) as client:
            return Feedback.model_validate(await client.give_feedback(review_id, **given))

    @server.tool(annotations=ADDS)
    async def skip_review(
        ctx: Context[Any, Any],
        review_id: ReviewId,
        reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_CHARS)],
        then: Annotated[
            Literal["nobody", "later", "others", "expert"],
            Field(description="Who gets it: nobody (it is closed), you later, the others, or an expert."),
        ] = "others",
    ) -> Review:
        """Pass a review over that you cannot judge."""
        async with connect(ctx) as client:
            return Review.model_validate(await client.skip_review(review_id, reason=reason, then=then))


async def _read_claimed(client: AsyncClient, row: dict[str, Any]) -> Claimed:
    """Without what scorers said: whoever judges is not told before."""
    task, attempts = await asyncio.gather(
        client.get_task(row["task"]), read_rows(client.list_attempts, 64, task_id=row["task"])
    )
    return Claimed(
        review=Review.model_validate(row),
        task=Task.model_validate({**task, "score": None}),
        attempts=sorted((Answered.model_validate(one) for one in attempts), key=lambda one: one.index),
    )
