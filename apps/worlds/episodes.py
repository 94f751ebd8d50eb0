"""An episode and its turns, as they are played: no rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any, Final

from django.utils import timezone

from apps.checks.graders import Graders
from tentalis.core.steps import begins_with_answer
from tentalis.core.tool_calls import spell_call
from tentalis.core.worlds import AttemptDraft, DraftStep, ToolCall, Verification

TAKEN_OVER: Final = "it was taken over: what came of it is not its model's"
"""Why nothing is said of an episode's model, and nothing of its tokens trained on, whose end is somebody else's."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a model was shown of an observation.

    Args:
        whole: all that the world said, where that is more; "" else.
        screenshot: a PNG of what the call was done on; b"" for none.
    """

    text: str
    whole: str = ""
    screenshot: bytes = b""
    ends: bool = False
    details: Any = None


@dataclass(frozen=True, kw_only=True)
class Instead:
    """What is done in place of a call that others decided on.

    Args:
        call: what is called; None: nothing.
        words: what its model is told of that, before what the world says.
        answer: of who took over: the episode ends with it, and nothing is called; "" where nobody did.
    """

    words: str
    call: ToolCall | None = None
    answer: str = ""


TOO_LATE: Final = Instead(words="not done: the episode had ended")


@dataclass(kw_only=True)
class PlayedTurn:
    """A turn of an episode.

    Attributes:
        added: what it added to the conversation before its observations.
        seen: None while its calls are made; fewer than calls where one ended the episode. Of a turn without calls, what
            a user in the world said to its words; nothing where they were the last.
        instead: number of a call -> what is done in its place.
        is_unmade: of its calls none was made, for sure.
        usd: paid for its call, as far as known.
        is_kept: the journal has it as it is.
    """

    draft: AttemptDraft
    calls: Sequence[ToolCall] = ()
    added: Sequence[Any] = ()
    seen: Sequence[Seen] | None = None
    state_hash: str = ""
    snapshot: bytes | None = None
    started_at: datetime = field(default_factory=timezone.now)
    ended_at: datetime | None = None
    instead: Mapping[int, Instead] = field(default_factory=dict)
    is_unmade: bool = False
    usd: float = 0.0
    is_kept: bool = False

    @property
    def taken_over(self) -> str:
        """What somebody answered in place of one of its calls, which ended the episode; "" of all others."""
        seen = len(self.seen or ())
        return next((one.answer for place, one in self.instead.items() if one.answer and place < seen), "")

    @property
    def messages(self) -> list[Any]:
        """All that it added to the conversation."""
        said = zip(self.calls, self.seen or (), strict=False)
        told = [{"role": "tool", "tool_call_id": call.id, "content": seen.text} for call, seen in said]
        if not self.calls:
            told = [{"role": "user", "content": seen.text} for seen in self.seen or ()]
        return [*self.added, *told]

    @property
    def steps(self) -> list[DraftStep]:
        """Its steps, with what the world said to its calls; spans are of this call's own tokens."""
        results = [seen.text for seen in self.seen or ()] + [""] * len(self.calls)
        waiting = list(zip(self.calls, results, strict=False))
        steps = []
        for step in self.draft.steps:
            if step.kind == "call" and waiting:
                call, result = waiting.pop(0)
                step = replace(step, tool_name=step.tool_name or call.name, tool_result=result)
            steps.append(step)
        steps += [
            DraftStep(
                kind="call",
                text=spell_call(call.name, call.arguments),
                tool_name=call.name[:100],
                tool_result=result,
            )
            for call, result in waiting
        ]
        if steps and self.draft.token_ids and not any(step.token_end for step in steps):
            overlap = 0 if begins_with_answer(self.draft.text) else None
            steps[-1] = replace(steps[-1], token_start=0, token_end=len(self.draft.token_ids), token_overlap=overlap)
        return [*steps, DraftStep(kind="answer", text=self.taken_over)] if self.taken_over else steps

    @property
    def done_instead(self) -> list[Instead | None]:
        """Of each of its steps, what was done in place of its call; None where that was made as it is or could not be
        read, and of a step without one."""
        numbers = count()
        return [self._find_instead(next(numbers)) if step.kind == "call" else None for step in self.steps]

    def _find_instead(self, number: int) -> Instead | None:
        return TOO_LATE if len(self.seen or ()) <= number < len(self.calls) else self.instead.get(number)

    @property
    def text(self) -> str:
        said = [self.draft.text, *(seen.text for seen in self.seen or ()), self.taken_over]
        return "\n".join(filter(None, said))


@dataclass(eq=False, kw_only=True)
class Episode:
    """A try at a task in a world with turns.

    Attributes:
        key: by which the world may know it: the same whenever it is gone on with.
        graders: who is asked by its checks.
        seed: of the world; sampling_seed: of its model.
        opening: messages that it begins with.
        offered: hash of the tools that its model was asked with last; "" where nobody knows.
        left_at: hash of its state as its last call left it.
        ended_by: the limit that it reached; "" where its model or its world ended it.
        lost: the fault that ended it, which says nothing of its model; "" where none did.
        is_waiting: its calls wait for somebody's word: it is gone on with when that was said.
        is_over: it is verified, and its state given back.
    """

    key: str
    prompt: str
    reference: Any = None
    checks: Any = None
    graders: Graders | None = None
    seed: int | None = None
    sampling_seed: int | None = None
    opening: Sequence[Any] = ()
    offered: str = ""
    turns: list[PlayedTurn] = field(default_factory=list)
    state: Any = None
    left_at: str = ""
    is_open: bool = False
    ended_by: str = ""
    lost: str = ""
    is_waiting: bool = False
    is_over: bool = False
    verification: Verification | None = None

    @property
    def elapsed_s(self) -> float:
        return sum((turn.ended_at - turn.started_at).total_seconds() for turn in self.turns if turn.ended_at)

    @property
    def tokens(self) -> int:
        return sum(len(turn.draft.token_ids) or turn.draft.use.completion for turn in self.turns)

    @property
    def taken_over(self) -> str:
        """What somebody answered who took it over; "" where nobody did."""
        return self.turns[-1].taken_over if self.turns else ""

    @property
    def error(self) -> str:
        """Why its model gave no answer; "" where it gave one."""
        return self.lost or (self.turns[-1].draft.error if self.turns else "")

    def list_messages(self) -> list[Any]:
        """The conversation as its model was last shown it (of which results may have been left out), and what came of
        that turn."""
        if not self.turns:
            return list(self.opening)
        return [*self.turns[-1].draft.messages, *self.turns[-1].messages]

    def join(self) -> AttemptDraft:
        """All its turns as one try, without the tokens."""
        last = self.turns[-1].draft if self.turns else AttemptDraft()
        return AttemptDraft(
            text="\n".join(filter(None, (turn.text for turn in self.turns))),
            answer=self.taken_over or last.answer,
            steps=[step for turn in self.turns for step in turn.steps],
            messages=self.list_messages(),
            served_by=last.served_by,
            finish_reason=last.finish_reason,
            ended=last.ended and not self.ended_by,
            elapsed_s=self.elapsed_s,
            error=self.error,
            is_lost=bool(self.lost),
            sampling=last.sampling,
        )
