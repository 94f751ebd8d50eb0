"""A worker on any OpenAI-compatible server: one request a prompt, steps read out of whatever the model wrote."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from time import perf_counter
from typing import Any, Final, TypeVar

from apps.inference.client import ModelClient, Sample
from apps.inference.errors import ModelNotServedError, ProviderRefusedError
from apps.workers.agents.turns import PRUNING, ask_with_tools, continue_tokens, count_tokens, prune, read_turn
from tentalis.core.steps import ParsedAnswer, Span, parse_steps, token_overlaps, token_spans, token_starts
from tentalis.core.worlds import AttemptDraft, DraftStep, TurnAsked, TurnDraft, World
from tentalis.outbound.scopes import ScopedThreadPool

MAX_TOKENS: Final = 1024
MOST_AT_ONCE: Final = 16
"""Prompts that an agent has at its server at one time."""


Asked = TypeVar("Asked")


@dataclass(frozen=True)
class ChatAgent:
    """Asks a chat model.

    Args:
        max_tokens: of one answer.
        top_p: nucleus sampling; 1 is off.
        top_k: how many of the likeliest tokens to note at each place, for what is learned from them; 0 for none.
        context_tokens: that its model takes, prompt and answer together; None: nobody knows.
    """

    client: ModelClient
    _: KW_ONLY
    system_prompt: str = ""
    temperature: float = 1.0
    max_tokens: int = MAX_TOKENS
    top_p: float = 1.0
    top_k: int = 0
    context_tokens: int | None = None

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
        """Try each prompt `group_size` times, some prompts at once; one the server refuses gives failed drafts."""
        conversations = [world.messages_for(prompt, self.system_prompt) for prompt in prompts]

        def try_prompt(place: int) -> list[AttemptDraft]:
            return self._try_prompt(conversations[place], group_size, seeds[place], model, greedy)

        def give_up(place: int, words: str) -> list[AttemptDraft]:
            return [AttemptDraft(messages=conversations[place], error=words, is_lost=True, ended=False)] * group_size

        return _ask_each(len(prompts), try_prompt, give_up)

    def take_turns(
        self,
        asked: Sequence[TurnAsked],
        *,
        world: World,
        tools: Sequence[Mapping[str, Any]],
        model: str,
        greedy: bool = False,
    ) -> list[TurnDraft]:
        """The next turn of each episode, some at once; see `TurnAgent.take_turns`."""

        def take_turn(place: int) -> TurnDraft:
            return self._take_turn(asked[place], tools, model, greedy)

        def give_up(place: int, words: str) -> TurnDraft:
            lost = AttemptDraft(messages=asked[place].messages, error=words, is_lost=True, ended=False)
            return TurnDraft(draft=lost)

        return _ask_each(len(asked), take_turn, give_up)

    def _take_turn(self, asked: TurnAsked, tools: Sequence[Mapping[str, Any]], model: str, greedy: bool) -> TurnDraft:
        """Go on from the tokens of the turn before where the server takes tokens; else ask with the conversation."""
        started = perf_counter()
        messages, request = asked.messages, dict[str, Any](tools=list(tools))
        prompt = continue_tokens(self.client, asked, model=model)
        room = self.max_tokens
        if self.context_tokens is not None:
            size = len(prompt) if prompt else count_tokens(self.client, messages, tools, model=model)
            if size + self.max_tokens > self.context_tokens:
                most = 3 * max(0, self.context_tokens - self.max_tokens) // 4  # so that it fits for some turns to come
                messages, dropped = prune(
                    messages, lambda left: count_tokens(self.client, left, tools, model=model) <= most
                )
                if dropped:
                    prompt = None
                    request |= {"pruned": {"rule": PRUNING, "results": dropped}}
                    size = count_tokens(self.client, messages, tools, model=model)
            room = max(1, min(room, self.context_tokens - size))
        sampling: dict[str, Any] = {"temperature": 0.0 if greedy else self.temperature, "top_p": self.top_p}
        settings: dict[str, Any] = {"max_tokens": room, "seed": asked.seed, "top_k": 0 if greedy else self.top_k}
        if prompt is not None:
            [[sample]] = self.client.sample([prompt], model=model, **settings, **sampling)
        else:
            sample = ask_with_tools(self.client, messages, tools, model=model, **settings, **sampling)
        draft = read_sample(sample, messages, perf_counter() - started)
        draft = replace(draft, sampling=sampling, request=request)
        return read_turn(sample, draft, tools, turn=asked.turn)

    def _try_prompt(
        self, messages: Sequence[Mapping[str, str]], group_size: int, seed: int | None, model: str, greedy: bool
    ) -> list[AttemptDraft]:
        """Ask until there are `group_size` answers: some servers give one, however many are wanted."""
        drafts: list[AttemptDraft] = []
        while len(drafts) < group_size:
            started = perf_counter()
            samples = self.client.chat(
                messages,
                model=model,
                n=group_size - len(drafts),
                max_tokens=self.max_tokens,
                temperature=0.0 if greedy else self.temperature,
                top_p=self.top_p,
                seed=None if seed is None else seed + len(drafts),
                top_k=0 if greedy else self.top_k,
            )
            elapsed_s = perf_counter() - started
            sampling = {"temperature": 0.0 if greedy else self.temperature, "top_p": self.top_p}
            drafts += [replace(read_sample(sample, messages, elapsed_s), sampling=sampling) for sample in samples]
        return drafts


def _ask_each(count: int, ask: Callable[[int], Asked], give_up: Callable[[int, str], Asked]) -> list[Asked]:
    """Ask for each place, some at once; what the server refuses is given up, unless it refuses all."""
    refusals: list[ProviderRefusedError] = []

    def ask_one(place: int) -> Asked:
        try:
            return ask(place)
        except ModelNotServedError:
            raise
        except ProviderRefusedError as error:
            refusals.append(error)
            return give_up(place, str(error))

    if count <= 1:
        found = list(map(ask_one, range(count)))
    else:
        with ScopedThreadPool(min(count, MOST_AT_ONCE)) as pool:
            found = list(pool.map(ask_one, range(count)))
    if refusals and len(refusals) == count:
        raise refusals[0]
    return found


def read_sample(sample: Sample, messages: Sequence[Mapping[str, Any]], elapsed_s: float | None = None) -> AttemptDraft:
    """Turn a chat model's answer into a draft: steps, answer, and token spans where the server told its tokens."""
    parsed = parse_steps(sample.text, sample.tool_calls)
    is_exact = sample.has_exact_tokens
    return AttemptDraft(
        text=sample.text,
        answer=parsed.answer or "",
        steps=_steps(parsed, sample if is_exact else None),
        messages=messages,
        prompt_token_ids=sample.prompt_token_ids if is_exact else (),
        token_ids=sample.token_ids if is_exact else (),
        logprobs=sample.logprobs if is_exact else (),
        sampled=[True] * len(sample.token_ids) if is_exact else (),
        top=sample.top if is_exact and len(sample.top) == len(sample.token_ids) else (),
        served_by=sample.served_by,
        finish_reason=sample.finish_reason,
        ended=sample.finish_reason != "length",
        tool_calls=sample.tool_calls,
        elapsed_s=elapsed_s,
        use=sample.use,
        error="" if sample.text.strip() or sample.tool_calls else f"the answer is empty ({sample.finish_reason})",
    )


def _steps(parsed: ParsedAnswer, exact: Sample | None) -> list[DraftStep]:
    found: list[tuple[Span, dict[str, Any]]] = [
        (
            (step.start, step.end),
            {"kind": step.kind, "text": step.text, "tool_name": step.tool_name, "tool_result": step.result or ""},
        )
        for step in parsed.steps
    ]
    if parsed.answer_span is not None:
        found.append((parsed.answer_span, {"kind": "answer", "text": parsed.answer or ""}))
    found.sort(key=lambda item: item[0])
    places = _find_tokens([span for span, _ in found], exact)
    return [DraftStep(**fields, **place) for (_, fields), place in zip(found, places, strict=True)]


def _find_tokens(spans: list[Span], exact: Sample | None) -> list[dict[str, Any]]:
    """What steps say of their tokens, of character spans; nothing where the tokens do not spell the text (a call beside
    it has no span of its own either)."""
    unknown: list[dict[str, Any]] = [{}] * len(spans)
    if exact is None or len(exact.token_texts) != len(exact.token_ids):
        return unknown
    starts = token_starts(exact.token_texts)
    offset = _join(exact.token_texts).find(exact.text)
    if offset < 0:
        return unknown
    tokens = token_spans([(start + offset, end + offset) for start, end in spans], starts)
    overlaps = token_overlaps([start + offset for start, _ in spans], exact.token_texts)
    places: list[dict[str, Any]] = []
    for (start, _), (first, end), overlap in zip(spans, tokens, overlaps, strict=True):
        is_in_text = overlap is not None and overlap <= start
        told = {"token_start": first, "token_end": end, "token_overlap": overlap if is_in_text else None}
        places.append(told if first < end else {})
    return places


def _join(pieces: Sequence[str] | Sequence[bytes]) -> str:
    if all(isinstance(piece, bytes) for piece in pieces):
        return b"".join(pieces).decode("utf-8", "replace")  # type: ignore[arg-type]
    return "".join(pieces)  # type: ignore[arg-type]
