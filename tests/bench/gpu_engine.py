"""`python -m tests.bench.gpu_engine`: decoding on a GPU, the engine's scheduler beside Hugging Face's `generate`.

Random-initialised Qwen2 shapes in bfloat16, made on the card itself; no tokenizer, no server, no file. Both sides draw
at temperature 1 from prompts of 64 tokens, the reading of them counted in. Then, of the engine's own answers, how far
the log-probs that it told lie from those of Hugging Face's forward in bfloat16 and in float32. Every figure is printed
as it is found; the last line is one JSON object. Without a GPU only `--sizes tiny` is any use, and nothing else runs.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from gpu_workers.engine.caches import Work
from gpu_workers.engine.checkpoint import plain_shape
from gpu_workers.engine.jobs import Job, Sample, SamplingOptions
from gpu_workers.engine.lora import LoraPair
from gpu_workers.engine.models import LoadedModel
from gpu_workers.engine.plain_model import PlainModel
from gpu_workers.engine.scheduler import Scheduler
from tests.bench.hugging_face import draw_answers

PROMPT, SEQUENCES, BAR = 64, (1, 8, 32, 128), 5.0
RANK, ALPHA = 16, 32
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SIZES: Mapping[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4},
    "0.5b": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
    "1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
}
"""Shapes of Qwen2.5's config.json files; `tiny` is ours."""


class Clock:
    """Says what took how long, and when there is no time left to begin anything."""

    def __init__(self, budget_s: float) -> None:
        self._began_s = self._last_s = time.perf_counter()
        self._budget_s = budget_s

    @property
    def is_over(self) -> bool:
        return time.perf_counter() - self._began_s > self._budget_s

    def say(self, words: str) -> None:
        now_s = time.perf_counter()
        print(f"[{now_s - self._began_s:6.1f} s, +{now_s - self._last_s:5.1f}] {words}", flush=True)
        self._last_s = now_s


def make_reference(size: str, device: torch.device, precision: torch.dtype) -> Any:
    torch.manual_seed(0)
    words = 16_384 if size == "tiny" else 151_936
    config = Qwen2Config(**SIZES[size], num_key_value_heads=2, vocab_size=words, tie_word_embeddings=True)
    with torch.device(device):
        model: Any = Qwen2ForCausalLM(config)
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(weight, 0, 0.1)
    for (
        weight
    ) in model.parameters():  # and no buffer: the turns' frequencies stay float32, as in a model that was loaded
        weight.data = weight.data.to(precision)
    model.eval()
    model.generation_config.eos_token_id = None
    return model


def make_ours(reference: Any, precision: torch.dtype, device: torch.device, *, records: bool) -> PlainModel:
    shape = plain_shape(reference.config.to_dict())
    assert shape is not None
    record = None if device.type == "cuda" and records else _repeat
    weights = {name: weight.detach() for name, weight in reference.state_dict().items()}
    return PlainModel(shape, weights, merges_adapters=False, precision=precision, device=device, record=record)


def _repeat(work: Work) -> Work:
    return work


class Ours:
    """The engine without its server."""

    def __init__(self, model: PlainModel) -> None:
        self.loaded = LoadedModel("bench", model, "", "")
        self.scheduler = Scheduler(
            codec=None, end_ids=frozenset(), prefix_bytes=512 << 20, vocabulary_size=model.vocabulary_size
        )

    def draw(self, prompts: Sequence[Sequence[int]], n: int, most: int, seed: int) -> list[Sample]:
        job = Job(self.loaded, prompts, SamplingOptions(n=n, max_tokens=most, seed=seed, ignores_eos=True))
        self.scheduler.submit(job)
        while not job.is_over:
            self.scheduler.step()
        return job.finished_samples()


def draw_reference(model: Any, prompts: Tensor, n: int, most: int) -> int:
    return int(draw_answers(model, prompts, torch.ones_like(prompts), n, most, least=most).numel())


def measure(device: torch.device, work: Any) -> tuple[float, int]:
    """Wall seconds of one call, and the tokens that it drew."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    began_s = time.perf_counter()
    tokens = int(work())
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began_s, tokens


def measure_rows(
    ours: Ours, reference: Any, device: torch.device, *, rows: int, most: int, rounds: int, groups: int = 1
) -> dict[str, Any]:
    """Tokens a second of `rows` sequences, `groups` of them from each prompt."""
    torch.manual_seed(rows)

    def make_prompts() -> Tensor:  # new ones each time, so that nothing of them is known
        return torch.randint(reference.config.vocab_size, (rows // groups, PROMPT))

    def draw_ours(seed: int) -> int:
        return sum(len(sample.token_ids) for sample in ours.draw(make_prompts().tolist(), groups, most, seed))

    draw_ours(0)
    draw_ours(1)  # each size of a step is recorded when it is met a second time
    mine = [tokens / seconds for seconds, tokens in (measure(device, lambda: draw_ours(2)) for _ in range(rounds))]
    draw_reference(reference, make_prompts().to(device), groups, 4)
    seconds, tokens = measure(device, lambda: draw_reference(reference, make_prompts().to(device), groups, most))
    found = {"sequences": rows, "ours": statistics.median(mine), "peer": tokens / seconds}
    return {**found, "ratio": found["ours"] / found["peer"]}


def compare_logprobs(samples: Sequence[Sample], prompts: Sequence[Sequence[int]], judge: Any) -> Tensor:
    """What the engine told minus what a Hugging Face forward says, of every token."""
    found = []
    for prompt, sample in zip(prompts, samples, strict=True):
        ids = torch.tensor([[*prompt, *sample.token_ids]], device=judge.device)
        with torch.inference_mode():
            logits = judge(input_ids=ids).logits[0, len(prompt) - 1 : -1].double()
        own = logits.log_softmax(-1).gather(-1, torch.tensor(sample.token_ids, device=judge.device)[:, None])[:, 0]
        found.append(torch.from_numpy(sample.logprobs).double() - own.cpu())
    return torch.cat(found)


def describe(differences: Tensor) -> dict[str, float]:
    ratios = differences.exp()
    return {
        "mean_abs": float(differences.abs().mean()),
        "max_abs": float(differences.abs().max()),
        "mean_ratio": float(ratios.mean()),
        "largest_ratio": float(ratios.max()),
    }


def read_pairs(adapted: Any) -> dict[str, LoraPair]:
    """The adapter of a PEFT model, by the base's weight names."""
    halves: dict[str, dict[str, Tensor]] = {}
    for name, weight in adapted.named_parameters():
        for half in ("lora_A", "lora_B"):
            if f".{half}." in name:
                own = name.removeprefix("base_model.model.").split(f".{half}.")[0] + ".weight"
                halves.setdefault(own, {})[half] = weight.detach().float().cpu()
    return {name: LoraPair(pair["lora_A"], pair["lora_B"], ALPHA / RANK) for name, pair in halves.items()}


def adapt_both(reference: Any, model: PlainModel) -> tuple[Any, PlainModel]:
    """The same random adapter on both sides."""
    torch.manual_seed(7)
    adapted: Any = get_peft_model(
        reference, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS), autocast_adapter_dtype=False
    )
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, 0.02)
    adapted.eval()
    return adapted, model.adapt(read_pairs(adapted))


def measure_size(
    size: str, device: torch.device, clock: Clock, *, sequences: Sequence[int], most: int, rounds: int, records: bool
) -> dict[str, Any]:
    precision = torch.bfloat16
    reference = make_reference(size, device, precision)
    model = make_ours(reference, precision, device, records=records)
    ours = Ours(model)
    clock.say(f"{size}: made")
    found: dict[str, Any] = {"size": size, "rows": [], "left_out": []}
    for rows in sequences:
        if clock.is_over:
            found["left_out"].append(rows)
            continue
        row = measure_rows(ours, reference, device, rows=rows, most=most, rounds=rounds)
        found["rows"].append(row)
        clock.say(
            f"{size}: {rows:4} sequences: {row['ours']:9.0f} tokens/s, Hugging Face {row['peer']:8.0f}: "
            f"{row['ratio']:.1f} x (wanted {BAR:g})"
        )
    if not clock.is_over:
        row = measure_rows(
            ours, reference, device, rows=max(8, max(sequences) // 4), most=most, rounds=rounds, groups=8
        )
        found["groups_of_8"] = row
        clock.say(f"{size}: groups of 8, {row['sequences']}: {row['ours']:.0f} against {row['peer']:.0f} tokens/s")
    prompts = torch.randint(reference.config.vocab_size, (8, PROMPT)).tolist()
    samples = ours.draw(prompts, 1, most, 5)
    found["against_bfloat16"] = describe(compare_logprobs(samples, prompts, reference))
    exact = make_reference(size, device, precision).float()  # the same rounded weights
    found["against_float32"] = describe(compare_logprobs(samples, prompts, exact))
    clock.say(f"{size}: log-probs against bfloat16's forward {found['against_bfloat16']}")
    clock.say(f"{size}: log-probs against float32's forward {found['against_float32']}")
    precise = Ours(make_ours(exact, torch.float32, device, records=records))
    found["float32_against_float32"] = describe(
        compare_logprobs(precise.draw(prompts, 1, min(most, 32), 5), prompts, exact)
    )
    clock.say(f"{size}: in float32 against float32's forward {found['float32_against_float32']}")
    del exact, precise
    adapted, adapted_model = adapt_both(reference, model)
    lora = Ours(adapted_model)
    if not clock.is_over:
        row = measure_rows(lora, adapted, device, rows=min(32, max(sequences)), most=most, rounds=rounds)
        row["logprobs"] = describe(compare_logprobs(lora.draw(prompts, 1, min(most, 32), 5), prompts, adapted))
        found["with_lora"] = row
        clock.say(
            f"{size}: with LoRA, {row['sequences']} sequences: {row['ours']:.0f} against {row['peer']:.0f} tokens/s, "
            f"{row['ratio']:.1f} x; log-probs {row['logprobs']}"
        )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when the bar is missed on a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--sizes", nargs="+", choices=sorted(SIZES), default=["0.5b", "1.5b"])
    parser.add_argument("--sequences", nargs="+", type=int, default=list(SEQUENCES))
    parser.add_argument("--tokens", type=int, default=96, help="new ones a sequence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget-s", type=float, default=200.0, help="after which nothing new is measured")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    options = parser.parse_args(argv)
    if not on_gpu and options.sizes != ["tiny"]:
        print("SKIPPED: no GPU here. `--sizes tiny` runs the same code on the CPU; its figures mean nothing.")
        print(json.dumps({"bench": "gpu_engine", "rows": [], "skipped": "no GPU", "holds": None}))
        return 0
    device = torch.device("cuda" if on_gpu else "cpu")
    clock = Clock(options.budget_s)
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    clock.say(f"on {name}, torch {torch.__version__}")
    found = [
        measure_size(
            size,
            device,
            clock,
            sequences=options.sequences,
            most=options.tokens,
            rounds=options.rounds,
            records=not options.eager,
        )
        for size in options.sizes
    ]
    ratios = {f"{one['size']} x {row['sequences']}": round(row["ratio"], 2) for one in found for row in one["rows"]}
    holds = min(ratios.values()) >= BAR if on_gpu else None
    print(f"on {name}. Wanted: {BAR:g} x Hugging Face's generate. Found: {ratios}")
    print(json.dumps({"bench": "gpu_engine", "device": name, "rows": found, "ratios": ratios, "holds": holds}))
    return 1 if holds is False else 0


if __name__ == "__main__":
    sys.exit(main())
