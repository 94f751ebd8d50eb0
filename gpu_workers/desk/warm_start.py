"""Warm start: teach a fresh tiny model the habits of several shops, so that reinforcement has a choice to make."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from gpu_workers.base_making import IGNORED, compute_loss
from gpu_workers.desk.corpus import HABITS, WarmStartExample, warm_start_example
from gpu_workers.desk.tokenizer import build_tokenizer
from tentalis.core.desk import END_MARK

_TOKENIZER_EXAMPLES = 3_000
_WARM_UP_UPDATES = 30


@dataclass(frozen=True)
class WarmStartRecipe:
    """How the base is trained; `updates` x `batch_size` examples, each drawn fresh.

    Args:
        habits: see `gpu_workers.desk.corpus.HABITS`; a small first number makes right answers rare.
    """

    updates: int = 2_000
    batch_size: int = 64
    learning_rate: float = 3e-3
    seed: int = 0
    habits: tuple[float, float, float] = HABITS


def new_model(vocabulary_size: int) -> Qwen2ForCausalLM:
    """A randomly initialised desk model (2 layers, width 64), drawn from torch's global generator."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=vocabulary_size,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=192,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


def encode_examples(
    tokenizer: PreTrainedTokenizerFast, examples: Sequence[WarmStartExample]
) -> list[tuple[list[int], list[int]]]:
    """Token ids and labels of corpus lines; the prompt and the tool's results carry no label."""
    starts, stops = {"</result>", "<|assistant|>"}, {"<result>"}
    begins = {tokenizer.convert_tokens_to_ids(token) for token in starts}
    ends = {tokenizer.convert_tokens_to_ids(token) for token in stops}
    prompts = tokenizer.apply_chat_template(
        [[{"role": "user", "content": example.prompt}] for example in examples],
        add_generation_prompt=True,
        tokenize=False,
    )
    texts = [prompt + example.completion + END_MARK for prompt, example in zip(prompts, examples, strict=True)]
    rows: list[tuple[list[int], list[int]]] = []
    for encoding in tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False):
        counts, labels = False, []
        for token in encoding.ids:
            counts = counts and token not in ends
            labels.append(token if counts else IGNORED)
            counts = counts or token in begins
        rows.append((encoding.ids, labels))
    return rows


def train_base(recipe: WarmStartRecipe) -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast, float]:
    """Make tokenizer and model from nothing on one thread; the same recipe gives the same weights on one machine.

    Returns:
        model (float32), tokenizer, and the mean loss of the last 100 updates in nats a token.
    """
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    rng = random.Random(recipe.seed)
    corpus = [warm_start_example(rng, recipe.habits) for _ in range(_TOKENIZER_EXAMPLES)]
    tokenizer = build_tokenizer(example.prompt + example.completion for example in corpus)
    model = new_model(len(tokenizer))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
    losses: list[float] = []
    for update in range(recipe.updates):
        cosine = 0.5 * (1 + math.cos(math.pi * update / recipe.updates)) + 0.02
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * min(1.0, (update + 1) / _WARM_UP_UPDATES) * cosine
        rows = encode_examples(tokenizer, [warm_start_example(rng, recipe.habits) for _ in range(recipe.batch_size)])
        loss = compute_loss(model, rows)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    recent = losses[-100:]
    model.train(False)
    return model, tokenizer, sum(recent) / len(recent)
