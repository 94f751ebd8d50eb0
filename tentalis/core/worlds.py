"""What a world gives to the agents that work in it, and what an agent hands back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from tentalis.core import hints
from tentalis.core.canon import content_hash
from tentalis.core.checked import Number
from tentalis.core.conversations.turns import read_text
from tentalis.core.field_limits import MAX_PROMPT_CHARS
from tentalis.core.scoring.verdicts import VerdictQuestion
from tentalis.core.token_use import NOTHING_USED, TokenUse

SEEDS_PER_PANEL: Final = 1_000_003
"""So far apart are the seeds of two panels' first items."""


class StateLostError(Exception):
    """What held an episode's state is gone: nothing can be said of who worked in it, and it is played anew."""


@dataclass(frozen=True, kw_only=True)
class DraftStep:
    """One step of an answer.

    Args:
        kind: step, call, answer, or other (text outside every tag).
        token_start, token_end: span [start, end) in the draft's token_ids; None without exact tokens.
        token_overlap: characters before the step that stand in one token with its first; that token, the last before
            token_start, is not the step's. 0 where a token begins with the step; None where that is not known.
        tool_name, tool_result: of a call.
    """

    kind: str
    text: str
    token_start: int | None = None
    token_end: int | None = None
    tool_name: str = ""
    tool_result: str = ""
    token_overlap: int | None = None


@dataclass(frozen=True, kw_only=True)
class AttemptDraft:
    """What came of one try at a task, before it is a row.

    Args:
        text: everything the agent wrote, tool results included; answer: its last word.
        prompt_token_ids: (P,); token_ids, logprobs, sampled: (T,) each: exact tokens; empty where the server gave none.
        top: (T,) the likeliest tokens at each place with their log-probs, most likely first, () where not sampled;
            empty where they were not asked for.
        served_by: what the server says answered: an adapter's name, or the base model's.
        ended: whether it stopped by itself (and was not cut off).
        error: why there is no answer; "" when there is one.
        is_lost: the model could not be asked, or what it did was lost: the error says nothing of the model.
        exchange_ids: calls it consists of that a gateway has stored already, in order: nothing of it is recorded again.
        unfit: why its tokens may train nothing; "" where they may.
        use: tokens as the server counted them, for what they cost.
        sampling: the temperature it was asked for at and every other knob; empty where nobody said.
        request: what it was asked with beside the messages, as its prompt was rendered with it: tools.
    """

    text: str = ""
    answer: str = ""
    steps: Sequence[DraftStep] = ()
    messages: Sequence[Mapping[str, Any]] = ()
    prompt_token_ids: Sequence[int] = ()
    token_ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    sampled: Sequence[bool] = ()
    top: Sequence[Sequence[tuple[int, float]]] = ()
    served_by: str = ""
    finish_reason: str = ""
    ended: bool = True
    tool_calls: Sequence[Mapping[str, Any]] = ()
    elapsed_s: float | None = None
    error: str = ""
    is_lost: bool = False
    exchange_ids: Sequence[int] = ()
    unfit: str = ""
    use: TokenUse = NOTHING_USED
    sampling: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What is known of an answer without asking anybody. It is found out once, and stored with the attempt.

    Args:
        outcome: in [0, 1]; None where it could not be run: then `infrastructure` says why.
        step_scores: one entry a step of the draft, in [0, 1]; None where the world cannot tell.
        step_reasons: why, one entry a step; "" where the score is 1.
        missing_steps: steps a whole answer would have had beyond those.
        details: facts that were measured, by the names scorers know them by: tests_passed and tests_run, valid_actions
            and actions, changed_lines and expected_lines, expected_steps.
        checks: what each check said, as JSON.
        grader: who says so: a world with its version and the hash of what it is made of.
        infrastructure: why it could not be run. The answer is neither right nor wrong then, and rewards nobody.
        untold: why it is neither right nor wrong though it was looked at: trying that once more says the same.
    """

    outcome: float | None
    step_scores: Sequence[float | None] = ()
    step_reasons: Sequence[str] = ()
    missing_steps: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[Mapping[str, Any]] = ()
    grader: str = ""
    infrastructure: str = ""
    untold: str = ""

    def to_json(self) -> dict[str, Any]:
        """Every field that says something."""
        return {name: value for name, value in vars(self).items() if value or name == "outcome"}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Verification":
        return cls(**stored)


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """What a turn's model wants done.

    Args:
        arguments: as the model wrote them: JSON of the tool's schema, if it kept to that.
        fault: why it could not be read; the model is told so, and nothing is done. "" where it could.
    """

    id: str
    name: str
    arguments: str = "{}"
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the world says to a call.

    Args:
        ends: the episode is over with it.
        details: facts that were measured, as JSON; `mark`: where in the screenshot the call was done, [x, y] in pixels.
        screenshot: a PNG of what the call was done on, for people who look at the episode; b"" for none.
    """

    text: str
    ends: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    screenshot: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Solution:
    """One way through a task, as an agent would go it.

    Args:
        calls: in a world with turns: made one behind the other, one a turn.
        draft: its last word; in a world without turns its whole answer, steps included.
    """

    calls: Sequence[ToolCall] = ()
    draft: AttemptDraft = AttemptDraft(text="Done.", answer="Done.")


@dataclass(frozen=True, kw_only=True)
class EpisodeLimits:
    """How much an episode may take. One that reaches a limit ends as answered, with what there is.

    Args:
        tokens: that its model writes, in all turns.
        seconds: of playing, waits for its model included.
        usd: paid for its calls; None: no limit.
        output_chars: of one observation that its model is shown; the rest is kept, and not shown.
        bad_calls: that cannot be read, or name no tool, in a row.
    """

    turns: int = 30
    tokens: int = 32_000
    seconds: float = 1_800.0
    usd: float | None = None
    output_chars: int = 8_000
    bad_calls: int = 3


@dataclass(frozen=True, kw_only=True)
class TurnAsked:
    """An episode whose model is to say what it does next.

    Args:
        messages: the whole conversation so far, in the chat API's form, what its tools said included.
        prompt_token_ids, token_ids: what the turn before was given and what it gave, token for token: what is new in
            `messages` stands behind both. Empty at the first turn, where other tools are offered than before, and where
            the server told no tokens.
        seed: for sampling this turn; None: any.
        turn: from 0.
    """

    messages: Sequence[Mapping[str, Any]]
    prompt_token_ids: Sequence[int] = ()
    token_ids: Sequence[int] = ()
    seed: int | None = None
    turn: int = 0


@dataclass(frozen=True, kw_only=True)
class TurnDraft:
    """What a model said in a turn.

    Args:
        draft: this one call to its model, and nothing of those before.
        calls: what it wants done; none: `draft.answer` is its last word.
        messages: what the turn adds to the conversation, usually the one message of the model.
    """

    draft: AttemptDraft
    calls: Sequence[ToolCall] = ()
    messages: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, kw_only=True)
class PanelItem:
    """One held-out task: never trained on.

    Args:
        checks: what else says whether an answer is right, as data; None for nothing.
        messages: the whole conversation that the prompt ends; () where there is no more than the prompt.
        weight: how much it counts beside other items, above 0.
        category: what figures are told apart by; "" for none.
    """

    prompt: str
    reference: Any = None
    checks: Any = None
    seed: int = 0
    messages: Sequence[Mapping[str, Any]] = ()
    weight: float = 1.0
    category: str = ""

    @classmethod
    def placed(cls, prompt: str, *, seed: int, place: int) -> "PanelItem":
        """One of a panel that was drawn with a seed: its own follows from that and from where it stands."""
        return cls(prompt=prompt, seed=seed * SEEDS_PER_PANEL + place)

    @property
    def told(self) -> str:
        """What it asks, behind what was said before, for who compares answers to it."""
        told = [one for one in self.messages if one.get("role") in {"user", "assistant", "tool"}]
        said = [f"{one['role']}: {text}" for one in told if (text := read_text(one))]
        return "\n\n".join(said)[-MAX_PROMPT_CHARS:] if len(said) > 1 else self.prompt


@dataclass(frozen=True)
class HintGrammar:
    """The hints that a world's models were taught to read, where they read no others.

    Args:
        read: those in a text, as one text; "" where it holds none.
        example: for who wrote none of them.
    """

    read: Callable[[str], str]
    example: str


class ItemRubric(Protocol):
    """A rubric whose items a world finds in an attempt by itself, without asking a model."""

    def weigh(self, rubric: str) -> dict[str, float]:
        """Item -> its weight, as a project's rubric says it; ValueError where it cannot be read."""

    def find(self, prompt: str, steps: Sequence[tuple[str, str]]) -> Mapping[str, float]:
        """The items that an attempt shows, in [0, 1] each; steps: (kind, text)."""

    def tell(self, prompt: str, weights: Mapping[str, float]) -> str:
        """What the weights want of a task, as a hint; "" where they want nothing in particular."""


class World:
    """One environment, and all that is its own. What a world leaves out is as in a plain conversation.

    A world that has no `tools` answers once. One with tools has turns, and a state that they change: an episode is
    `reset`, then in each turn the model's calls, `act` for each, until the model makes none and nobody has a `reply` to
    that, an observation ends it or a limit is reached; then `verify_state`, and `close`. A state is the world's own:
    nobody else looks into it.

    Attributes:
        label: what people call it; noun: what they call a task here, such as `task` or `ticket`.
        keeps_nothing: nothing of a try is left that another would find: it may be tried again, in a shadow or to
            measure a model. A world that acts outside (sends, pays, deploys) says False, and is tried for tasks alone.
        profile: scorer -> its weight, summing to 1, where a project says nothing else.
        manager: which AI manager reviews where a project's policy names none.
        grammar: of its hints; None: any words are one.
        rubric: None: a model judges a rubric's criteria.
        version: of what it does; it stands in each verification, with a hash of the world's own package.
        made_of: other modules and packages by name that decide what it does; they are in that hash too.
        limits: of an episode.
        idempotent: a call that is asked again under its key acts once: it changes its state alone, or whom it asks
            knows the key. An episode that was interrupted in a call, or has no snapshot, can go on only where this
            holds; else it is played anew.
        chance: mean outcome that who knows nothing reaches by luck, at most. Where it reaches more, the world's doctor
            objects: what is learnt there would be luck.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    noun: ClassVar[str] = "task"
    keeps_nothing: ClassVar[bool] = True
    profile: ClassVar[Mapping[str, float]] = {"prm": 0.6, "hallucination": 0.3, "effort": 0.1}
    manager: ClassVar[str] = "llm"
    grammar: ClassVar[HintGrammar | None] = None
    rubric: ClassVar[ItemRubric | None] = None
    version: ClassVar[str] = ""
    made_of: ClassVar[Sequence[str]] = ()
    limits: ClassVar[EpisodeLimits] = EpisodeLimits()
    idempotent: ClassVar[bool] = False
    chance: ClassVar[float] = 0.05

    @property
    def has_turns(self) -> bool:
        """Whether it has tools, for whichever of its tasks: then each is played turn by turn."""
        return type(self).tools is not World.tools

    @property
    def judges_states(self) -> bool:
        """Whether the state that an episode ends in says what it is worth, without a reference."""
        return type(self).verify_state is not World.verify_state

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        """What may be called as this task begins: functions with JSON schemas, as the chat API takes them."""
        return ()

    def reset(self, prompt: str, seed: int | None) -> Any:
        """The state that an episode begins with: the same for the same prompt and seed, and no other episode's.
        One that is not so is found by its hash, and its episode is played anew."""
        raise NotImplementedError(f"{self.name} has tools, and no `reset`")

    def act(self, state: Any, call: ToolCall, key: str) -> Observation:
        """Do what a call wants, and change the state. Wrong arguments are said in the observation, not raised: what is
        raised is the world's own fault, and ends the episode without a reward.

        Args:
            key: of this call in this episode, the same when it is asked again.
        """
        raise NotImplementedError(f"{self.name} has tools, and no `act`")

    @property
    def has_users(self) -> bool:
        """Whether somebody in it may have more to say to words without a call."""
        return type(self).reply is not World.reply

    def reply(self, state: Any, text: str, key: str) -> Observation | None:
        """What a user in this world says to words without a call, which may change the state as `act` may; None: the
        words were the last.

        Args:
            key: as of `act`.
        """
        return None

    def tools_now(self, prompt: str, state: Any) -> Sequence[Mapping[str, Any]]:
        """What may be called from here on, where that changes within an episode; it begins with `tools`."""
        return self.tools(prompt)

    def hash_state(self, state: Any) -> str:
        """The same for states in which everything goes on alike, and another only behind `act` and `reply`; of a state
        that is JSON, its content's."""
        return content_hash(state)

    def snapshot(self, state: Any) -> bytes | None:
        """What `restore` makes the same state of, in any process; None: it is played again from `reset`."""
        return None

    def restore(self, prompt: str, snapshot: bytes) -> Any:
        """The state that `snapshot` told of."""
        raise NotImplementedError(f"{self.name} makes snapshots, and has no `restore`")

    def close(self, state: Any) -> None:
        """Give back what the state holds: it is not used again."""

    def verify_state(self, prompt: str, reference: Any, state: Any, draft: AttemptDraft) -> Verification | None:
        """Check an episode at its end; `draft`: all its turns as one try. As `verify`, which knows no state.

        Of its calls `draft` has those that `act` was asked to make, in order, and those that could not be read, whose
        result begins with "error: "; none that others refused.

        Raises:
            StateLostError, SandboxError: its state is gone.
        """
        return self.verify(prompt, reference, draft)

    def find_obstacle(self) -> str:
        """What this machine lacks so that nothing can be played here, to follow its name; "" for nothing. Such a world
        is offered to nobody."""
        return ""

    def refuse_agent(self, kind: "AgentKind") -> str:
        """Why a worker of this kind cannot work here, to follow its name; "" where it can."""
        return ""

    def say_limits(self) -> Sequence[str]:
        """What `check_prompt` asks for, a line each, for people who write a task; none where any text will do."""
        return ()

    def draw_prompt(self, rng: Random) -> str | None:
        """A task of this world that may be trained on, made up anew at each call; None where it can make none up."""
        return None

    @property
    def takes_tasks(self) -> bool:
        """Whether its tasks are added where it is installed: before that there are none."""
        return type(self).list_tasks is not World.list_tasks

    def list_tasks(self, *, held_out: bool) -> Sequence[str]:
        """The tasks that were added to be measured on, or to be trained on; () where it makes its own up."""
        return ()

    def check_prompt(self, prompt: str) -> None:
        """Raise ValueError saying what was wanted and found where the prompt cannot be a task here."""
        if not prompt.strip():
            raise ValueError("prompt must hold some text, found none")
        if len(prompt) > MAX_PROMPT_CHARS:
            raise ValueError(f"prompt must have at most {MAX_PROMPT_CHARS} characters, found {len(prompt)}")

    def check_reference(self, reference: Any) -> None:
        """Raise ValueError saying what was wanted and found where `verify` could not use the reference."""
        if reference is not None:
            raise ValueError(f"a task of {self.name} takes no reference, found {reference!r:.80}")

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        """The conversation an agent is given."""
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        return [*system, {"role": "user", "content": prompt}]

    def call_tool(self, prompt: str, name: str, arguments: str) -> str:
        """Run a tool call; an unknown tool or bad arguments come back as words, not as an exception."""
        return f"there is no tool {name!r} here"

    def verify(self, prompt: str, reference: Any, draft: AttemptDraft) -> Verification | None:
        """Check an attempt; None where this world cannot. Raises ValueError for a reference it cannot use."""
        return None

    def solve(self, prompt: str, seed: int | None) -> Solution | None:
        """A right way through a task that begins with this seed, for who examines the world; None where it knows
        none: then nobody has shown that its tasks can be done."""
        return None

    def cheat(self, prompt: str, seed: int | None) -> Sequence[Solution]:
        """Ways to be rewarded without the work that this world knows of, beside those that its doctor tries in every
        world; each must be worth nothing."""
        return ()

    def find_rules(self, prompt: str) -> Sequence[str] | None:
        """What a manager who knows the rules says of a task; None where the world has no rule book."""
        return None

    def find_kind(self, prompt: str) -> str:
        """What tasks have in common that the same rule is learned from; "" where each is its own kind."""
        return ""

    def ask_verdict(self, prompt: str, text: str) -> VerdictQuestion | None:
        """The question whose one word judges an attempt, where its models can read no other; None: the usual one."""
        return None

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The same conversation with a hint in it, as a teacher reads it: behind the last user message.

        Raises:
            ValueError: a blank hint, or none the world's models understand.
        """
        return hints.hinted_messages(messages, hint)

    def is_held_out(self, prompt: str) -> bool:
        """Whether this prompt belongs to those that are only ever measured on, never trained on."""
        return False

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks, the same for the same seed; [] where the world has none."""
        return []

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks of every kind alike, of which those a base model can do must not be lost; [] without any."""
        return []


class Agent(Protocol):
    """A kind of worker: how it does a group of tries."""

    def work(
        self,
        *,
        prompts: Sequence[str],
        world: World,
        group_size: int,
        seeds: Sequence[int | None],
        model: str,
        greedy: bool = False,
    ) -> list[list[AttemptDraft]]:
        """Try each prompt `group_size` times.

        Args:
            model: exact name the server knows the adapter (or the base model) by; it serves every try.
            seeds: one a prompt; the same prompts with the same seeds give the same tries.
        Returns:
            One list of drafts a prompt. A try that failed is a draft with `error`.
        Raises:
            ProviderBusyError, ProviderRefusedError: nothing could be asked at all.
        """


@runtime_checkable
class TurnAgent(Protocol):
    """An agent that can work in worlds with turns: it says what is done next, and who plays does it."""

    def take_turns(
        self,
        asked: Sequence[TurnAsked],
        *,
        world: World,
        tools: Sequence[Mapping[str, Any]],
        model: str,
        greedy: bool = False,
    ) -> list[TurnDraft]:
        """The next turn of each of these episodes, asked for together.

        Args:
            tools: `world.tools` of all of them.
            model: as `Agent.work`.
        Returns:
            One a `TurnAsked`, in order. One whose model could not be asked has a draft with `error` and `is_lost`.
        Raises:
            ProviderBusyError, ProviderRefusedError: nothing could be asked at all.
        """


@dataclass(frozen=True)
class Begun:
    """A try to be finished anew from somewhere in it.

    Args:
        prompt_token_ids: (P,); token_ids, sampled: (T,) the whole try.
        size: how many of its tokens stay.
    """

    prompt: str
    prompt_token_ids: Sequence[int]
    token_ids: Sequence[int]
    sampled: Sequence[bool]
    size: int


@runtime_checkable
class FinishingAgent(Protocol):
    """An agent that can go on from the middle of a try, token for token."""

    def finish(
        self, begun: Sequence[Begun], *, world: World, n: int, seed: int, model: str
    ) -> list[list[AttemptDraft]]:
        """Finish each try n times from where it is said."""


class AnswerForm(Protocol):
    """How a kind of worker writes a try as one text, for trainers that sample by themselves.

    Attributes:
        stops: what ends a turn of its model: a tool is asked then.
    """

    stops: ClassVar[Sequence[str]]

    def find_call(self, text: str) -> tuple[str, str] | None:
        """(tool, arguments) of the call that the text so far ends in; None: no tool waits."""

    def write_result(self, result: str) -> str:
        """What a tool said, as it stands in the text."""

    def read(self, parts: Sequence[tuple[str, bool]], *, is_cut: bool) -> AttemptDraft:
        """The whole text; parts: (text, whether the model wrote it or a tool)."""


@dataclass(frozen=True, kw_only=True)
class AgentSeat:
    """What a worker gives to the agent that does its tasks.

    Args:
        client: of its model server; None where its kind asks none.
        base_model: name the server knows the base by, whose tokenizer all adapters share.
        longest_answer: tokens of an answer, where the worker's sampling does not say.
        top_k: how many of the likeliest tokens to note at each place, for what is learned from them; 0 for none.
        context_tokens: that its model takes, prompt and answer together; None: nobody knows.
    """

    client: Any
    base_model: str
    system_prompt: str
    sampling: Mapping[str, Any]
    longest_answer: int
    top_k: int
    context_tokens: int | None = None


@dataclass(frozen=True)
class FlowProgram:
    """An agent of another framework (`tentalis.plugin_process.AgentFlow`), which no process of ours imports.

    Args:
        value: `module:attribute`, as its entry point names it.
        python: that has it; "": ours.
    """

    value: str
    python: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentKind:
    """A kind of worker.

    Args:
        label, about: what people call it, and what it is for.
        make: its agent; None: who does its work is not made here.
        environment: the only one it works in; "": any.
        sampling: what may be set in a worker's sampling, and its bounds.
        longest_try: tokens of a try at most, where its worker's sampling does not say; 0: no model is asked;
            None: nobody knows.
        acts: it has tools of its own, with which a try may change something anywhere.
        base_model: name of the model it takes where the worker names none.
        recipe: the one it learns by at first.
        form: how its model writes a try as one text; None: as steps of ordinary text.
        finishes: its agent is a `FinishingAgent`.
        takes_turns: its agent is a `TurnAgent`, and can work in worlds with turns.
        through_gateway: its agent asks its model through our gateway, which chooses the adapter that answers; each try
            is a session of its own.
        flow: its agent, where that is another framework's.
    """

    name: str
    label: str
    about: str = ""
    make: Callable[[AgentSeat], Agent] | None = None
    environment: str = ""
    sampling: Mapping[str, Number] = field(default_factory=dict)
    longest_try: int | None = None
    acts: bool = False
    base_model: str = ""
    recipe: str = "chat"
    form: AnswerForm | None = None
    finishes: bool = False
    takes_turns: bool = False
    through_gateway: bool = False
    flow: FlowProgram | None = None

    @property
    def asks_model(self) -> bool:
        return self.longest_try != 0
