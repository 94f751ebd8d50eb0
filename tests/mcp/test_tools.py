"""An agent's day over MCP: it finds its work, hands it in, passes on what was said, and asks before it acts."""

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from mcp import Client

from apps.accounts.models import Project, Role
from apps.accounts.rights import ROLE_RIGHTS
from apps.accounts.tokens import create_token
from apps.feedback.models import Feedback, Review
from apps.supervision.models import Proposal
from apps.tasks.models import Attempt, Step, Task
from apps.workers.models import Worker
from tests.factories import make_project, make_task, make_user
from tests.mcp.conftest import Open, each_transport

SUPERVISED = {"tools": ["refund"], "except_tools": [], "messages": False, "answers": False, "deadline_s": 300}


async def call(client: Client, name: str, /, **arguments: Any) -> Any:
    """The typed answer of a tool that is expected to work."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client: Client, name: str, /, **arguments: Any) -> str:
    """The words of a tool that is expected to refuse."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, result
    return str(result.content[0].text)  # type: ignore[union-attr]


async def test_every_tool_says_what_it_wants_and_gives(open_client: Open, agents_token: str) -> None:
    async with open_client(agents_token) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "give_feedback" in (client.instructions or "")
    assert len(tools) >= 20
    assert {"submit_task", "check_task", "list_tasks", "submit_result", "give_feedback", "propose_action"} <= set(tools)
    for tool in tools.values():
        assert tool.description, tool.name
        assert tool.output_schema, tool.name
        assert tool.output_schema["properties"], tool.name
        assert tool.annotations is not None, tool.name
        assert tool.annotations.read_only_hint is tool.name.startswith(("check", "list", "read", "whoami")), tool.name


@each_transport
async def test_a_task_is_given_done_and_judged(open_client: Open, agents_token: str, shop: Project) -> None:
    async with open_client(agents_token) as client:
        assert (await call(client, "whoami"))["memberships"] == [{"project": "shop", "role": "agent"}]
        task = await call(client, "submit_task", prompt="Refund order 17.", worker="claw", metadata={"a": [1]})
        assert (task["project"], task["worker"], task["state"]) == ("shop", "claw", "queued")
        waiting = await call(client, "list_tasks", state="queued", worker="claw")
        assert [row["id"] for row in waiting["tasks"]] == [task["id"]]
        steps = [{"text": "Looked it up.", "kind": "call", "tool_name": "lookup", "tool_result": "found"}]
        attempt = await call(client, "submit_result", task_id=task["id"], answer="Done.", steps=steps)
        report = await call(client, "check_task", task_id=task["id"])
        assert (report["task"]["state"], report["is_settled"]) == ("scoring", False)
        assert [row["id"] for row in report["attempts"]] == [attempt["id"]]
        said = await call(client, "give_feedback", task_id=task["id"], score=0.25, text="Wrong order.")
        cancelled = await call(client, "cancel_task", task_id=task["id"])
        assert (cancelled["state"], said["score"]) == ("cancelled", 0.25)
        assert (await call(client, "check_task", task_id=task["id"], wait_s=25))["is_settled"]
    kept = await sync_to_async(Attempt.objects.prefetch_related("steps").get)()
    assert [step.tool_result for step in kept.steps.all()] == ["found"]
    given = await sync_to_async(Feedback.objects.get)()
    assert (given.source, given.text) == (Feedback.Source.OUTSIDE, "Wrong order.")


async def test_waiting_ends_when_the_state_changes(open_client: Open, agents_token: str, shop: Project) -> None:
    task = await sync_to_async(make_task)(shop)
    async with open_client(agents_token) as client, open_client(agents_token) as other:
        waiting = asyncio.create_task(call(client, "check_task", task_id=task.pk, wait_s=25))
        at_once = await call(other, "check_task", task_id=task.pk, wait_s=25, seen="working")
        assert at_once["task"]["state"] == "queued", "another than the one seen is not waited for"
        await call(other, "cancel_task", task_id=task.pk)
        report = await waiting
    assert report["task"]["state"] == "cancelled"


async def test_what_is_refused_says_why(open_client: Open, agents_token: str, shop: Project) -> None:
    hidden = await sync_to_async(lambda: make_task(make_project("else")))()
    async with open_client(agents_token) as client:
        nobody = await refused(client, "submit_task", prompt="Hello.", worker="nobody")
        assert "no worker 'nobody'" in nobody, nobody
        several = await refused(client, "submit_task", prompt="Hello.")
        assert "name the worker" in several
        for tool, arguments in (
            ("check_task", {}),
            ("cancel_task", {}),
            ("submit_result", {"answer": "mine"}),
            ("give_feedback", {"text": "mine"}),
        ):
            assert "not_found" in await refused(client, tool, task_id=hidden.pk, **arguments), tool
        assert "seen" in await refused(client, "check_task", task_id=1, seen="asleep")
        assert "found none" in await refused(client, "give_feedback", task_id=1)
        assert "one of them; found 2" in await refused(client, "give_feedback", task_id=1, session_id=1, text="x")
        for about in ("session_id", "exchange_id"):
            assert "not_found" in await refused(client, "give_feedback", text="x", **{about: 987_654})
        assert "less than or equal to 1" in await refused(client, "give_feedback", task_id=1, score=7)
        assert "no `text`" in await refused(client, "propose_action", task_id=1, kind="tool", text="x")
    assert await sync_to_async(Task.objects.count)() == 1


async def test_a_supervised_agent_asks_and_is_told(open_client: Open, agents_token: str, shop: Project) -> None:
    await sync_to_async(Worker.objects.filter(name="claw").update)(supervision=SUPERVISED | {"on_timeout": "reject"})
    async with open_client(agents_token) as client:
        task = await call(client, "submit_task", prompt="Refund order 17.", worker="claw")
        free = await call(client, "propose_action", task_id=task["id"], kind="tool", tool="lookup")
        assert (free["outcome"], free["permitted"]["tool"]) == ("go_on", "lookup")
        asked = await call(
            client,
            "propose_action",
            task_id=task["id"],
            kind="tool",
            tool="refund",
            arguments={"order": 17},
            why="They paid twice.",
            risk="Money is gone.",
        )
        assert asked["outcome"] == "wait"
        assert (await call(client, "check_proposal", proposal_id=asked["id"], wait_s=0))["permitted"] is None
    row = await sync_to_async(Proposal.objects.get)(pk=asked["id"])
    assert (row.context, row.risk) == ("They paid twice.", "Money is gone.")


async def test_a_reviewer_takes_judges_and_passes_over(open_client: Open, shop: Project) -> None:
    def prepare() -> tuple[str, list[int]]:
        bob = make_user("bob")
        token = create_token(user=bob, name="t", scopes=ROLE_RIGHTS[Role.OWNER], by=bob, project=shop)[1]
        found = []
        for number in range(2):
            task = make_task(shop, state=Task.State.IN_REVIEW, prompt=f"Greet {number}.")
            attempt = Attempt.objects.create(task=task, index=0, worker=task.worker, answer="hi", text="hi", score=0.75)
            Step.objects.create(attempt=attempt, index=0, kind="step", text="so")
            found.append(Review.objects.create(project=shop, task=task, audience=Review.Audience.HUMAN).pk)
        return token, found

    token, reviews = await sync_to_async(prepare)()
    async with open_client(token) as client:
        assert [row["id"] for row in (await call(client, "list_reviews"))["reviews"]] == reviews
        claimed = await call(client, "claim_review")
        assert (claimed["review"]["id"], claimed["task"]["prompt"]) == (reviews[0], "Greet 0.")
        assert (claimed["task"]["score"], claimed["attempts"][0]["answer"]) == (None, "hi")
        assert "score" not in claimed["attempts"][0]
        steps = await call(client, "read_steps", attempt_id=claimed["attempts"][0]["id"])
        assert [step["text"] for step in steps["steps"]] == ["so"]
        assert "found none" in await refused(client, "submit_review", review_id=reviews[0])
        words = [{"attempt": 0, "index": 0, "score": 0, "comment": "No."}]
        said = await call(client, "submit_review", review_id=reviews[0], score=0.25, text="Dry.", steps=words)
        assert (said["score"], said["text"]) == (0.25, "Dry.")
        again = await call(client, "claim_review", review_id=reviews[1])
        released = await call(client, "release_review", review_id=again["review"]["id"])
        assert released["claimed_by"] is None
        skipped = await call(client, "skip_review", review_id=reviews[1], reason="I cannot tell.", then="nobody")
        assert skipped["state"] == "skipped"
        assert await call(client, "claim_review") == {"review": None, "task": None, "attempts": []}
        for tool, key in (("list_workers", "workers"), ("list_adapters", "adapters"), ("list_runs", "runs")):
            assert key in await call(client, tool), tool
        assert {row["name"] for row in (await call(client, "list_workers"))["workers"]} == {"echo", "claw"}
        assert (await call(client, "list_skills"))["skills"] == []


@each_transport
async def test_a_bad_token_is_told_nothing(open_client: Open, shop: Project) -> None:
    async with open_client("tnt_wrong") as client:
        for tool in ("whoami", "list_tasks"):
            assert "this token is not valid" in await refused(client, tool), tool
