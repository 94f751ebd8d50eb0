"""`python -m tests.bench.gpu_training`: an update of random-initialised Qwen2 shapes on a GPU, and how busy that is.

An update reads 64 answers to 8 prompts, 36,864 tokens as the trainer lays them out (512 a prompt, 512 an answer), or
twice as many, and steps the adapter once: the trainer's own path, bfloat16 with the adapter in float32. Beside it
Hugging Face with PEFT does what TRL's GRPO trainer does with the same answers: a padded row an answer, all logits of a
micro-batch at once.

MFU is what the update needs at least over what the card could do in the same time. A frozen weight has no gradient of
its own: a token costs 4 operations a weight (2 forward, 2 backward), and 6 a number of A and B; attention 12 a query,
key and number of a head. `6N` is the usual count, 6 operations a weight and token, which is more than is needed here.
The ceiling is what a product of two large matrices reaches on the card. Nothing is read or fetched: weights are random.
Each is measured as written, with the kernels that torch compiles, and as the trainer runs it, with our own beside them.
Without a GPU only `--sizes tiny` is any use.
"""

import argparse
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import Qwen2Config, Qwen2ForCausalLM

from gpu_workers.backends.adapter_files import LoraTensors, start_adapter
from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.hugging_face_decoder import HuggingFaceDecoder
from gpu_workers.backends.micro_batches import Packed, pack_items
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.plain_decoder import PlainDecoder
from gpu_workers.engine.checkpoint import plain_shape
from gpu_workers.learning import fusing
from gpu_workers.learning.fusing import can_fuse
from gpu_workers.learning.gating import gate_silu
from gpu_workers.learning.logprobs import token_logprobs
from gpu_workers.learning.losses import clipped_surrogate
from gpu_workers.learning.packing import PackedRow, pack_rows
from gpu_workers.learning.shared_prefix import SharedBatch, share_prefixes
from tentalis.core.learning.recipes import Recipe
from tentalis.core.sizes import read_shape

PEER_ROWS = 8
RANK = 16
SIZES: Mapping[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4},
    "0.5b": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
    "1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
}
"""Shapes of Qwen2.5's config.json files; `tiny` is ours."""
PEAK_TFLOPS = {"H200": 989.4, "H100": 989.4, "A100": 312.0, "L40S": 362.1, "4090": 165.2}
"""Dense bfloat16, by NVIDIA's data sheets."""
WANTED_MFU = 0.35
MOST_GAP = 0.02
"""Of bfloat16 against float32, relative."""


class Work(NamedTuple):
    """Prompts, answers to each, and tokens of each."""

    tasks: int
    group: int
    prompt: int
    answer: int

    @property
    def read(self) -> int:
        """Tokens of an update, each prompt once."""
        return self.tasks * (self.prompt + self.group * self.answer)

    @property
    def answered(self) -> int:
        return self.tasks * self.group * self.answer


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Say how long a part of the run took."""
    began = time.perf_counter()
    yield
    print(f"[{time.perf_counter() - began:6.1f} s] {name}", flush=True)


WAYS = ("as written", "compiled", "fused")
"""`fused` is how the trainer runs where it can: our own kernels, and the rest compiled."""


@contextmanager
def going(way: str) -> Iterator[None]:
    """Compute in one of the ways."""
    kernels = fusing.KERNELS
    fusing.KERNELS = kernels and way == "fused"
    try:
        with torch.compiler.set_stance("force_eager" if way == "as written" else "default"):
            yield
    finally:
        fusing.KERNELS = kernels


def make_module(sizes: dict[str, Any], *, words: int, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Any:
    """Hugging Face's model of this shape with random weights, in memory alone."""
    torch.manual_seed(seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            config = Qwen2Config(**sizes, num_key_value_heads=2, vocab_size=words, tie_word_embeddings=True)
            module: Any = Qwen2ForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return module.eval().requires_grad_(False)


def wrap_module(module: Any) -> BaseModel:
    """The same weights for the trainer's own forward."""
    config, weights = module.config.to_dict(), module.state_dict()
    shape = plain_shape(config)
    if shape is None:
        raise SystemExit("the trainer's own forward does not know this shape")
    codec: Any = None
    return BaseModel(
        directory=Path("random"),
        sha256="",
        shape=read_shape("random", config),
        codec=codec,
        context_length=shape.context_length,
        end_ids=(),
        device=module.device,
        decoder=PlainDecoder(shape, {name: weights[name] for name in shape.choose_tensors(weights)}),
    )


def draw_items(words: int, work: Work) -> list[tuple[list[int], list[int]]]:
    """(prompt, answer) token ids; the answers to one prompt follow each other."""
    torch.manual_seed(1)
    prompts = torch.randint(words, (work.tasks, work.prompt)).tolist()
    answers = torch.randint(words, (work.tasks, work.group, work.answer)).tolist()
    return [(prompt, one) for prompt, group in zip(prompts, answers, strict=True) for one in group]


def start_moved(base: BaseModel, recipe: Recipe) -> LoraTensors:
    """An adapter that changes something, so that both of its factors have gradients."""
    fresh = start_adapter(base.find_linears(recipe.target_modules), rank=recipe.lora_rank, seed=3)
    torch.manual_seed(5)
    return LoraTensors(
        {name: torch.randn(one.shape) * 0.02 if "lora_B" in name else one for name, one in fresh.weights.items()}, {}
    )


class Ours:
    """The trainer's path."""

    def __init__(self, base: BaseModel, items: Sequence[tuple[list[int], list[int]]], recipe: Recipe) -> None:
        self.base, self.recipe, self.count = base, recipe, sum(len(answer) for _, answer in items)
        self.linears = base.find_linears(recipe.target_modules)
        self.optimizer = Optimizer(start_moved(base, recipe), recipe, base.device)
        self.batches: list[Packed] = [
            Packed(batch.to(base.device) if isinstance(batch, SharedBatch) else batch, members)
            for batch, members in pack_items(items, base)
        ]
        torch.manual_seed(2)
        self.advantages = [torch.randn(sum(batch.sizes), device=base.device) for batch, _ in self.batches]

    def backward(self) -> Tensor:
        """Gather the update's gradients; its loss."""
        total = torch.zeros((), device=self.base.device)
        for (batch, _), advantages in zip(self.batches, self.advantages, strict=True):
            found = self.base.score(batch, self.optimizer.changes(self.linears, self.recipe.lora_scale)).logprobs
            counts = torch.ones_like(advantages, dtype=torch.bool)
            loss = clipped_surrogate(found, found.detach(), advantages, counts, total=float(self.count))
            torch.autograd.backward(loss)
            total += loss.detach()
        return total

    def update(self) -> None:
        self.optimizer.step(float(self.backward()))


class Peer:
    """Hugging Face's model with PEFT's LoRA, a row an answer."""

    def __init__(self, module: Any, items: Sequence[tuple[list[int], list[int]]], recipe: Recipe, work: Work) -> None:
        config = LoraConfig(
            r=recipe.lora_rank, lora_alpha=int(recipe.lora_alpha), target_modules=list(recipe.target_modules)
        )
        self.model: Any = get_peft_model(module, config)
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(weights, lr=recipe.learning_rate, fused=True)
        self.rows = torch.tensor([[*prompt, *answer] for prompt, answer in items], device=module.device)
        self.work = work

    def update(self) -> None:
        for rows in torch.split(self.rows, PEER_ROWS):
            answers = rows[:, self.work.prompt :]
            logits = self.model(input_ids=rows, logits_to_keep=answers.shape[1] + 1).logits[:, :-1]
            logprobs = logits.float().log_softmax(-1).gather(-1, answers[..., None])
            loss = -(logprobs - logprobs.detach()).exp().sum() / self.work.answered
            torch.autograd.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class Needs(NamedTuple):
    """Operations of one update that no way of computing it can spare, and the usual count."""

    layers: float
    head: float
    attention: float
    low_rank: float
    usual: float

    @property
    def total(self) -> float:
        return self.layers + self.head + self.attention + self.low_rank


def count_needs(base: BaseModel, work: Work, *, rank: int) -> Needs:
    """Of one update as the trainer lays it out.

    Behind the last layer's attention only the tokens that predict an answer's are read, and nothing before the first
    layer wants a gradient.
    """
    shape = base.shape
    layers = low_rank = weights = 0.0
    for name, weight in base.find_linears(Recipe().target_modules).items():
        index, part = int(name.split(".")[2]), name.rpartition(".")[2]
        is_joining = part in ("q_proj", "k_proj", "v_proj")
        tokens = work.answered if index == shape.layers - 1 and not is_joining else work.read
        layers += (2 if index == 0 and is_joining else 4) * weight.numel() * tokens
        low_rank += 6 * rank * sum(weight.shape) * tokens
        weights += weight.numel()
    pairs = work.tasks * (work.prompt**2 / 2 + work.group * work.answer * (work.prompt + work.answer / 2))
    head = base.vocabulary_size * shape.width
    return Needs(
        layers=layers,
        head=4.0 * head * work.answered,
        attention=12.0 * pairs * shape.width * shape.layers,
        low_rank=low_rank,
        usual=6.0 * (weights + head) * work.read,
    )


def measure(action: Callable[[], Any], device: torch.device) -> float:
    """Wall seconds of one call."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure_ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a large matrix product of random numbers."""
    size = 8_192 if device.type == "cuda" else 512
    one, other = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    times = [measure(lambda: torch.mm(one, other), device) for _ in range(13)][3:]
    return 2 * size**3 / statistics.median(times)


def check_attention(device: torch.device, windows: Sequence[int | None]) -> dict[str, float]:
    """Attention by segments against the same with masks in float32: values and gradients."""
    gaps: dict[str, float] = {}
    rows = [PackedRow([1] * 37, [[2] * 29, [2] * 5]), PackedRow([1] * 150, [[2] * 64, [2], [2] * 90])]
    batch = share_prefixes(rows).to(device)
    for window in windows:
        for heads, groups in ((14, 2), (12, 2), (4, 4)):
            torch.manual_seed(heads)
            exact = [
                torch.randn(len(batch.token_ids), count, 64, device=device).bfloat16().float().requires_grad_()
                for count in (heads, groups, groups)
            ]
            coarse = [one.detach().bfloat16().requires_grad_() for one in exact]
            weights = torch.randn(len(batch.token_ids), heads * 64, device=device)
            found = []
            for side in (coarse, exact):
                out = batch.attend(side[0], side[1], side[2], window=window)
                found.append(
                    torch.cat(
                        [one.flatten().float() for one in (out, *torch.autograd.grad((out * weights).sum(), side))]
                    )
                )
            name = f"window {window}, {heads} heads over {groups}"
            gaps[name] = _gap(found[0], found[1].detach())
    worst = max(gaps, key=lambda name: gaps[name])
    print(f"  attention by segments: relative error at most {gaps[worst]:.2e} ({worst})", flush=True)
    return gaps


def check_gradient(device: torch.device, *, words: int) -> dict[str, float]:
    """The update's gradient of two layers at .5B widths: ours in float32 against all logits by Hugging Face's forward
    and torch's own gradient, and ours in bfloat16 against ours in float32."""
    work, recipe = Work(2, 3, 37, 29), Recipe(lora_rank=RANK, lora_alpha=2.0 * RANK)
    sizes = {**SIZES["0.5b"], "num_hidden_layers": 2}
    found: dict[str, Tensor] = {}
    for name, dtype, way in (
        ("float32", torch.float32, "as written"),
        ("float32, fused", torch.float32, "fused"),
        ("bfloat16", torch.bfloat16, "as written"),
        ("bfloat16, fused", torch.bfloat16, "fused"),
    ):
        if way == "fused" and not (device.type == "cuda" and can_fuse()):
            continue
        module = make_module(sizes, words=words, device=device, dtype=torch.float32).to(dtype)
        items = draw_items(words, work)
        ours = Ours(wrap_module(module), items, recipe)
        with going(way):
            ours.backward()
        found[name] = _flatten(ours)
        if name == "float32":
            found["all logits"] = _flatten_reference(ours, module, items, work)
    gaps = {
        "float32 against all logits": _gap(found["float32"], found["all logits"]),
        "bfloat16 against float32": _gap(found["bfloat16"], found["float32"]),
    }
    if "bfloat16, fused" in found:
        gaps["float32, fused, against all logits"] = _gap(found["float32, fused"], found["all logits"])
        gaps["bfloat16, fused, against float32"] = _gap(found["bfloat16, fused"], found["float32"])
    for name, gap in gaps.items():
        print(f"  gradient of {name}: relative error {gap:.2e}")
    return gaps


def check_update(base: BaseModel, module: Any, items: Sequence[tuple[list[int], list[int]]], work: Work) -> float:
    """The gradient of an update of ours on this model, against that of all logits by Hugging Face's forward: the
    difference over the size, by all low-rank numbers.

    Args:
        module: Hugging Face's, of the same weights.
    """
    ours = Ours(base, items, Recipe(lora_rank=RANK, lora_alpha=2.0 * RANK))
    ours.backward()
    return _gap(_flatten(ours), _flatten_reference(ours, module, items, work))


def _gap(found: Tensor, wanted: Tensor) -> float:
    return float((found.detach() - wanted).norm() / wanted.norm())


def _flatten(ours: Ours) -> Tensor:
    gradients = []
    for weight in ours.optimizer.weights.values():
        assert weight.grad is not None
        gradients.append(weight.grad.flatten().double())
        weight.grad = None
    return torch.cat(gradients)


def _flatten_reference(ours: Ours, module: Any, items: Sequence[tuple[list[int], list[int]]], work: Work) -> Tensor:
    """The same by Hugging Face's forward over one row a prompt, with every logit there at once."""
    rows = [
        PackedRow(items[first][0], [answer for _, answer in items[first : first + work.group]])
        for first in range(0, len(items), work.group)
    ]
    slow, batch = HuggingFaceDecoder(module), pack_rows(rows)
    states = slow(batch, ours.optimizer.changes(ours.linears, ours.recipe.lora_scale))
    logits = states @ slow.head.T
    found = logits.log_softmax(-1).gather(-1, batch.targets.to(logits.device)[:, None])[:, 0]
    order = [member for _, members in ours.batches for member in members]
    advantages = torch.cat(ours.advantages).view(len(items), work.answer)[torch.tensor(order).argsort()].flatten()
    counts = torch.ones_like(advantages, dtype=torch.bool)
    torch.autograd.backward(clipped_surrogate(found, found.detach(), advantages, counts, total=float(ours.count)))
    return _flatten(ours)


def check_kernels(device: torch.device) -> float:
    """Our own kernels against the plain functions in float32: the largest relative error."""
    torch.manual_seed(4)
    gaps = []
    for count, words in ((3, 1_000), (5, 151_936)):
        ids = torch.arange(count, device=device)
        head = torch.randn(words, 64, device=device).bfloat16()
        hidden = (torch.randn(count, 64, device=device) / 4).bfloat16().requires_grad_()
        found = token_logprobs(hidden, head, ids)
        exact = (hidden.double() @ head.double().T).bfloat16().double().log_softmax(-1)
        gaps.append(_gap(found.logprobs.double(), exact.gather(-1, ids[:, None])[:, 0]))
        gaps.append(_gap(found.entropies.double(), -(exact.exp() * exact).sum(-1)))
        (by_hidden,) = torch.autograd.grad(found.logprobs.sum(), hidden)
        gaps.append(_gap(by_hidden.double(), head[ids].double() - exact.exp() @ head.double()))
    for count, inner in ((3, 100), (70_000, 4_864)):
        gate_up = torch.randn(count, 2 * inner, device=device).bfloat16().requires_grad_()
        by_gated = torch.randn(count, inner, device=device).bfloat16()
        (by_gate_up,) = torch.autograd.grad(gate_silu(gate_up), gate_up, by_gated)
        gate, up = gate_up.float().chunk(2, -1)
        wanted = torch.nn.functional.silu(gate) * up
        gaps.append(_gap(gate_silu(gate_up).float(), wanted.detach()))
        (by_wanted,) = torch.autograd.grad(wanted, gate_up, by_gated.float())
        gaps.append(_gap(by_gate_up.float(), by_wanted.float()))
    print(f"  our own kernels: relative errors {', '.join(f'{gap:.1e}' for gap in gaps)}", flush=True)
    return max(gaps)


def measure_size(
    size: str, works: Sequence[Work], *, ways: Sequence[str], rounds: int, words: int, ceiling: float, has_peer: bool
) -> list[dict[str, Any]]:
    """One size's updates in every way there is, and the peer's of the first work."""
    on_gpu = torch.cuda.is_available()
    device, dtype = torch.device("cuda" if on_gpu else "cpu"), torch.bfloat16 if on_gpu else torch.float32
    with phase(f"{size}: random weights on {device}"):
        module = make_module(SIZES[size], words=words, device=device, dtype=dtype)
        base = wrap_module(module)
    found = [measure_work(size, base, work, ways=ways, rounds=rounds, ceiling=ceiling) for work in works]
    if has_peer:  # last: it puts its adapter into the model
        with phase(f"{size}: Hugging Face with PEFT"):
            peer = Peer(module, draw_items(words, works[0]), make_recipe(device), works[0])
            taken = statistics.median([measure(peer.update, device) for _ in range(3)][1:])
        found[0] |= {"peer_update_s": taken}
        if times := [found[0][way]["update_s"] for way in WAYS if way in found[0]]:
            found[0]["speedup"] = taken / min(times)
            print(f"  {size}: Hugging Face with PEFT {taken:.3f} s an update, {found[0]['speedup']:.2f}x ours")
    return found


def make_recipe(device: torch.device) -> Recipe:
    precision = "bfloat16" if device.type == "cuda" else "float32"
    return Recipe(precision=precision, lora_rank=RANK, lora_alpha=2.0 * RANK, learning_rate=1e-5)


def measure_work(
    size: str, base: BaseModel, work: Work, *, ways: Sequence[str], rounds: int, ceiling: float
) -> dict[str, Any]:
    """Updates of this much; a way that fails is told and left out."""
    device, on_gpu = base.device, base.device.type == "cuda"
    recipe = make_recipe(device)
    items = draw_items(base.vocabulary_size, work)
    ours = Ours(base, items, recipe)
    needs = count_needs(base, work, rank=RANK)
    shares = ", ".join(f"{name} {getattr(needs, name) / needs.total:.0%}" for name in needs._fields if name != "usual")
    print(
        f"  {len(ours.batches)} micro-batches of {[len(batch.token_ids) for batch, _ in ours.batches]} tokens; "
        f"needed {needs.total / 1e12:.1f} TFLOP ({shares}); by 6N {needs.usual / 1e12:.1f}"
    )
    row: dict[str, Any] = {"size": size, "tokens": work.read, "needed_tflop": needs.total / 1e12}
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    nominal = next((peak * 1e12 for known, peak in PEAK_TFLOPS.items() if known in name), None)
    for way in ways:
        try:
            with phase(f"{size}: {rounds + 1} updates, {way}"), going(way):
                if on_gpu:
                    torch.cuda.reset_peak_memory_stats()
                times = [measure(ours.update, device) for _ in range(rounds + 1)]
        except Exception:
            traceback.print_exc()
            print(f"  {size} {way} FAILED", flush=True)
            ours = Ours(base, items, recipe)
            continue
        taken = statistics.median(times[1:])
        row[way] = {
            "first_s": times[0],
            "update_s": taken,
            "tokens_per_s": work.read / taken,
            "tflops": needs.total / taken / 1e12,
            "mfu": None if nominal is None else needs.total / taken / nominal,
            "of_ceiling": needs.total / taken / ceiling,
            "mfu_6n": None if nominal is None else needs.usual / taken / nominal,
            "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
        }
        told = ", ".join(f"{key} {value:.4g}" for key, value in row[way].items() if value is not None)
        print(f"  {size} {way}: {told}", flush=True)
    if "fused" in row:
        with phase(f"{size}: one update under the profiler, fused"), going("fused"):
            _profile(ours)
    return row


def _profile(ours: Ours) -> None:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as taken:
        ours.update()
        torch.cuda.synchronize()
    print(taken.key_averages().table(sort_by="self_device_time_total", row_limit=45, max_name_column_width=90))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--sizes", nargs="+", choices=sorted(SIZES), default=["0.5b", "1.5b"] if on_gpu else None)
    parser.add_argument("--rounds", type=int, default=4, help="updates timed, the first one not counted")
    parser.add_argument("--tasks", type=int, nargs="+", default=[8, 16] if on_gpu else [8], help="prompts an update")
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=512, help="tokens a prompt")
    parser.add_argument("--answer", type=int, default=512, help="tokens an answer")
    parser.add_argument("--no-peer", action="store_true", help="leave Hugging Face with PEFT out")
    options = parser.parse_args(argv)
    if options.sizes is None:
        print(
            "SKIPPED: no GPU is here (torch.cuda.is_available() is False), so nothing was measured. "
            "`--sizes tiny` tries the program out on a CPU.",
            file=sys.stderr,
        )
        return 0
    device = torch.device("cuda" if on_gpu else "cpu")
    works = [Work(tasks, options.group, options.prompt, options.answer) for tasks in options.tasks]
    began = time.perf_counter()
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    print(f"torch {torch.__version__} on {name}; kernels are {'fused' if on_gpu and can_fuse() else 'as written'}")
    with phase("ceiling"):
        ceiling = measure_ceiling(device, torch.bfloat16 if on_gpu else torch.float32)
    nominal = next((peak for known, peak in PEAK_TFLOPS.items() if known in name), None)
    print(f"  a large product: {ceiling / 1e12:.0f} TFLOP/s; by its data sheet {nominal}")
    if on_gpu:
        with phase("attention"):
            try:
                gaps = check_attention(device, (None, 16, 100))
                if max(gaps.values()) > MOST_GAP:
                    raise ArithmeticError(f"attention by segments is off: {gaps}")
            except (RuntimeError, ArithmeticError):
                traceback.print_exc()
                print("ATTENTION BY SEGMENTS FAILED: what follows is measured with masks", flush=True)
                SharedBatch._reads_segments = lambda *_: False  # type: ignore[method-assign]
        if can_fuse():
            with phase("kernels"):
                try:
                    if (gap := check_kernels(device)) > MOST_GAP:
                        raise ArithmeticError(f"our own kernels are off by {gap:.1e}")
                except Exception:
                    traceback.print_exc()
                    print("OUR OWN KERNELS FAILED: what follows goes without them", flush=True)
                    fusing.KERNELS = False
    with phase("gradients"):
        gaps = check_gradient(device, words=5_000)
    rows: list[dict[str, Any]] = []
    for size in options.sizes:
        words = 4_096 if size == "tiny" else 151_936
        rows += measure_size(
            size,
            works,
            ways=WAYS if on_gpu and can_fuse() else WAYS[:1],
            rounds=options.rounds,
            words=words,
            ceiling=ceiling,
            has_peer=not options.no_peer,
        )
        if on_gpu:
            torch.cuda.empty_cache()
    print(
        f"{'':6}{'way':12}{'tokens':>9}{'s/update':>10}{'tokens/s':>11}{'MFU':>7}{'6N':>7}{'of product':>12}{'GiB':>7}"
    )
    for row in rows:
        for way in WAYS:
            if way in row:
                one = row[way]
                mfu, usual = ("-" if one[key] is None else f"{one[key]:.1%}" for key in ("mfu", "mfu_6n"))
                peak = "-" if one["peak_gib"] is None else f"{one['peak_gib']:.1f}"
                print(
                    f"{row['size']:6}{way:12}{row['tokens']:9,}{one['update_s']:10.3f}{one['tokens_per_s']:11,.0f}"
                    f"{mfu:>7}{usual:>7}{one['of_ceiling']:12.1%}{peak:>7}"
                )
    bars: dict[str, dict[str, Any]] = {}
    for size in options.sizes:
        if found := [row["fused"]["mfu"] or 0.0 for row in rows if row["size"] == size and "fused" in row]:
            is_met = max(found) >= WANTED_MFU
            bars[f"MFU, {size}"] = {"found": max(found), "wanted": WANTED_MFU, "met": is_met}
            print(f"{size}: at best {max(found):.1%} MFU, {'reached' if is_met else 'MISSED'}")
    print(
        f"Wanted on a GPU: {WANTED_MFU:.0%} MFU of its data sheet at 32k tokens an update or more, by what is needed. "
        f"{time.perf_counter() - began:.0f} s in all."
    )
    print(json.dumps({"bench": "gpu_training", "device": name, "gradients": gaps, "rows": rows, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
