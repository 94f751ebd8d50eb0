"""Conversations with a user who comes back: what was asked is done by calling the leaderboard's machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from apps.worlds.bfcl.machines import Machines, TooLargeError, play_right
from apps.worlds.bfcl.rows import CATEGORIES, DISTRIBUTION, BfclRow, is_installed, load_rows
from tentalis.core.canon import content_hash
from tentalis.core.graders.calls import match_turns
from tentalis.core.tool_calls import read_arguments
from tentalis.core.worlds import AttemptDraft, EpisodeLimits, Observation, ToolCall, Verification, World

MOST_CALLS: Final = 100
"""In one turn of a conversation; the leaderboard gives up after 20 answers with calls."""
MOST_STEPS: Final = 21
"""Answers of a model for each turn of the longest conversation."""
LONGEST: Final = 8


@dataclass
class Talk:
    """A conversation under way.

    Attributes:
        done: of each turn that is over, the results of its calls and the state behind it.
        results: of the calls of the turn that it is in.
        why: why it was broken off; "" where it was not.
    """

    row: BfclRow
    machines: Machines
    done: list[Mapping[str, Any]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    why: str = ""

    def end_turn(self) -> None:
        self.done.append({"results": self.results, "state": self.machines.tell()})
        self.results = []


class BfclWorld(World):
    """The multi-turn conversations of the Berkeley Function Calling Leaderboard, version 4.

    Source:
        `bfcl-eval`: its rows, its classes, and what `multi_turn_checker` compares. Differences: a call that its schema
        does not take is told so and not made; an episode ends after so many calls of a turn, not of answers; what is
        asked of the machines is bounded; each has a state of its own, where the leaderboard's share parts of it.
    """

    name = "bfcl"
    label = "BFCL"
    noun = "conversation"
    version = "1"
    made_of = (
        "tentalis.core.graders.calls",
        "bfcl_eval.eval_checker.multi_turn_eval.func_source_code",
    )
    profile: ClassVar = {"outcome": 1.0}
    limits = EpisodeLimits(turns=MOST_STEPS * LONGEST, output_chars=200_000, bad_calls=20)
    idempotent = True

    def find_obstacle(self) -> str:
        return "" if is_installed() else f"wants the package {DISTRIBUTION}"

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return find_row(prompt).list_tools(0)

    def tools_now(self, prompt: str, state: Talk) -> Sequence[Mapping[str, Any]]:
        return state.row.list_tools(len(state.done))

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        """The user's first words, without the name of the conversation."""
        return super().messages_for(find_row(prompt).words[0], system_prompt)

    def reset(self, prompt: str, seed: int | None) -> Talk:
        row = find_row(prompt)
        return Talk(row, Machines(row))

    def act(self, state: Talk, call: ToolCall, key: str) -> Observation:
        arguments = read_arguments(call.arguments)
        said = state.machines.call(call.name, arguments if isinstance(arguments, dict) else {})
        state.results.append(said)
        try:
            state.machines.tell()
        except TooLargeError as error:
            state.why = str(error)
        if len(state.results) >= MOST_CALLS:
            state.why = f"turn {len(state.done) + 1} makes {MOST_CALLS} calls"
        return Observation(text=f"error: {state.why}" if state.why else said, ends=bool(state.why))

    def reply(self, state: Talk, text: str, key: str) -> Observation | None:
        """The user's next words; None behind the last of them."""
        state.end_turn()
        left = state.row.words[len(state.done) :]
        return Observation(text=left[0]) if left else None

    def hash_state(self, state: Talk) -> str:
        machines = state.why or state.machines.hash()
        return content_hash([state.row.id, len(state.done), state.results, machines])

    def verify_state(self, prompt: str, reference: Any, state: Talk, draft: AttemptDraft) -> Verification:
        """Right where every turn that wants calls leaves the machines as the right calls do, and found out what these
        find out."""
        if draft.ended and not state.why and len(state.done) == len(state.row.words) - 1:
            state.end_turn()  # of an episode that was gone on with behind its last word
        right = play_right(state.row)
        why = state.why or match_turns(state.done, right)
        calls = sum(step.kind == "call" for step in draft.steps)
        return Verification(
            outcome=float(not why),
            step_scores=[None] * len(draft.steps),
            step_reasons=["only the whole conversation is compared"] * len(draft.steps),
            details={
                "expected_steps": sum(len(one["results"]) for one in right) + len(right),
                "calls": calls,
                "user_turns": len(state.done),
                **({"why": why} if why else {}),
            },
        )

    def find_kind(self, prompt: str) -> str:
        try:
            return find_row(prompt).category
        except ValueError:
            return "no conversation"

    def say_limits(self) -> Sequence[str]:
        return ["One of the leaderboard's conversations, by its name and first words."]

    def check_prompt(self, prompt: str) -> None:
        """Raise ValueError where it is none of the leaderboard's conversations."""
        row = find_row(prompt)
        if prompt.strip() != row.prompt.strip():
            raise ValueError(f"{row.id}: wanted its first words behind its name, found {prompt[:120]!r}")

    def is_held_out(self, prompt: str) -> bool:
        """All are: a leaderboard's rows are only ever measured on."""
        return True


def find_row(prompt: str) -> BfclRow:
    """The conversation that a prompt names in its first line. Raises ValueError."""
    name = prompt.strip().partition("\n")[0].strip()
    category = name.rpartition("_")[0]
    row = load_rows(category).get(name) if category in CATEGORIES else None
    if row is None:
        raise ValueError(f"wanted a conversation such as multi_turn_base_0 in the first line, found {name[:80]!r}")
    return row
