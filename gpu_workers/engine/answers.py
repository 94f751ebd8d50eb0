"""Responses of vLLM's dialect, built from jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_workers.engine.jobs import Delta, Job, PromptScore, Sample, TopLogprobs
from gpu_workers.engine.protocol import GenerationRequest
from gpu_workers.engine.text import PieceStream, TextCodec
from tentalis.core.tool_calls import MARKS, count_plain, read_written_calls, write_told_call

Json = dict[str, Any]


@dataclass
class _HeldBack:
    """An answer that may come to hold calls.

    Args:
        text: of it, not told yet. told: characters before that. token_ids: all so far. is_call: a call has begun.
    """

    text: str = ""
    told: int = 0
    token_ids: list[int] = field(default_factory=list)
    is_call: bool = False


class AnswerWriter:
    """Writes everything one request gets back: the whole answer, or its chunks."""

    def __init__(
        self, request: GenerationRequest, job: Job, codec: TextCodec, *, identifier: str, created: int
    ) -> None:
        self._request = request
        self._job = job
        self._codec = codec
        kind = "chat.completion" if request.is_chat else "text_completion"
        self._head: Json = {
            "id": f"{'chatcmpl' if request.is_chat else 'cmpl'}-{identifier}",
            "object": f"{kind}.chunk" if request.options.streams and request.is_chat else kind,
            "created": created,
            "model": job.loaded.name,
            "system_fingerprint": job.loaded.fingerprint[:16],
        }
        self._identifier = identifier
        self._held: dict[int, _HeldBack] = {}
        self._pieces: dict[int, PieceStream] = {}
        self._offsets: dict[int, int] = {}

    def write_whole(self) -> Json:
        """The response of a finished job."""
        samples = self._job.finished_samples()
        body = self._head | {
            "choices": [self._write_choice(index, sample) for index, sample in enumerate(samples)],
            "usage": self._count_usage(sum(len(sample.token_ids) for sample in samples)),
        }
        if self._request.is_chat:
            if self._request.returns_token_ids:
                body["prompt_token_ids"] = list(self._request.prompts[0])
            if (score := self._job.prompt_scores[0]) is not None:
                body["prompt_logprobs"] = self._write_prompt_logprobs(self._request.prompts[0], score)
        return body

    def write_opening(self) -> list[Json]:
        """Chunks before the first token: a chat's role, the prompt's token ids if asked for."""
        request = self._request
        chunks = []
        if request.is_chat:
            for index in range(len(self._job.samples)):
                delta = {"role": "assistant", "content": ""}
                chunks.append({"index": index, "delta": delta, "logprobs": None, "finish_reason": None})
        elif request.returns_token_ids:
            for index in range(len(self._job.samples)):
                prompt = list(request.prompts[index // request.options.n])
                empty = {"index": index, "text": "", "logprobs": None, "finish_reason": None, "stop_reason": None}
                chunks.append(empty | {"prompt_token_ids": prompt, "token_ids": []})
        opened = [self._head | {"choices": [chunk]} for chunk in chunks]
        if request.is_chat and request.returns_token_ids:
            opened[0]["prompt_token_ids"] = list(request.prompts[0])
        return opened

    def write_delta(self, delta: Delta) -> Json | None:
        """One chunk; None when it would say nothing."""
        request = self._request
        wants_logprobs = request.options.top_logprobs is not None
        told, reason = (
            self._hold_calls(delta) if request.reads_calls else ({"content": delta.text}, delta.finish_reason)
        )
        if not (told.get("content") or reason or wants_logprobs or request.returns_token_ids):
            return None
        choice: Json = {"index": delta.choice, "finish_reason": reason, "stop_reason": delta.stop_reason}
        choice |= {"delta": told} if request.is_chat else {"text": delta.text}
        choice["logprobs"] = self._write_delta_logprobs(delta) if wants_logprobs else None
        if request.returns_token_ids:
            choice["token_ids"] = delta.token_ids
        return self._head | {"choices": [choice]}

    def _hold_calls(self, delta: Delta) -> tuple[Json, str | None]:
        """What is told of a piece of an answer that may come to hold calls, and why it ended: from where they may begin
        on, it comes whole with the last chunk.
        """
        held = self._held.setdefault(delta.choice, _HeldBack())
        held.text += delta.text
        held.token_ids += delta.token_ids
        if delta.finish_reason is None:
            held.is_call |= any(
                self._spell(token).startswith(MARKS) for token in delta.token_ids
            )  # not all are in the text
            size = 0 if held.is_call else count_plain(held.text, is_first=not held.told)
            piece, held.text = held.text[:size], held.text[size:]
            held.told += size
            return ({"content": piece} if piece else {}), None
        calls = self._read_calls(delta.choice, held.token_ids, delta.finish_reason)
        if not calls:
            return {"content": held.text}, delta.finish_reason
        made = [{**call, "index": place} for place, call in enumerate(calls["tool_calls"])]
        rest = (calls["content"] or "")[held.told :]
        return {"content": rest or None, "tool_calls": made}, "tool_calls"

    def _read_calls(self, index: int, token_ids: Sequence[int], finish_reason: str) -> Json:
        """An answer's `content` and `tool_calls`; {} of one that makes none, that was cut off, or whose calls cannot
        be read: then all of it is text.
        """
        if not self._request.reads_calls or finish_reason == "length":
            return {}
        written = read_written_calls(self._codec.decode(token_ids, skip_special=False))
        if not written.calls or not all(call.name for call in written.calls):
            return {}
        calls = [
            write_told_call(f"{self._identifier[:5]}{index:02d}{place:02d}", call)  # nine letters: Mistral's want that
            for place, call in enumerate(written.calls)
        ]
        return {"content": self._codec.drop_special(written.text).rstrip() or None, "tool_calls": calls}

    def write_usage(self, generated: int) -> Json:
        """The last chunk of a stream that asked for usage."""
        return self._head | {"choices": [], "usage": self._count_usage(generated)}

    def _count_usage(self, generated: int) -> Json:
        read = sum(map(len, self._request.prompts))
        return {"prompt_tokens": read, "completion_tokens": generated, "total_tokens": read + generated}

    def _write_choice(self, index: int, sample: Sample) -> Json:
        request = self._request
        choice: Json = {"index": index, "finish_reason": sample.finish_reason, "stop_reason": sample.stop_reason}
        if not request.is_chat:
            choice["text"] = sample.text
        else:
            calls = self._read_calls(index, sample.token_ids, sample.finish_reason)
            choice["message"] = {"role": "assistant", "content": sample.text} | calls
            choice["finish_reason"] = "tool_calls" if calls else sample.finish_reason
        choice["logprobs"] = None
        if request.options.top_logprobs is not None:
            pieces = self._codec.split_pieces(sample.token_ids)
            choice["logprobs"] = self._write_logprobs(sample.token_ids, pieces, sample.logprobs, sample.top, 0)
        if request.returns_token_ids:
            choice["token_ids"] = sample.token_ids
        if not request.is_chat:
            place = index // request.options.n
            if request.returns_token_ids:
                choice["prompt_token_ids"] = list(request.prompts[place])
            if (score := self._job.prompt_scores[place]) is not None:
                choice["prompt_logprobs"] = self._write_prompt_logprobs(request.prompts[place], score)
        return choice

    def _write_delta_logprobs(self, delta: Delta) -> Json:
        stream = self._pieces.setdefault(delta.choice, PieceStream(self._codec))
        last = len(delta.token_ids) - 1
        pieces = [
            stream.push(token, is_last=delta.finish_reason is not None and index == last)
            for index, token in enumerate(delta.token_ids)
        ]
        offset = self._offsets.get(delta.choice, 0)
        self._offsets[delta.choice] = offset + sum(map(len, pieces))
        return self._write_logprobs(delta.token_ids, pieces, delta.logprobs, delta.top, offset)

    def _write_logprobs(
        self, token_ids: Sequence[int], pieces: list[str], logprobs: Any, top: list[TopLogprobs] | None, offset: int
    ) -> Json:
        if self._request.is_chat:
            content = []
            for index, (token, piece, logprob) in enumerate(zip(token_ids, pieces, logprobs, strict=True)):
                entry = self._name_token(token, piece, float(logprob))
                entry["top_logprobs"] = [
                    self._name_token(each, None, value) for each, value in (top[index] if top else [])
                ]
                content.append(entry)
            return {"content": content}
        offsets = []
        for piece in pieces:
            offsets.append(offset)
            offset += len(piece)
        alternatives = None
        if top is not None:
            alternatives = [{self._name(each): value for each, value in entry} for entry in top]
        if self._request.names_by_id:
            pieces = [self._name(token) for token in token_ids]
        return {"tokens": pieces, "token_logprobs": logprobs, "top_logprobs": alternatives, "text_offset": offsets}

    def _name_token(self, token: int, piece: str | None, logprob: float) -> Json:
        spelled = self._codec.bytes_of(token)
        name = self._name(token) if piece is None or self._request.names_by_id else piece
        return {"token": name, "logprob": logprob, "bytes": list(spelled)}

    def _name(self, token: int) -> str:
        return f"token_id:{token}" if self._request.names_by_id else self._spell(token)

    def _spell(self, token: int) -> str:
        return self._codec.bytes_of(token).decode("utf-8", "replace")

    def _write_prompt_logprobs(self, prompt: Sequence[int], score: PromptScore) -> list[Json | None]:
        entries: list[Json | None] = [None] * score.start
        ranks = [None] * len(score.top) if score.ranks is None else score.ranks.tolist()
        for token, logprob, rank, top in zip(
            prompt[score.start :], score.logprobs.tolist(), ranks, score.top, strict=True
        ):
            entry = {
                str(each): {"logprob": value, "rank": place, "decoded_token": self._spell(each)}
                for place, (each, value) in enumerate(top, start=1)
            }
            entry[str(token)] = {"logprob": logprob, "rank": rank, "decoded_token": self._spell(token)}
            entries.append(entry)
        return entries
