"""`python -m tests.bench.gpu`: an update of random-initialised Qwen2 shapes, ours beside Hugging Face with PEFT.

An update reads 256 answers to 32 prompts, 32,768 tokens as we lay them out, and steps the adapter once. Ours is the
trainer's own path: shared prompts, bfloat16, log-probs in blocks. The peer does what TRL's GRPO trainer does with the
same answers: a padded row an answer, PEFT's LoRA, all logits of a micro-batch at once. Both take turns on one device.
The ceiling is what a product of two large matrices reaches there. Without a GPU only `--sizes tiny` is any use.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from gpu_workers.backends.adapter_files import start_adapter
from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.micro_batches import pack_items
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.desk import base_directory
from gpu_workers.process import prepare_process
from tentalis.core.learning.recipes import Recipe

CACHE = Path(".cache/bench/gpu")
TASKS, GROUP, PROMPT, ANSWER = 32, 8, 128, 112
PEER_ROWS = 16
SIZES: Mapping[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4},
    "0.5b": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
    "1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
}
"""Shapes of Qwen2.5's config.json files; `tiny` is ours."""
PEAK_TFLOPS = {"H200": 989.4, "H100": 989.4, "A100": 312.0, "L40S": 362.1, "4090": 165.2}
"""Dense bfloat16, by NVIDIA's data sheets."""


def prepare_model(size: str) -> Path:
    """A model of this shape with random weights, kept on disk."""
    directory = CACHE.resolve() / size
    if not (directory / "config.json").exists():
        torch.manual_seed(0)
        words = 4_096 if size == "tiny" else 151_936
        config = Qwen2Config(**SIZES[size], num_key_value_heads=2, vocab_size=words, tie_word_embeddings=True)
        model: Any = Qwen2ForCausalLM(config)
        model.to(torch.bfloat16).save_pretrained(directory)
        AutoTokenizer.from_pretrained(base_directory()).save_pretrained(directory)
    return directory


def draw_items(words: int, *, answer: int) -> list[tuple[list[int], list[int]]]:
    """(prompt, answer) token ids; the answers to one prompt follow each other."""
    torch.manual_seed(1)
    prompts = torch.randint(words, (TASKS, PROMPT)).tolist()
    answers = torch.randint(words, (TASKS, GROUP, answer)).tolist()
    return [(prompt, one) for prompt, group in zip(prompts, answers, strict=True) for one in group]


class Ours:
    """The trainer's path."""

    def __init__(self, base: BaseModel, items: Sequence[tuple[list[int], list[int]]], recipe: Recipe) -> None:
        self.base, self.recipe = base, recipe
        self.linears = base.find_linears(recipe.target_modules)
        self.optimizer = Optimizer(start_adapter(self.linears, rank=recipe.lora_rank, seed=0), recipe, base.device)
        self.batches = [batch for batch, _ in pack_items(items, base)]

    def update(self) -> None:
        total = 0.0
        for batch in self.batches:
            changes = self.optimizer.changes(self.linears, self.recipe.lora_scale)
            loss = _loss(self.base.score(batch, changes).logprobs)
            torch.autograd.backward(loss)
            total += float(loss.detach())
        self.optimizer.step(total)


class Peer:
    """Hugging Face's model with PEFT's LoRA, a row an answer."""

    def __init__(self, directory: Path, items: Sequence[tuple[list[int], list[int]]], recipe: Recipe) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
        config = LoraConfig(
            r=recipe.lora_rank, lora_alpha=int(recipe.lora_alpha), target_modules=list(recipe.target_modules)
        )
        self.model: Any = get_peft_model(model.to(device), config)
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(weights, lr=recipe.learning_rate, fused=True)
        self.rows = torch.tensor([[*prompt, *answer] for prompt, answer in items], device=device)

    def update(self) -> None:
        for rows in torch.split(self.rows, PEER_ROWS):
            answers = rows[:, PROMPT:]
            logits = self.model(input_ids=rows, logits_to_keep=answers.shape[1] + 1).logits[:, :-1]
            logprobs = logits.float().log_softmax(-1).gather(-1, answers[..., None])
            torch.autograd.backward(_loss(logprobs))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def _loss(logprobs: Tensor) -> Tensor:
    return -(logprobs - logprobs.detach()).exp().sum() / (TASKS * GROUP)


def count_flops(base: BaseModel, *, answer: int) -> float:
    """Of one update as we lay it out: forward, and backward to what flows through the frozen weights.

    A frozen weight has no gradient of its own, so a token costs 4 operations a weight, not 6.
    """
    layers = sum(weight.numel() for weight in base.find_linears(Recipe().target_modules).values())
    tokens, answered = TASKS * (PROMPT + GROUP * answer), TASKS * GROUP * answer
    seen = TASKS * (PROMPT**2 / 2 + GROUP * answer * (PROMPT + answer / 2))  # pairs of a query and a key
    config: Any = base.model.config
    attention = 12 * seen * config.hidden_size * config.num_hidden_layers
    return float(4 * layers * tokens + attention + 4 * base.vocabulary_size * config.hidden_size * answered)


def measure(work: Callable[[], None], device: torch.device) -> float:
    """Wall seconds of one call."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure_ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a large matrix product."""
    size = 8_192 if device.type == "cuda" else 1_024
    one = torch.randn(size, size, device=device, dtype=dtype)
    times = [measure(lambda: _multiply(one), device) for _ in range(6)][1:]
    return 2 * size**3 / statistics.median(times)


def _multiply(one: Tensor) -> None:
    torch.mm(one, one)


def measure_size(size: str, *, rounds: int, answer: int) -> dict[str, Any]:
    on_gpu = torch.cuda.is_available()
    recipe = Recipe(precision="bfloat16" if on_gpu else "float32")
    directory = prepare_model(size)
    base = load_base(str(directory), precision=recipe.precision)
    items = draw_items(base.vocabulary_size, answer=answer)
    ceiling = measure_ceiling(base.device, getattr(torch, recipe.precision))
    ours, peer = Ours(base, items, recipe), Peer(directory, items, recipe)
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(rounds + 1):
        times["ours"].append(measure(ours.update, base.device))
        times["peer"].append(measure(peer.update, base.device))
    mine, theirs = (statistics.median(times[side][1:]) for side in ("ours", "peer"))
    reached = count_flops(base, answer=answer) / mine
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    peak = next((peak * 1e12 for known, peak in PEAK_TFLOPS.items() if known in name), None)
    return {
        "size": size,
        "device": name,
        "tokens": TASKS * (PROMPT + GROUP * answer),
        "update_s": mine,
        "peer_update_s": theirs,
        "samples_per_s": TASKS * GROUP / mine,
        "speedup": theirs / mine,
        "mfu": None if peak is None else reached / peak,
        "of_ceiling": reached / ceiling,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--sizes", nargs="+", choices=sorted(SIZES), default=["0.5b", "1.5b"] if on_gpu else ["tiny"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--answer", type=int, default=ANSWER, help="tokens an answer")
    options = parser.parse_args(argv)
    prepare_process()
    rows = [measure_size(size, rounds=options.rounds, answer=options.answer) for size in options.sizes]
    print(f"{'':6}{'tokens':>9}{'s/update':>10}{'samples/s':>11}{'x peer':>8}{'MFU':>7}{'of a product':>14}")
    for row in rows:
        mfu = "-" if row["mfu"] is None else f"{row['mfu']:.0%}"
        print(
            f"{row['size']:6}{row['tokens']:9,}{row['update_s']:10.3f}{row['samples_per_s']:11.1f}"
            f"{row['speedup']:8.2f}{mfu:>7}{row['of_ceiling']:14.0%}"
        )
    print(f"on {rows[0]['device']}. Wanted on a GPU: 35 % of its peak (MFU) at 32k tokens an update or more.")
    print(json.dumps({"bench": "gpu", "rows": rows, "ratios": {row["size"]: row["speedup"] for row in rows}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
