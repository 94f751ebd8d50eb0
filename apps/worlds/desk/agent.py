"""The desk's worker: the built-in model, its tags and its stock tool, all tries of a call in a few engine requests."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any, Final

from apps.base.errors import BadInputError
from apps.inference.client import ModelClient, Sample
from apps.inference.errors import ProviderAnswerError
from apps.worlds.desk.form import DeskForm
from tentalis.core.desk import END_MARK, read_pieces
from tentalis.core.worlds import AttemptDraft, Begun, DraftStep, World

MAX_TOKENS: Final = 44
BASE_MODEL: Final = "desk"
MAX_TRIES_A_REQUEST: Final = 512
_FORM: Final = DeskForm()


@dataclass
class _Try:
    """One try as it grows.

    Args:
        token_ids, logprobs, sampled, pieces: (T,); a tool's result is there too, not sampled, log-prob 0.
        top: (T,) the likeliest tokens at each place, () at a tool's result; empty where they were not asked for.
    """

    prompt_index: int
    prompt_token_ids: Sequence[int]
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    top: list[Sequence[tuple[int, float]]] = field(default_factory=list)
    calls: list[dict[str, str]] = field(default_factory=list)
    finish_reason: str = ""
    served_by: str = ""
    elapsed_s: float = 0.0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def take(self, sample: Sample, budget: int, elapsed_s: float) -> None:
        """Append what the model wrote, up to `budget` tokens."""
        is_cut = len(sample.token_ids) > budget
        self.token_ids += sample.token_ids[:budget]
        self.logprobs += sample.logprobs[:budget]
        self.pieces += sample.token_texts[:budget]  # type: ignore[arg-type]  # completions give str
        self.top += sample.top[:budget]
        self.sampled += [True] * (len(self.token_ids) - len(self.sampled))
        self.finish_reason = "length" if is_cut else sample.finish_reason
        self.served_by = sample.served_by
        self.elapsed_s += elapsed_s

    def add_result(self, text: str, token_ids: Sequence[int]) -> None:
        """Append what the tool said."""
        self.token_ids += token_ids
        self.logprobs += [0.0] * len(token_ids)
        self.sampled += [False] * len(token_ids)
        self.top += [()] * len(token_ids) if self.top else []
        self.pieces += [text, *[""] * (len(token_ids) - 1)]


@dataclass(frozen=True)
class DeskAgent:
    """Works tickets with the desk's model.

    Args:
        base_model: name of the served base, whose tokenizer all its adapters share.
        max_tokens: of a whole try, a tool's results included.
        top_k: how many of the likeliest tokens to note at each place, for what is learned from them; 0 for none.
    """

    client: ModelClient
    _: KW_ONLY
    base_model: str = BASE_MODEL
    system_prompt: str = ""
    temperature: float = 1.0
    max_tokens: int = MAX_TOKENS
    top_k: int = 0

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
        """Try each prompt `group_size` times; see `Agent.work`.

        One engine request samples every try, one more continues all that called the tool (and again, for a second
        call). The same prompts with the same seeds give the same tries; without a seed anywhere the engine draws one.

        Raises:
            BadInputError: the world is not the desk, whose tickets alone the model was taught.
        """
        if world.name != "desk":
            raise BadInputError(f"the desk's worker works in the desk's world, found {world.name!r}")
        groups: list[list[AttemptDraft]] = []
        pairs = zip(prompts, seeds, strict=True)
        while chunk := list(islice(pairs, max(1, MAX_TRIES_A_REQUEST // group_size))):
            groups += self._work_chunk(
                [prompt for prompt, _ in chunk], world, group_size, _mix([seed for _, seed in chunk]), model, greedy
            )
        return groups

    def _work_chunk(
        self, prompts: list[str], world: World, group_size: int, seed: int | None, model: str, greedy: bool
    ) -> list[list[AttemptDraft]]:
        conversations = [world.messages_for(prompt, self.system_prompt) for prompt in prompts]
        started = perf_counter()
        answers = self._sample([render_chat(messages) for messages in conversations], model, group_size, seed, greedy)
        elapsed_s = perf_counter() - started
        groups = []
        for index, samples in enumerate(answers):
            group = [_Try(index, sample.prompt_token_ids) for sample in samples]
            for each, sample in zip(group, samples, strict=True):
                each.take(sample, self.max_tokens, elapsed_s)
            groups.append(group)
        self._work_on([each for group in groups for each in group], prompts, world, seed, model, greedy)
        sampling = {"temperature": 0.0 if greedy else self.temperature}
        return [[_draft(each, conversations[index], sampling) for each in group] for index, group in enumerate(groups)]

    def finish(
        self,
        begun: Sequence[Begun],
        *,
        world: World,
        n: int,
        seed: int,
        model: str,
    ) -> list[list[AttemptDraft]]:
        """Finish tries from somewhere in them, n times each, in one engine request and one a tool round.

        Args:
            begun: tries, and how much of each stays.
        Raises:
            ProviderAnswerError: the server's text of a try's tokens is not these tokens again.
        """
        spelled = {tuple(one.token_ids): self._spell(one.token_ids) for one in begun}
        groups = []
        for index, one in enumerate(begun):
            ids, pieces = list(one.token_ids[: one.size]), spelled[tuple(one.token_ids)][: one.size]
            sampled = list(one.sampled[: one.size])
            groups.append(
                [_Try(index, one.prompt_token_ids, [*ids], [0.0] * one.size, [*sampled], [*pieces]) for _ in range(n)]
            )
        prompts = [one.prompt for one in begun]
        drawn = self._sample(
            [[*one.prompt_token_ids, *one.token_ids[: one.size]] for one in begun], model, n, seed, greedy=False
        )
        for group, samples in zip(groups, drawn, strict=True):
            for each, sample in zip(group, samples, strict=True):
                each.take(sample, self.max_tokens - len(each.token_ids), 0.0)
        self._work_on([each for group in groups for each in group], prompts, world, seed, model, greedy=False)
        return [[_draft(each, (), {"temperature": self.temperature}) for each in group] for group in groups]

    def _spell(self, token_ids: Sequence[int]) -> list[str]:
        pieces = self.client.spell(token_ids, model=self.base_model)
        if pieces is None:
            raise ProviderAnswerError(f"{self.base_model}: the text of {len(token_ids)} tokens is not them again")
        return pieces

    def _work_on(
        self, tries: list[_Try], prompts: Sequence[str], world: World, seed: int | None, model: str, greedy: bool
    ) -> None:
        """Answer the tool calls of tries and continue them until none waits."""
        round_number = 0
        while waiting := [each for each in tries if self._answer_call(each, prompts[each.prompt_index], world)]:
            round_number += 1
            started = perf_counter()
            answers = self._sample(
                [[*each.prompt_token_ids, *each.token_ids] for each in waiting],
                model,
                1,
                _mix([seed, round_number]),
                greedy,
                max_tokens=self.max_tokens - min(len(each.token_ids) for each in waiting),
            )
            elapsed_s = perf_counter() - started
            for each, (sample,) in zip(waiting, answers, strict=True):
                each.take(sample, self.max_tokens - len(each.token_ids), elapsed_s)
            tries = waiting

    def _sample(
        self,
        prompts: Sequence[Sequence[int]] | Sequence[str],
        model: str,
        n: int,
        seed: int | None,
        greedy: bool,
        max_tokens: int | None = None,
    ) -> list[list[Sample]]:
        return self.client.sample(
            prompts,
            model=model,
            n=n,
            max_tokens=max_tokens or self.max_tokens,
            temperature=0.0 if greedy else self.temperature,
            stop_token_ids=self.client.tokenize(*_FORM.stops, model=self.base_model),
            seed=seed,
            top_k=0 if greedy else self.top_k,
        )

    def _answer_call(self, each: _Try, prompt: str, world: World) -> bool:
        """Whether the try waited for the tool and may now go on; a result that leaves no room ends it."""
        if each.finish_reason != "stop" or (call := _FORM.find_call(each.text)) is None:
            return False
        name, arguments = call
        result = world.call_tool(prompt, name, arguments)
        text = _FORM.write_result(result)
        token_ids = self.client.tokenize(text, model=self.base_model)
        if len(each.token_ids) + len(token_ids) >= self.max_tokens:
            each.finish_reason = "length"
            return False
        each.calls.append({"name": name, "arguments": arguments, "result": result})
        each.add_result(text, token_ids)
        return True


def render_chat(messages: Sequence[Mapping[str, str]]) -> str:
    """A conversation in the desk model's chat template, open for the answer."""
    turns = "".join(f"<|{message['role']}|>{message['content']}{END_MARK}" for message in messages)
    return f"{turns}<|assistant|>"


def _mix(seeds: Sequence[int | None]) -> int | None:
    """One seed in [0, 2^63) that follows from many; None where one is missing."""
    if None in seeds:
        return None
    digest = hashlib.blake2b(repr(list(seeds)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def _draft(each: _Try, messages: Sequence[Mapping[str, str]], sampling: Mapping[str, Any]) -> AttemptDraft:
    reading = read_pieces(each.pieces)
    results = iter(each.calls)
    steps = [
        DraftStep(
            kind="other" if segment.kind == "bad" else segment.kind,
            text=segment.text,
            token_start=segment.start,
            token_end=segment.end,
            token_overlap=0,
            **(_call_fields(segment.text, results) if segment.kind == "call" else {}),
        )
        for segment in reading.segments
    ]
    text = each.text.removesuffix(END_MARK)
    return AttemptDraft(
        text=text,
        answer=next((step.text for step in reversed(steps) if step.kind == "answer"), ""),
        steps=steps,
        messages=messages,
        prompt_token_ids=each.prompt_token_ids,
        token_ids=each.token_ids,
        logprobs=each.logprobs,
        sampled=each.sampled,
        top=each.top if len(each.top) == len(each.token_ids) else (),
        served_by=each.served_by,
        finish_reason=each.finish_reason,
        ended=each.finish_reason == "stop" and not text.endswith(tuple(_FORM.stops)),
        tool_calls=each.calls,
        elapsed_s=each.elapsed_s,
        sampling=sampling,
    )


def _call_fields(text: str, results: Iterator[Mapping[str, str]]) -> dict[str, str]:
    """Tool name and result of the next call; the last one may have no result."""
    call = next(results, {"name": text.partition(" ")[0], "result": ""})
    return {"tool_name": call["name"], "tool_result": call["result"]}
