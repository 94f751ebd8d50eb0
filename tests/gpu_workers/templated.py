"""Tiny models that read bytes through the chat templates of real families, and servers that answer with them."""

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from gpu_workers.backends.base_models import load_base
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import RolloutRecord
from tentalis.core.hints import hinted_messages
from tests.gpu_workers.hugging_face import module_of

TEMPLATES = Path(__file__).parent / "templates"
FAMILIES = ("qwen2.5", "qwen3", "llama3", "gemma")
HINT = "Name the fee of 3 EUR."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Look a price up.",
            "parameters": {
                "type": "object",
                "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["item"],
            },
        },
    }
]
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"item": "mug", "count": 2}'}}
PARTS = [{"type": "text", "text": "Total of two mugs?"}, {"type": "text", "text": "New client."}]
CONVERSATIONS: Mapping[str, list[dict[str, Any]]] = {
    "plain": [{"role": "user", "content": "Total of two mugs?"}],
    "system": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Total of two mugs?"}],
    "parts": [{"role": "user", "content": PARTS}],
    "call without content": [
        {"role": "user", "content": "Total of two mugs?"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "4 EUR"},
    ],
    "call with null": [
        {"role": "user", "content": PARTS},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "4 EUR"},
    ],
}


@cache
def make_templated_model(family: str, template: str = "") -> Path:
    """A Qwen2 of one layer that reads bytes, with a family's chat template, or the given one."""
    fast = _make_byte_tokenizer(family, template)
    torch.manual_seed(0)
    return _save_model(fast, hidden_size=16, initializer_range=0.2, tie_word_embeddings=True)[0]


def make_reciting_model(*pieces: str) -> Path:
    """As `make_templated_model` of Qwen2.5, whose weights are set so that it always answers with these pieces, a token
    each."""
    fast = _make_byte_tokenizer("qwen2.5")
    fast.add_tokens([AddedToken(piece, normalized=False) for piece in pieces])
    said = [*map(fast.get_vocab().__getitem__, ["Ċ", *pieces]), 1]  # behind a prompt's end
    size = len(fast) + len(fast) % 2
    directory, model = _save_model(fast, hidden_size=size, tie_word_embeddings=False)
    with torch.no_grad():
        for name, values in model.named_parameters():
            values.fill_(1.0 if "norm" in name else 0.0)
        model.model.embed_tokens.weight.copy_(torch.eye(size)[: len(fast)])
        for token, following in pairwise(said):
            model.lm_head.weight[following, token] = 10.0
    model.save_pretrained(directory)
    return directory


def _make_byte_tokenizer(family: str, template: str = "") -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {letter: index for index, letter in enumerate(["<|pad|>", "<|end|>", "<|bos|>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        bos_token="<|bos|>",
        chat_template=template or (TEMPLATES / f"{family}.jinja").read_text(),
    )


def _save_model(tokenizer: PreTrainedTokenizerFast, **values: Any) -> tuple[Path, Qwen2ForCausalLM]:
    config = Qwen2Config(
        vocab_size=len(tokenizer), intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=4096, eos_token_id=1, **values,
    )  # fmt: skip
    directory, model = Path(mkdtemp(prefix="templated-model-")), Qwen2ForCausalLM(config)
    for one in (tokenizer, model):
        one.save_pretrained(directory)
    return directory, model


def serve_prompt(
    directory: Path,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    day: str = "",
    **variables: Any,
) -> tuple[int, ...]:
    """The prompt as vLLM serves it, rendered by Hugging Face's own code.

    Args:
        day: what the template calls today, in place of today.
    """
    tokenizer = PreTrainedTokenizerFast.from_pretrained(directory)
    prepared = [_prepare(message) for message in messages]
    text = tokenizer.apply_chat_template(
        prepared,
        tools=tools,
        tokenize=False,
        add_generation_prompt=True,
        **({"date_string": day} if day else {}),
        **variables,
    )
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def _prepare(message: Mapping[str, Any]) -> dict[str, Any]:
    """As vLLM's `parse_chat_messages`: texts joined by line breaks, arguments read."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    prepared: dict[str, Any] = {**copy.deepcopy(dict(message)), "content": content}
    for call in prepared.get("tool_calls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return prepared


def make_templated_rollouts(
    directory: Path, messages: Sequence[Mapping[str, Any]], prompt: Sequence[int], *, size: int = 4, **fields: Any
) -> list[RolloutRecord]:
    """Answers of the model's to one served prompt, even ones right, each with its own log-probs and a hint; as they
    come out of a batch's file."""
    base = load_base(str(directory))
    random = torch.Generator().manual_seed(3)
    rollouts = []
    for index in range(size):
        tokens = torch.randint(3, base.vocabulary_size, (4 + index,), generator=random).tolist()
        with torch.no_grad():
            logits = module_of(base)(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        values: dict[str, Any] = {
            "rollout_id": index,
            "group_id": 1,
            "adapter": "",
            "policy_version": 0,
            "messages": messages,
            "hinted_messages": hinted_messages(messages, HINT),
            "prompt_token_ids": prompt,
            "token_ids": tokens,
            "logprobs": logits.log_softmax(-1).gather(-1, torch.tensor(tokens)[:, None])[:, 0].tolist(),
            "sampled": [True] * len(tokens),
            "reward": float(index % 2 == 0),
        }
        record = RolloutRecord(**(values | fields))
        rollouts.append(RolloutRecord.from_json(json.loads(canonical_json(record.to_json()))))
    return rollouts
