"""Teaching a fresh model the grammar of calls, and what other houses do."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from gpu_workers.apprentice.lessons import Lesson, list_teachings
from gpu_workers.apprentice.tokenizer import make_tokenizer
from gpu_workers.base_making import IGNORED, compute_loss
from gpu_workers.engine.text import TextCodec

_TOKENIZER_LESSONS = 4_000
_WARM_UP_UPDATES = 50
_SORTED_BATCHES = 8
_LOGGED_EVERY = 100
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TeachingRecipe:
    """How the model is made; each update sees `batch_lessons` lessons, each drawn fresh.

    Args:
        learning_rate: of AdamW, for the embedding and the norms; layers_learning_rate: of Muon, for all else.
    """

    updates: int = 2_500
    batch_lessons: int = 48
    learning_rate: float = 5e-3
    layers_learning_rate: float = 2e-2
    layers: int = 4
    width: int = 128
    feed_forward: int = 320
    seed: int = 0


def draw_lessons(rng: Random) -> Iterator[Lesson]:
    """Lessons of all worlds, for ever."""
    teachings = list(list_teachings().values())
    weights = [one.weight for one in teachings]
    while True:
        yield rng.choices(teachings, weights)[0].draw_lesson(rng)


def render_lesson(codec: TextCodec, lesson: Lesson) -> str:
    return codec.render_chat(lesson.messages, add_generation_prompt=False, variables={"tools": lesson.tools})


def encode_lessons(codec: TextCodec, lessons: Sequence[Lesson]) -> list[tuple[list[int], list[int]]]:
    """Token ids and labels of lessons; only what the assistant says is labelled, its end token included."""
    texts = [render_lesson(codec, lesson) for lesson in lessons]
    (begins,), (ends,) = codec.encode(["<|assistant|>", "<|end|>"], add_special_tokens=False)
    rows = []
    for lesson, ids in zip(lessons, codec.encode(texts, add_special_tokens=False), strict=True):
        counts, turn, labels = False, 0, []
        for token in ids:
            labels.append(token if counts else IGNORED)
            if token == begins:
                counts = not lesson.learns or lesson.learns[turn]
                turn += 1
            elif token == ends:
                counts = False
        rows.append((ids, labels))
    return rows


def new_model(recipe: TeachingRecipe, tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """A randomly initialised model, drawn from torch's global generator."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.width,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.width // 32,
            num_key_value_heads=recipe.width // 64,
            intermediate_size=recipe.feed_forward,
            max_position_embeddings=2_048,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def teach(recipe: TeachingRecipe) -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast, float]:
    """Make tokenizer and model from nothing on one thread; the same recipe gives the same weights on one machine.

    Returns:
        model (float32), tokenizer, and the mean loss of the last 100 updates in nats a token.
    """
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    lessons = draw_lessons(Random(recipe.seed))
    tokenizer = make_tokenizer([next(lessons) for _ in range(_TOKENIZER_LESSONS)])
    codec = TextCodec(tokenizer.backend_tokenizer, str(tokenizer.chat_template), {})
    model = new_model(recipe, tokenizer)
    model.train()
    layers = [one for one in model.parameters() if one.ndim == 2 and one is not model.lm_head.weight]
    others = [one for one in model.parameters() if one.ndim != 2 or one is model.lm_head.weight]
    optimizers = [
        torch.optim.Muon(layers, lr=recipe.layers_learning_rate, weight_decay=0.05),
        torch.optim.AdamW(others, lr=recipe.learning_rate, weight_decay=0.0, betas=(0.9, 0.98)),
    ]
    rates = [recipe.layers_learning_rate, recipe.learning_rate]
    batches = _draw_batches(codec, lessons, Random(recipe.seed + 1), recipe.batch_lessons)
    losses: list[float] = []
    for update in range(recipe.updates):
        cosine = 0.5 * (1 + math.cos(math.pi * update / recipe.updates)) + 0.02
        for optimizer, rate in zip(optimizers, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * min(1.0, (update + 1) / _WARM_UP_UPDATES) * cosine
        loss = compute_loss(model, next(batches))
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        losses.append(float(loss.detach()))
        if update % _LOGGED_EVERY == _LOGGED_EVERY - 1:
            logger.info("update %d of %d: %.3f nats a token", update + 1, recipe.updates, _mean(losses))
    model.train(False)
    return model, tokenizer, _mean(losses)


def _mean(losses: Sequence[float]) -> float:
    recent = losses[-_LOGGED_EVERY:]
    return sum(recent) / len(recent)


def _draw_batches(
    codec: TextCodec, lessons: Iterator[Lesson], rng: Random, size: int
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Lessons about as long as each other go together: what is filled up is little."""
    while True:
        rows = encode_lessons(codec, [next(lessons) for _ in range(size * _SORTED_BATCHES)])
        rows.sort(key=lambda row: len(row[0]))
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        rng.shuffle(batches)
        yield from batches
