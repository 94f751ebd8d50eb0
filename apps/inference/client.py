"""The one client of model servers: OpenAI's API, vLLM's dialect of it down to token ids, and Anthropic's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from time import perf_counter
from typing import Any

import orjson

from apps.inference.allowances import Allowance
from apps.inference.anthropic import from_anthropic, to_anthropic
from apps.inference.errors import PacedError, ProviderAnswerError, ProviderRefusedError
from apps.inference.kept_answers import find_kept_answers, find_written_answers, name_asked
from apps.inference.lora_routes import NAME_TAKEN, LoraRoutes
from apps.inference.pictures import show_pictures
from apps.inference.provider_kinds import ProviderKind, find_kind
from apps.inference.transport import Transport
from tentalis.core.token_use import NOTHING_USED, TokenUse, guess_prompt_tokens, read_token_use, share_token_use

DEFAULT_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One answer of a model.

    Args:
        token_ids (T,), logprobs (T,) natural log, token_texts (T,): what was sampled, the end token and a stop string
            included; empty where the server does not tell. Texts are UTF-8 bytes where the server gave bytes.
        prompt_token_ids: (P,); empty where the server does not tell.
        top: (T,) the likeliest tokens at each place with their log-probs, most likely first; empty where not asked for.
        finish_reason: stop, length, tool_calls…
        served_by: name of the model that answered, in the server's words.
        tool_calls: in OpenAI's form.
        reasoning: what the model thought aloud; "" where the server does not tell.
        use: this answer's share of the call's tokens, as the server counts them.
    """

    text: str
    finish_reason: str
    served_by: str
    token_ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    token_texts: Sequence[str] | Sequence[bytes] = ()
    prompt_token_ids: Sequence[int] = ()
    top: Sequence[Sequence[tuple[int, float]]] = ()
    tool_calls: Sequence[Mapping[str, Any]] = ()
    reasoning: str = ""
    use: TokenUse = NOTHING_USED

    @property
    def has_exact_tokens(self) -> bool:
        return bool(self.token_ids and self.prompt_token_ids) and len(self.logprobs) == len(self.token_ids)


@dataclass(frozen=True)
class ModelClient:
    """A model server. Cheap to make: connections are shared by all clients of a server in this process.

    Every call raises ProviderBusyError, ProviderRefusedError (ModelNotServedError) or ProviderAnswerError.

    Args:
        kind: a row of the registry; what its server does not know is not even sent.
        timeout_s: longest silence of the server while it answers.
        allow_private: an admin allowed loopback and private addresses for this server.
        on_answer: called with model, who served it, tokens used and seconds, after each answer.
        allowance: what may be used of it; room is held before each call and settled by its answer.
        keeps_answers: a link that it tells to wait does not ask again what it was answered (`kept_answers`).
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    kind: str = "engine"
    timeout_s: float = DEFAULT_TIMEOUT_S
    allow_private: bool = False
    on_answer: Callable[[str, str, TokenUse, float], None] | None = field(default=None, repr=False, compare=False)
    allowance: Allowance | None = field(default=None, repr=False, compare=False)
    keeps_answers: bool = field(default=False, repr=False, compare=False)

    @cached_property
    def _row(self) -> ProviderKind:
        return find_kind(self.kind)

    @cached_property
    def _transport(self) -> Transport:
        return Transport(
            self._row, self.base_url, self.api_key, timeout_s=self.timeout_s, allow_private=self.allow_private
        )

    @cached_property
    def _routes(self) -> LoraRoutes:
        return LoraRoutes(self._transport, self.base_url)

    @property
    def tells_tokens(self) -> bool:
        """Whether the server tells exact token ids, without which nothing it says can be trained on."""
        return self._row.tells_tokens

    def sample(
        self,
        prompts: Sequence[Sequence[int]] | Sequence[str],
        *,
        model: str,
        n: int = 1,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        seed: int | None = None,
        top_k: int = 0,
    ) -> list[list[Sample]]:
        """Complete every prompt `n` times in one request.

        Args:
            prompts: token ids, or text the server tokenises as it stands (no chat template).
            stop: strings that end a sample; kept in it.
            temperature: 0 is greedy.
            top_k: how many of the likeliest tokens to tell at each place; only of a server that tells its tokens.
        Returns:
            (len(prompts), n) samples, in order.
        """
        if not prompts:
            return []
        body: dict[str, Any] = {
            "model": model,
            "prompt": prompts,
            "n": n,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "logprobs": 0,
            **self._row.whole_sampling,
            **({"top_p": top_p} if top_p < 1.0 else {}),
            **({"stop": list(stop)} if stop else {}),
            **({"seed": seed} if seed is not None else {}),
        }
        if self.tells_tokens:
            body |= self._row.capture_fields(completions=True) | {"include_stop_str_in_output": True}
            if stop_token_ids:
                body["stop_token_ids"] = list(stop_token_ids)
            if top_k:
                body |= {"logprobs": top_k, "return_tokens_as_token_ids": True}
        answer = self._ask(self._transport.completions_path, body)
        choices = self._read_choices(answer, model, len(prompts) * n)
        samples = self._share(answer, [self._read(_read_completion, choice, answer) for choice in choices])
        if top_k and self.tells_tokens:
            samples = [self._spell_tokens(sample, model) for sample in samples]
        return [samples[start : start + n] for start in range(0, len(samples), n)]

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str,
        n: int = 1,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int | None = None,
        extra: Mapping[str, Any] | None = None,
        top_k: int = 0,
    ) -> list[Sample]:
        """Answer a conversation.

        Args:
            top_k: how many of the likeliest tokens to tell at each place; only of a server that tells its tokens.
            extra: further fields of the request (`response_format`, `tools`…), as the server wants them.
        Returns:
            `n` samples, or fewer from a server that does not know `n`; never none.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": show_pictures(messages),
            self._row.max_tokens_field: max_tokens,
            "temperature": temperature,
            **self._row.whole_sampling,
            **({"n": n} if n > 1 else {}),
            **({"top_p": top_p} if top_p < 1.0 else {}),
            **({"stop": list(stop)} if stop else {}),
            **({"seed": seed} if seed is not None else {}),
            **(extra or {}),
        }
        if self.tells_tokens:
            body |= self._row.capture_fields() | {"include_stop_str_in_output": True}
            if top_k:
                body |= {"top_logprobs": top_k, "return_tokens_as_token_ids": True}
        answer = self._ask(self._transport.chat_path, body)
        choices = self._read_choices(answer, model, None)[:n]
        return self._share(answer, [self._read(self._read_chat, choice, answer) for choice in choices])

    def score(
        self, rows: Sequence[Sequence[int]], *, model: str, starts: Sequence[int] | None = None
    ) -> list[list[float]]:
        """Log-prob of each row's tokens given all before them, under `model`, in one request.

        Args:
            starts: each row's first token that is looked at, at least 1; None: all but the first of each.
        Returns:
            (len(rows), length - start)
        """
        starts = [1] * len(rows) if starts is None else starts
        choices = self._score(rows, model, starts)
        return [_read_prompt_logprobs(*each) for each in zip(choices, rows, starts, strict=True)]

    def score_answers(
        self, answered: Sequence[tuple[Sequence[int], Sequence[int]]], *, model: str
    ) -> list[list[float]]:
        """Log-prob of each answer's tokens behind its prompt: (len(answered), length of the answer)."""
        rows = [[*prompt, *answer] for prompt, answer in answered]
        return self.score(rows, model=model, starts=[len(prompt) for prompt, _ in answered])

    def score_texts(self, texts: Sequence[str], *, model: str) -> list[list[float]]:
        """Log-prob of every token of each text but the first, as the server tokenises it; in one request."""
        return [_read_text_logprobs(choice) for choice in self._score(list(texts), model)]

    def _score(
        self, prompts: Sequence[str | Sequence[int]], model: str, starts: Sequence[int] = ()
    ) -> Sequence[Mapping[str, Any]]:
        """What the server tells of each prompt, of which it is to draw no more than it must.

        `logprob_start_len` spares our engine what stands before it; vLLM looks over it and tells all.
        """
        if not prompts:
            return []
        body = {"model": model, "prompt": prompts, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        if any(start > 1 for start in starts):
            body["logprob_start_len"] = list(starts)
        answer = self._ask(self._transport.completions_path, body)
        return self._read_choices(answer, model, len(prompts))

    def tokenize(self, text: str, *, model: str) -> tuple[int, ...]:
        """Token ids of a text, without the special tokens that a prompt would get; asked once in a process.

        Args:
            model: name of a base model, which keeps its tokenizer for good.
        """
        return _tokenize_once(self, text, model)

    @property
    def tokenizes(self) -> bool:
        """Whether the server says how it tokenises a text or a conversation."""
        return self._row.tokenizes

    def tokenize_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str,
        tools: Sequence[Mapping[str, Any]] = (),
        is_open: bool = True,
    ) -> list[int]:
        """Token ids of a conversation in the model's own template.

        Args:
            is_open: with what opens the model's next answer.
        """
        body = {"model": model, "messages": show_pictures(messages), "add_generation_prompt": is_open}
        return _read_tokens(
            self._transport.call_server("POST", "/tokenize", body | ({"tools": tools} if tools else {})), self.base_url
        )

    def _tokenize(self, text: str, model: str) -> tuple[int, ...]:
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        return tuple(_read_tokens(self._transport.call_server("POST", "/tokenize", body), self.base_url))

    def _spell_tokens(self, sample: Sample, model: str) -> Sample:
        """The sample with its tokens' texts, which a server that names tokens by id leaves out."""
        return replace(sample, token_texts=[_detokenize_once(self, token, model) for token in sample.token_ids])

    def _detokenize(self, token: int, model: str) -> str:
        answer = self._transport.call_server("POST", "/detokenize", {"model": model, "tokens": [token]})
        if not isinstance(answer, dict) or not isinstance(answer.get("prompt"), str):
            raise ProviderAnswerError(f"{self.base_url}/detokenize: wanted `prompt`, found {str(answer)[:200]}")
        text: str = answer["prompt"]
        return text

    def spell(self, token_ids: Sequence[int], *, model: str) -> list[str] | None:
        """What each token writes, by the server's own tokenizer; None where its text is not these tokens again.

        Args:
            model: name of a base model, or of an adapter, which has its base's tokenizer.
        """
        text = self._transport.call_server("POST", "/detokenize", {"model": model, "tokens": list(token_ids)})
        body = {
            "model": model,
            "prompt": text.get("prompt", ""),
            "add_special_tokens": False,
            "return_token_strs": True,
        }
        answer = self._transport.call_server("POST", "/tokenize", body)
        try:
            found, pieces = [int(token) for token in answer["tokens"]], [str(one) for one in answer["token_strs"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ProviderAnswerError(
                f"{self.base_url}/tokenize: wanted `tokens` and `token_strs`, found {str(answer)[:200]}"
            ) from error
        return pieces if found == list(token_ids) and len(pieces) == len(found) else None

    def list_models(self) -> list[str]:
        """Names the server answers to: base models and adapters."""
        return list(self._routes.find_directories())

    def find_context(self, model: str) -> int | None:
        """Tokens that prompt and answer of a model may have together; None where the server does not say."""
        told = self._routes.find_cards().get(model, {}).get("max_model_len")
        return told if isinstance(told, int) and told > 0 else None

    def find_directories(self) -> dict[str, str]:
        """Each of these names -> the directory it was loaded from, "" where the server does not say."""
        return self._routes.find_directories()

    def load_adapter(self, name: str, path: str) -> None:
        """Have the server serve the adapter in `path` as `name`; loaded already from there is loaded.

        Raises:
            AdapterNameTakenError, AdapterNotLoadedError: the server has reasons that will not pass.
            ProviderBusyError: also where somebody else is just loading it.
        """
        self._routes.load(name, path)

    def unload_adapter(self, name: str) -> None:
        """Have the server forget an adapter; what runs already ends on it. Unknown already is unloaded."""
        self._routes.unload(name)

    def can_load_adapters(self) -> bool:
        """Whether the server loads adapters while it runs, as far as asking shows."""
        return self._routes.can_load()

    def find_busy_adapters(self) -> frozenset[str]:
        """Adapters with requests under way, of a server that needs them loaded until these have ended: vLLM.

        Ours lets a request end on what it was admitted with, whatever is unloaded meanwhile.
        """
        return self._routes.find_busy() if self.kind == "vllm" else frozenset()

    def load_reward_head(self, name: str, path: str) -> None:
        """Have the engine serve the step scorer in `path` as `name`; loaded already is loaded: names are immutable."""
        try:
            self._transport.call_api("POST", "/load_reward_head", {"head_name": name, "head_path": path})
        except ProviderRefusedError as error:
            if error.server_code != NAME_TAKEN:
                raise

    def score_steps(self, items: Sequence[Mapping[str, Any]], *, head: str) -> list[list[float]]:
        """A step scorer's probability that each step is good, in [0, 1]; one list an item.

        Args:
            items: {"prompt_token_ids", "token_ids", "steps": [[start, end], …]} each.
        """
        if not items:
            return []
        answer = self._transport.call_api("POST", "/score_steps", {"head": head, "items": items})
        try:
            found = [[float(score) for score in entry["scores"]] for entry in answer["data"]]
            if answer["model"] != head or [len(row) for row in found] != [len(item["steps"]) for item in items]:
                raise ValueError("other steps or another scorer")
        except (KeyError, TypeError, ValueError) as error:
            raise ProviderAnswerError(
                f"{self.base_url}/score_steps: wanted a score a step by {head!r}, found {str(answer)[:200]}"
            ) from error
        return found

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        """Have the model answer, in OpenAI's form whatever the server speaks."""
        kept = find_written_answers() or (find_kept_answers() if self.keeps_answers else None)
        if kept is None:
            return self._ask_server(path, body)
        asked = name_asked(self.base_url, path, body)
        if (known := kept.take(asked)) is not None:
            return known
        try:
            answer = self._ask_server(path, body)
        except PacedError as error:
            kept.keep(error.retry_after_s or 0.0)
            raise
        kept.add(asked, answer)
        return answer

    def _ask_server(self, path: str, body: dict[str, Any]) -> Any:
        """The same, of the server itself, and tell what it took."""
        model = str(body["model"])
        room = self.allowance.hold(model, self._guess(body)) if self.allowance is not None else None
        started = perf_counter()
        answer: Any
        try:
            if self._row.dialect == "anthropic":
                answer = self._translate(self._transport.call("POST", path, to_anthropic(body)))
            else:
                answer = self._transport.call("POST", path, body)
            use = read_token_use(answer.get("usage")) if isinstance(answer, dict) else NOTHING_USED
            if room is not None:
                room.settle(use)
        finally:
            if room is not None:
                room.release()
        if self.on_answer is not None and isinstance(answer, dict):
            self.on_answer(model, str(answer.get("model") or ""), use, perf_counter() - started)
        return answer

    def _guess(self, body: Mapping[str, Any]) -> TokenUse:
        """What a call may take at most, near enough to hold room for it until its answer says."""
        prompts = body.get("prompt")
        count = len(prompts) if isinstance(prompts, Sequence) and not isinstance(prompts, str) else 1
        most = body.get("max_tokens") or body.get(self._row.max_tokens_field) or 0
        prompt = guess_prompt_tokens(len(orjson.dumps(body, default=str)))
        return TokenUse(prompt, count * int(body.get("n") or 1) * int(most))

    def _translate(self, answer: Any) -> dict[str, Any]:
        try:
            return from_anthropic(answer)
        except (AttributeError, KeyError, TypeError) as error:
            raise ProviderAnswerError(f"{self.base_url}: wanted a message, found {str(answer)[:200]}") from error

    def _share(self, answer: Any, samples: list[Sample]) -> list[Sample]:
        shares = share_token_use(read_token_use(answer.get("usage")), len(samples))
        return [replace(sample, use=share) for sample, share in zip(samples, shares, strict=True)]

    def _read_chat(self, choice: Mapping[str, Any], answer: Mapping[str, Any]) -> Sample:
        message = choice.get("message") or {}
        reasoning = message.get(self._row.reasoning_field) if self._row.reasoning_field else ""
        return replace(_read_chat(choice, answer), reasoning=reasoning if isinstance(reasoning, str) else "")

    def _read(
        self, reader: Callable[[Mapping[str, Any], Mapping[str, Any]], Sample], choice: Mapping[str, Any], answer: Any
    ) -> Sample:
        try:
            return reader(choice, answer)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProviderAnswerError(
                f"{self.base_url}: unreadable choice ({type(error).__name__} {error}): {str(choice)[:200]}"
            ) from error

    def _read_choices(self, answer: Any, model: str, count: int | None) -> list[dict[str, Any]]:
        """The answer's choices in order; `count` is how many there must be (None: one or more).

        A vLLM server must also say that it was `model` that answered: another adapter's tokens would be trained on
        under a false name.
        """
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise ProviderAnswerError(f"{self.base_url}: wanted `choices`, found {str(answer)[:200]}")
        if (count is not None and len(choices) != count) or not choices:
            raise ProviderAnswerError(f"{self.base_url}: wanted {count or 'some'} choices, found {len(choices)}")
        if self.tells_tokens and answer.get("model") != model:
            raise ProviderAnswerError(f"{self.base_url}: wanted {model!r} to answer, found {answer.get('model')!r}")
        return sorted(choices, key=lambda choice: choice.get("index", 0))


@lru_cache(maxsize=4096)
def _tokenize_once(client: ModelClient, text: str, model: str) -> tuple[int, ...]:
    return client._tokenize(text, model)


@lru_cache(maxsize=65_536)
def _detokenize_once(client: ModelClient, token: int, model: str) -> str:
    return client._detokenize(token, model)


def _read_tokens(answer: Any, base_url: str) -> list[int]:
    try:
        return [int(token) for token in answer["tokens"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ProviderAnswerError(f"{base_url}/tokenize: wanted `tokens`, found {str(answer)[:200]}") from error


_BY_ID = "token_id:"


def _read_top(entries: Iterable[tuple[str, float]]) -> list[tuple[int, float]]:
    """Alternatives named `token_id:N`, most likely first; the sampled token may be among them once more than asked."""
    found = [(int(name.removeprefix(_BY_ID)), value) for name, value in entries if name.startswith(_BY_ID)]
    return sorted(found, key=lambda entry: -entry[1])


def _read_completion(choice: Mapping[str, Any], answer: Mapping[str, Any]) -> Sample:
    logprobs = choice.get("logprobs") or {}
    return Sample(
        text=choice.get("text") or "",
        finish_reason=choice.get("finish_reason") or "",
        served_by=str(answer.get("model") or ""),
        token_ids=choice.get("token_ids") or (),
        logprobs=logprobs.get("token_logprobs") or (),
        token_texts=logprobs.get("tokens") or (),
        prompt_token_ids=choice.get("prompt_token_ids") or (),
        top=[_read_top(entry.items()) for entry in logprobs.get("top_logprobs") or ()],
    )


_REPLACED = "\ufffd".encode()
"""What stands for a NUL character in texts: Postgres stores none."""


def _read_chat(choice: Mapping[str, Any], answer: Mapping[str, Any]) -> Sample:
    message = choice.get("message") or {}
    entries = (choice.get("logprobs") or {}).get("content") or ()
    has_bytes = all(isinstance(entry.get("bytes"), list) for entry in entries)
    return Sample(
        text=_read_content(message.get("content")),
        finish_reason=choice.get("finish_reason") or "",
        served_by=str(answer.get("model") or ""),
        token_ids=choice.get("token_ids") or (),
        logprobs=[entry["logprob"] for entry in entries],
        token_texts=[bytes(entry["bytes"]).replace(b"\0", _REPLACED) for entry in entries]
        if has_bytes
        else [entry["token"] for entry in entries],
        prompt_token_ids=answer.get("prompt_token_ids") or (),
        top=[_read_top((one["token"], one["logprob"]) for one in entry.get("top_logprobs") or ()) for entry in entries],
        tool_calls=message.get("tool_calls") or (),
    )


def _read_content(content: Any) -> str:
    """The text of a message, which some servers give in parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content if part.get("type") == "text")


def _read_prompt_logprobs(choice: Mapping[str, Any], row: Sequence[int], start: int) -> list[float]:
    entries = choice.get("prompt_logprobs")
    if not isinstance(entries, list) or len(entries) != len(row):
        raise ProviderAnswerError(
            f"wanted {len(row)} prompt log-probs, found {len(entries) if isinstance(entries, list) else entries!r}"
        )
    try:
        return [float(entry[str(token)]["logprob"]) for token, entry in zip(row[start:], entries[start:], strict=True)]
    except (KeyError, TypeError) as error:
        raise ProviderAnswerError(f"prompt log-probs do not name the prompt's tokens: {error}") from error


def _read_text_logprobs(choice: Mapping[str, Any]) -> list[float]:
    """Of a text that the server tokenised: one token a place, whatever its number is."""
    entries = choice.get("prompt_logprobs")
    try:
        found = [float(one["logprob"]) for entry in entries[1:] for one in entry.values()]  # type: ignore[index]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProviderAnswerError(f"wanted prompt log-probs of a text, found {str(entries)[:100]}") from error
    if not found or len(found) != len(entries) - 1:  # type: ignore[arg-type]
        raise ProviderAnswerError(f"wanted one log-prob a token of a text, found {str(entries)[:100]}")
    return found
