"""What a world gives to the agents that work in it, and what an agent hands back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Protocol

from tentalis.core.token_use import NOTHING_USED, TokenUse


@dataclass(frozen=True, kw_only=True)
class DraftStep:
    """One step of an answer.

    Args:
        kind: step, call, answer, or other (text outside every tag).
        token_start, token_end: span [start, end) in the draft's token_ids; None without exact tokens.
        tool_name, tool_result: of a call.
    """

    kind: str
    text: str
    token_start: int | None = None
    token_end: int | None = None
    tool_name: str = ""
    tool_result: str = ""


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
    """

    text: str = ""
    answer: str = ""
    steps: Sequence[DraftStep] = ()
    messages: Sequence[Mapping[str, str]] = ()
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
        grader: who says so, with its version where it has one.
        infrastructure: why it could not be run. The answer is neither right nor wrong then, and rewards nobody.
    """

    outcome: float | None
    step_scores: Sequence[float | None] = ()
    step_reasons: Sequence[str] = ()
    missing_steps: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[Mapping[str, Any]] = ()
    grader: str = ""
    infrastructure: str = ""

    def to_json(self) -> dict[str, Any]:
        """Every field that says something."""
        return {name: value for name, value in vars(self).items() if value or name == "outcome"}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Verification":
        return cls(**stored)


@dataclass(frozen=True, kw_only=True)
class PanelItem:
    """One held-out task: never trained on.

    Args:
        checks: what else says whether an answer is right, as data; None for nothing.
    """

    prompt: str
    reference: Any = None
    checks: Any = None
    seed: int = 0


class World(Protocol):
    """One environment: chat, terminal, swe, gui, desk."""

    name: str
    noun: str
    """What people call a task here, such as `task` or `ticket`."""

    def say_limits(self) -> Sequence[str]:
        """What `check_prompt` asks for, a line each, for people who write a task; none where any text will do."""

    def draw_prompt(self, rng: Random) -> str | None:
        """A task of this world that may be trained on, made up anew at each call; None where it can make none up."""

    def check_prompt(self, prompt: str) -> None:
        """Raise ValueError saying what was wanted and found where the prompt cannot be a task here."""

    def check_reference(self, reference: Any) -> None:
        """Raise ValueError saying what was wanted and found where `verify` could not use the reference."""

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        """The conversation an agent is given."""

    def call_tool(self, prompt: str, name: str, arguments: str) -> str:
        """Run a tool call; an unknown tool or bad arguments come back as words, not as an exception."""

    def verify(self, prompt: str, reference: Any, draft: AttemptDraft) -> Verification | None:
        """Check an attempt; None where this world cannot."""

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The same conversation with a hint in it, as a teacher reads it."""

    def is_held_out(self, prompt: str) -> bool:
        """Whether this prompt belongs to those that are only ever measured on, never trained on."""

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks, the same for the same seed; [] where the world has none."""

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks of every kind alike, of which those a base model can do must not be lost; [] without any."""


class Agent(Protocol):
    """A kind of worker: how it does a group of tries."""

    longest_try: ClassVar[int | None]
    """Tokens of a try at most, where its worker's sampling does not say; 0: no model is asked; None: nobody knows."""

    asks_model: ClassVar[bool]
    """Whether the model that `work` is told answers; else something else chooses it, and no model can be measured."""

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
