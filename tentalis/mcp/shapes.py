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


class Review(Shape):
    """A place for one judgement of a task."""

    id: int
    project: str
    task: int
    audience: str = Field(description="human or ai: who is to judge it.")
    purpose: str
    state: str
    priority: float = Field(description="How much is learned from judging it, in [0, 1].")
    claimed_by: str | None = None
    lease_until: str | None = Field(None, description="Until when it is theirs.")


class Reviews(Shape):
    """Some reviews."""

    reviews: list[Review]


class Answered(Shape):
    """One answer that is to be judged."""

    id: int
    index: int = Field(description="Its place, by which it is preferred.")
    state: str
    answer: str
    error: str


class Claimed(Shape):
    """A review that is yours now, and what is to be judged; all null: nothing waits."""

    review: Review | None = None
    task: Task | None = None
    attempts: list[Answered] = Field(default_factory=list)


class StepWord(BaseModel):
    """A word on one step, or on an attempt as a whole."""

    model_config = ConfigDict(extra="forbid")

    attempt: int = Field(ge=0, description="Index of the attempt.")
    index: int | None = Field(None, ge=0, description="Of the step; null: of the whole attempt.")
    score: float | None = Field(None, ge=0, le=1)
    comment: str | None = None


class Worker(Shape):
    """Who does tasks."""

    id: int
    project: str
    name: str
    kind: str
    base_model: str
    adapter: str | None = Field(description="Which trained version serves; null: the base model.")
    is_active: bool


class Workers(Shape):
    """Some workers."""

    workers: list[Worker]


class StepScore(Shape):
    """What one scorer said of a step."""

    scorer: str
    score: float | None = Field(description="In [0, 1]; null: it was not scored, for `reason`.")
    reason: str = ""


class StepScores(Shape):
    """One step of a try."""

    index: int
    kind: str
    text: str
    tool_name: str
    tool_result: str
    scores: list[StepScore]


class Steps(Shape):
    """Some steps, in order."""

    steps: list[StepScores]


class Adapter(Shape):
    """A trained version of a worker."""

    id: int
    project: str
    worker: str
    name: str
    version: int
    parent: str | None
    run: int | None
    state: str
    suspicion: str = ""
    created_at: str


class Adapters(Shape):
    """Some adapters, newest first."""

    adapters: list[Adapter]


class Run(Shape):
    """A training."""

    id: int
    project: str
    worker: str
    state: str
    waiting_reason: str = ""
    failure: str = ""
    started_at: str | None
    finished_at: str | None


class Runs(Shape):
    """Some trainings, newest first."""

    runs: list[Run]


class Skill(Shape):
    """A written procedure."""

    id: int
    project: str
    name: str
    version: int
    description: str
    body: str


class Skills(Shape):
    """Some skills."""

    skills: list[Skill]
