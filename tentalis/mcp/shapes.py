"""What the tools answer. Of a row of the REST API only what an agent can use is shown."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """Fields the platform adds later are left out, not refused."""

    model_config = ConfigDict(extra="ignore")


class Membership(Shape):
    """A project the token may be used in."""

    project: str
    role: str


class Identity(Shape):
    """Whose token this is."""

    username: str
    memberships: list[Membership]


class Task(Shape):
    """Work given to an agent."""

    id: int
    project: str
    worker: str
    environment: str
    state: str = Field(description="queued, working, scoring, in_review, learning, done, failed or cancelled.")
    prompt: str
    answer: str = Field(description="The best attempt's answer; empty while there is none.")
    score: float | None = Field(description="In [0, 1]; null while unscored.")
    failure: str = Field(description="Why it failed; empty otherwise.")
    created_at: str


class Attempt(Shape):
    """One try at a task."""

    id: int
    task: int
    index: int
    worker: str
    adapter: str | None = Field(description="Which trained version answered; null: the base model.")
    state: str
    answer: str
    error: str
    score: float | None


class TaskReport(Shape):
    """A task and the tries at it."""

    task: Task
    attempts: list[Attempt]
    is_settled: bool = Field(description="It is reviewed or ended: its answer will not change by itself any more.")


class Tasks(Shape):
    """Some tasks, newest first."""

    tasks: list[Task]


class Step(BaseModel):
    """One step of an agent's own work."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="What was thought or done.")
    kind: Literal["step", "call", "answer", "other"] = "step"
    tool_name: str = Field("", description="Of a call.")
    tool_result: str = Field("", description="Of a call.")


class Feedback(Shape):
    """A judgement that was kept."""

    id: int
    project: str
    task: int | None = None
    score: float | None
    text: str


class Session(Shape):
    """A conversation that the gateway saw."""

    id: int
    project: str
    key: str
    worker: str = ""
    created_at: str
    last_seen_at: str | None = None
    closed_at: str | None = None


class Sessions(Shape):
    """Some sessions, latest first."""

    sessions: list[Session]


class Exchange(Shape):
    """One request and its answer."""

    id: int
    turn: str = Field(description="main: the agent answered its user; side: it talked to itself.")
    model: str
    adapter: str | None = Field(None, description="Which trained version answered; null: the base model.")
    said: str = Field(description="The last thing the user, or a tool, said before it.")
    text: str = Field(description="The answer.")
    error: str = ""
    created_at: str


class SessionReport(Shape):
    """A session and its latest exchanges, oldest first."""

    session: Session
    exchanges: list[Exchange]


class Proposal(Shape):
    """An action that a person may have to allow first."""

    id: int
    task: int
    state: str
    outcome: str = Field(
        description="wait: ask again with check_proposal. go_on: do `permitted`. stop: leave it. ask_again: think "
        "again with the hint. hand_over: submit `decision.answer` as the result. fail: stop, the task has failed."
    )
    permitted: dict[str, Any] | None = Field(
        None, description="What may be done, which may differ from what was asked."
    )
    decision: dict[str, Any] = Field(default_factory=dict, description="reason, hint or answer, as the outcome has it.")
