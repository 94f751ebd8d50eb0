"""Conversations over MCP: an agent reads its own, in words."""

from asgiref.sync import sync_to_async

from apps.accounts.models import Project
from apps.feedback.models import Feedback
from apps.inference.models import Exchange, Session
from tentalis.mcp.sessions import INTERNAL_MARK
from tests.mcp.conftest import Open
from tests.mcp.test_tools import call, refused


def make_sessions(project: Project) -> list[Session]:
    """Of the agent with two exchanges, the second stored behind the first; and of another agent."""
    mine = Session.objects.create(project=project, key="mine", agent="agent:agent", worker_name="claw")
    other = Session.objects.create(project=project, key="other", agent="agent:another")
    first = Exchange.objects.create(
        project=project,
        session=mine,
        agent="agent:agent",
        model="claw",
        messages=[{"role": "user", "content": "Hello."}],
        text="Hi.",
    )
    Exchange.objects.create(
        project=project,
        session=mine,
        agent="agent:agent",
        model="claw",
        adapter_name="claw@v2-ab",
        turn="side",
        parent=first,
        shared_messages=2,
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Refund it."}]},
            {"role": "user", "content": f"{INTERNAL_MARK} clock: 12:00"},
        ],
        text="Done.",
    )
    return [mine, other]


async def test_a_session_is_read_in_words(open_client: Open, agents_token: str, shop: Project) -> None:
    mine, other = await sync_to_async(make_sessions)(shop)
    async with open_client(agents_token) as client:
        listed = await call(client, "list_sessions")
        assert [row["key"] for row in listed["sessions"]] == ["mine"]
        report = await call(client, "read_session", key="mine")
        assert (report["session"]["id"], report["session"]["worker"]) == (mine.pk, "claw")
        said = [(row["said"], row["text"], row["turn"], row["adapter"]) for row in report["exchanges"]]
        assert said == [("Hello.", "Hi.", "main", None), ("Refund it.", "Done.", "side", "claw@v2-ab")]
        last = await call(client, "read_session", session_id=mine.pk, limit=1)
        assert [row["text"] for row in last["exchanges"]] == ["Done."]
        assert "not_found" in await refused(client, "read_session", session_id=other.pk)
        assert "found 0" in await refused(client, "read_session", key="other")
        assert "one of them" in await refused(client, "read_session")


def make_talk(project: Project) -> tuple[Session, Exchange]:
    """Of the agent: a question with its answer, and the person's next words, as fast as a script writes them down."""
    Project.objects.filter(pk=project.pk).update(session_policy={"fastest_s": 0})
    session = Session.objects.create(project=project, key="judged", agent="agent:agent", worker_name="claw")
    said: list[dict[str, str]] = []
    for words, answer in (("Refund order 17.", "Order 71 is refunded."), ("And order 18?", "Done.")):
        said.append({"role": "user", "content": words})
        exchange = Exchange.objects.create(
            project=project,
            session=session,
            agent="agent:agent",
            worker_name="claw",
            model="m",
            messages=said,
            text=answer,
        )
        said = [*said, {"role": "assistant", "content": answer}]
    first = session.exchanges.order_by("id").first()
    assert first is not None
    assert first != exchange
    return session, first


async def test_what_a_person_said_of_an_answer_is_kept_on_its_turn(
    open_client: Open, agents_token: str, shop: Project
) -> None:
    _, first = await sync_to_async(make_talk)(shop)
    async with open_client(agents_token) as client:
        of_first = await call(client, "give_feedback", exchange_id=first.pk, score=0.0, text="Wrong order.")
        of_last = await call(client, "give_feedback", session_id="judged", score=1.0)
        by_answer = await call(client, "give_feedback", exchange_id=f"msg_{first.public_id.hex}", text="Really.")
        unknown = await refused(client, "give_feedback", session_key="judged", hint="Look twice.", score=1.0)
        assert "has no argument hint, session_key; it takes" in unknown
        worlds = next(tool for tool in (await client.list_tools()).tools if tool.name == "submit_task")
        assert worlds.input_schema["additionalProperties"] is False
    assert by_answer["task"] == of_first["task"]
    assert of_first["task"] != of_last["task"]
    kept = await sync_to_async(lambda: list(Feedback.objects.order_by("id").select_related("task")[:2]))()
    assert [(one.pk, one.score, one.text) for one in kept] == [
        (of_first["id"], 0.0, "Wrong order."),
        (of_last["id"], 1.0, ""),
    ]
    assert [one.task.prompt for one in kept] == ["Refund order 17.", "And order 18?"]
    assert [one.source for one in kept] == ["outside", "outside"]
