"""A worker that is an agent of an OpenClaw: it does the task there, with its own tools, and thinks through our gateway.

Each try is a session of its own, named `tentalis:<task>:<try>`. Our plugin tells the gateway that name with every model
call, and so the calls a try consists of are found again, token for token. Without the plugin the try is kept, and
trains nothing.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import Any, Final, NamedTuple

from apps.base.errors import TentalisError
from apps.inference.calls import find_spans
from apps.inference.errors import ProviderBusyError, ProviderRefusedError
from apps.inference.models import MEASURED_TURN, Exchange
from apps.inference.openclaw import AgentReply, OpenClawServer, RunLostError
from apps.inference.selectors import IncompleteConversationError, read_conversations, read_messages
from tentalis.core.steps import Span, begins_with_answer, parse_steps
from tentalis.core.worlds import AttemptDraft, DraftStep, World
from tentalis.outbound.scopes import ScopedThreadPool

PROVIDER: Final = "tentalis"
"""What our gateway is called in OpenClaw's configuration."""
MAX_AT_ONCE: Final = 4
CAPTURE_WAIT_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.05
NOT_SEEN: Final = "the gateway saw no call of this try: is OpenClaw's plugin `tentalis` on, and its model our gateway?"


class OpenClawAgent:
    """Does tasks on an OpenClaw.

    Args:
        worker_name: the model OpenClaw asks our gateway for; "" leaves its agent its own model.
        task_id: of the task at hand; None for none.
        sampling: temperature, max_tokens, top_p, where set: OpenClaw hands them on as far as it can.
    """

    def __init__(
        self,
        server: OpenClawServer,
        *,
        project_id: int,
        worker_name: str = "",
        agent_id: str = "",
        task_id: int | None = None,
        system_prompt: str = "",
        capture_wait_s: float = CAPTURE_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        **sampling: float,
    ) -> None:
        self._server = server
        self._project_id = project_id
        self._model = f"{PROVIDER}/{worker_name}" if worker_name else ""
        self._agent_id = agent_id
        self._task_id = task_id or 0
        self._system_prompt = system_prompt
        self._capture_wait_s = capture_wait_s
        self._clock = clock
        self._sampling = sampling

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
        """Try each prompt `group_size` times; see `Agent.work`. Which adapter answers is the gateway's choice.

        A run that breaks off is a failed draft: what it did is done. Where nothing at all could be begun, the error is
        raised, so that the task is tried again later.
        """
        tries = [
            (prompt, seed, place) for prompt, seed in zip(prompts, seeds, strict=True) for place in range(group_size)
        ]
        with ScopedThreadPool(max_workers=MAX_AT_ONCE) as pool:
            runs = list(pool.map(lambda one: self._run(world, *one, greedy=greedy), tries))
        if not any(isinstance(run[2], AgentReply | RunLostError) for run in runs):
            raise runs[0][2]  # type: ignore[misc]  # none of them is a reply
        drafts = [self._draft(*run) for run in runs]
        return [drafts[start : start + group_size] for start in range(0, len(drafts), group_size)]

    def _run(
        self, world: World, prompt: str, seed: int | None, place: int, *, greedy: bool
    ) -> tuple[str, list[dict[str, str]], AgentReply | TentalisError, float]:
        """Session key, what was sent, what came of it, and after how many seconds."""
        key = f"{PROVIDER}:{self._task_id}:{token_hex(8)}"
        messages = world.messages_for(prompt, self._system_prompt)
        sampling: dict[str, Any] = dict(self._sampling) | ({"temperature": 0.0} if greedy else {})
        if seed is not None:
            sampling["seed"] = seed + place
        started = self._clock()
        came: AgentReply | TentalisError
        try:
            came = self._server.run_agent(
                messages, session_key=key, agent_id=self._agent_id, model=self._model, **sampling
            )
        except (ProviderBusyError, ProviderRefusedError, RunLostError) as error:
            came = error
        return key, messages, came, self._clock() - started

    def _draft(
        self, key: str, messages: list[dict[str, str]], came: AgentReply | TentalisError, elapsed_s: float
    ) -> AttemptDraft:
        if isinstance(came, TentalisError):
            return AttemptDraft(messages=messages, error=str(came), is_lost=True, ended=False, elapsed_s=elapsed_s)
        calls = self._find_calls(key, came.text) if self._model else []
        learnt = _find_learnt(calls)
        known: dict[str, Any] = {
            "messages": messages,
            "elapsed_s": elapsed_s,
            "exchange_ids": [call.pk for call in learnt.calls],
            "served_by": (calls[-1].adapter_name or calls[-1].model) if calls else "",
            "finish_reason": came.finish_reason,
            "unfit": "" if calls or not self._model else NOT_SEEN,
        }
        text = calls[-1].text if calls else came.text
        if not text.strip():
            return AttemptDraft(error=f"the answer is empty ({came.finish_reason})", **known)
        steps = [*(_read_work(calls[-1], learnt) if calls else ()), *_read_answer(text, learnt.spans[-1])]
        answer = steps[-1].text if steps[-1].kind == "answer" else ""
        return AttemptDraft(text=text, answer=answer, steps=steps, ended=came.finish_reason != "length", **known)

    def _find_calls(self, key: str, answer: str) -> list[Exchange]:
        """The try's calls in order, the last being the one that gave its answer.

        The gateway stores a call a moment after it answered; so much patience there is, and no more.
        """
        until = self._clock() + self._capture_wait_s
        while True:
            calls = list(
                Exchange.objects.filter(
                    project_id=self._project_id, session__key=key, turn__in=("main", MEASURED_TURN), choice=0, error=""
                ).order_by("id")
            )
            if any(call.text and call.text.strip() in answer for call in calls[-1:]) or self._clock() >= until:
                return calls
            time.sleep(_LOOK_EVERY_S)


class _Learnt(NamedTuple):
    """Calls that can be trained on.

    Args:
        spans: [start, end) of each call's tokens among all; None where the tokens are not known.
    """

    calls: Sequence[Exchange]
    spans: Sequence[Span | None]

    def find_call(self, message: Mapping[str, Any], *, start: int) -> int | None:
        """The place, from `start`, of the call that gave an agent's message: told by the ids of its tool calls, else by
        its words."""
        ids = {call.get("id") for call in message.get("tool_calls") or ()}
        words = _read_content(message.get("content")).strip()
        for place in range(start, len(self.calls)):
            call = self.calls[place]
            if {one.get("id") for one in call.tool_calls} == ids and (ids or call.text.strip() == words):
                return place
        return None


def _find_learnt(calls: Sequence[Exchange]) -> _Learnt:
    """Those whose tokens are known and that one adapter served; where the last one's are not, that one alone."""
    if not calls or not calls[-1].has_exact_tokens:
        return _Learnt(calls[-1:], [None])
    alike = [call for call in calls if call.adapter_name == calls[-1].adapter_name and call.has_exact_tokens]
    return _Learnt(alike, find_spans(alike, read_conversations(alike)))


def _read_work(last: Exchange, learnt: _Learnt) -> list[DraftStep]:
    """What the agent did before its answer: the words and tool calls that its last call was shown. The tokens of a call
    of its model are its last step's."""
    try:
        messages = [message for message in read_messages(last) if isinstance(message, Mapping)]
    except IncompleteConversationError:
        return []
    results = {
        str(message.get("tool_call_id")): _read_content(message.get("content"))
        for message in messages
        if message.get("role") == "tool"
    }
    steps: list[DraftStep] = []
    start = 0
    for message in messages:
        if message.get("role") == "assistant":
            known = len(steps)
            if words := _read_content(message.get("content")).strip():
                steps.append(DraftStep(kind="step", text=words))
            steps += [
                DraftStep(kind="call", text=step.text, tool_name=step.tool_name, tool_result=step.result or "")
                for step in parse_steps("", message.get("tool_calls") or (), results).steps
            ]
            place = learnt.find_call(message, start=start)
            if len(steps) > known and place is not None and (span := learnt.spans[place]) is not None:
                start = place + 1
                steps[-1] = dataclasses.replace(steps[-1], token_start=span[0], token_end=span[1])
    return steps


def _read_answer(text: str, span: Span | None) -> list[DraftStep]:
    """The steps of the last words. Their tokens are known where they are one step: nobody told the tokens' texts."""
    parsed = parse_steps(text)
    steps = [DraftStep(kind=step.kind, text=step.text, tool_name=step.tool_name) for step in parsed.steps]
    if parsed.answer:
        steps.append(DraftStep(kind="answer", text=parsed.answer))
    if len(steps) == 1 and span is not None:
        overlap = 0 if begins_with_answer(text) else None
        steps = [dataclasses.replace(steps[0], token_start=span[0], token_end=span[1], token_overlap=overlap)]
    return steps or [DraftStep(kind="other", text=text)]


def _read_content(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))
