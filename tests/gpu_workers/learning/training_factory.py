"""A small model, rollouts and specs for the tests of the trainer."""

import dataclasses
import hashlib
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from gpu_workers.backends.base_models import load_base
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import (
    AnswerRecord,
    DemonstrationRecord,
    PairRecord,
    RolloutRecord,
    StepReward,
    TrainSpec,
)
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.hugging_face import module_of

torch.set_num_threads(1)
WORDS = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", *(f"w{number}" for number in range(28))]
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|> {{ m['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
RECIPE = Recipe(lora_rank=4, lora_alpha=8.0)


def tiny_model() -> Path:
    """A Qwen2 of two layers and 32 words, on disk for the length of the test run."""
    return make_model(len(WORDS))


@cache
def make_model(size: int) -> Path:
    """The same of the first `size` of the words."""
    words = WORDS[:size]
    directory = Path(mkdtemp(prefix="tiny-model-"))
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=size,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.2,
        eos_token_id=words.index("<|end|>"),
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(config).save_pretrained(directory)
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<|pad|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", chat_template=TEMPLATE
    )
    fast.save_pretrained(directory)
    return directory


def make_rollouts(*, groups: int = 3, size: int = 4, seed: int = 0, **fields: Any) -> list[RolloutRecord]:
    """Random answers to a few prompts, with the tiny model's own log-probs; even answers are right."""
    rng = random.Random(seed)
    base = load_base(str(tiny_model()))
    rollouts = []
    for group in range(groups):
        messages = [{"role": "user", "content": f"w{group} w{group + 1}"}]
        hinted = [{"role": "user", "content": f"w{group} w{group + 1} w9"}]
        prompt = list(base.read_prompt(messages))
        for index in range(size):
            tokens = [*(rng.randrange(4, 32) for _ in range(rng.randint(2, 6))), 1]
            with torch.no_grad():
                logits = module_of(base)(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
            logprobs = logits.log_softmax(-1).gather(-1, torch.tensor(tokens)[:, None])[:, 0].tolist()
            values: dict[str, Any] = {
                "rollout_id": group * size + index,
                "group_id": group,
                "adapter": "",
                "policy_version": 0,
                "messages": messages,
                "hinted_messages": hinted,
                "prompt_token_ids": prompt,
                "token_ids": tokens,
                "logprobs": logprobs,
                "sampled": [True] * len(tokens),
                "reward": float(index % 2 == 0),
                "steps": [StepReward(start=0, end=len(tokens) - 1, score=float(index % 2 == 0))],
            }
            rollouts.append(RolloutRecord(**(values | fields)))
    return rollouts


def tell_tokens(tokens: Sequence[int], **fields: Any) -> AnswerRecord:
    """An answer of which every token counts."""
    return AnswerRecord(**{"token_ids": tokens, "counts": [True] * len(tokens)} | fields)


def make_spec(
    directory: Path,
    rollouts: Sequence[RolloutRecord | PairRecord | DemonstrationRecord],
    *,
    recipe: Recipe | Mapping[str, Any] = RECIPE,
    parent: tuple[str, str] | None = None,
    **fields: Any,
) -> TrainSpec:
    """A spec over these rollouts, written under `directory`; its output goes to `directory/out`."""
    directory.mkdir(parents=True, exist_ok=True)
    content = b"\n".join(canonical_json(rollout.to_json()) for rollout in rollouts)
    (directory / "rollouts.jsonl").write_bytes(content)
    spec = TrainSpec(
        run_id=1,
        attempt=1,
        worker="tester",
        base_model=str(tiny_model()),
        parent_adapter_uri=parent[0] if parent else None,
        parent_sha256=parent[1] if parent else None,
        policy_version=0,
        rollouts_uri=(directory / "rollouts.jsonl").as_uri(),
        rollouts_sha256=hashlib.sha256(content).hexdigest(),
        recipe=recipe.to_json() if isinstance(recipe, Recipe) else recipe,
        seed=7,
        output_uri=(directory / "out").as_uri(),
    )
    return dataclasses.replace(spec, **fields)
