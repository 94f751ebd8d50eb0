"""`python -m tests.bench.trainer`: our engine and trainer beside TRL's GRPO and SDPO trainers, same model and sizes.

A step is everything between a batch of prompts and the swapped-in adapter: generate, score, write and read rollouts,
one optimiser update, publish, load. With a teacher, the frozen base also reads every answer under its hint. The sides
take turns, so that a busy machine slows all of them; medians are compared. TRL is installed into a virtual environment
of its own under `.cache/bench` when it is not there yet. `--model` measures a pretrained one instead (`trainer_model`).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gpu_workers.backends.adapter_files import start_adapter
from gpu_workers.backends.base_models import Batch, load_base
from gpu_workers.backends.hugging_face_decoder import HuggingFaceDecoder
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.desk.attempts import MOST_TOKENS, attempt_tickets
from gpu_workers.engine import Engine
from gpu_workers.engine.hugging_face_model import open_module
from gpu_workers.engine.jobs import SamplingOptions
from gpu_workers.learning.packing import PackedRow, pack_rows
from gpu_workers.learning.shared_prefix import SharedBatch, share_prefixes
from gpu_workers.process import KEPT_BYTES, LARGEST_KEPT_BYTES, prepare_process
from gpu_workers.runner import run
from tentalis.core.desk import Family, Ticket, make_tickets, rule_book_hints, solve
from tentalis.core.learning.recipes import PRECISIONS, Recipe
from tests.bench.desk_loop import record_rollouts, write_spec
from tests.bench.trainer_model import compare

TASKS, GROUP = 12, 8
FAMILIES: Sequence[Family] = ("order", "return", "delay", "broken")
CACHE = Path(".cache/bench/trl")
REQUIREMENTS = ("torch==2.13.0", "trl==1.16.0", "transformers>=5.23,<6", "peft>=0.18", "datasets")
RECIPE = Recipe(w_rl=1.0, w_opd=0.0, step_mix=0.0, minibatches=1)
TAUGHT = replace(RECIPE, w_rl=0.7, w_opd=0.3)
PEER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(KEPT_BYTES), "MALLOC_MMAP_THRESHOLD_": str(LARGEST_KEPT_BYTES)}
SIDES = ("ours", "ours + teacher", "TRL 1.16 GRPO", "TRL 1.16 SDPO")


def prepare_peer() -> Path:
    """The Python of a virtual environment that holds TRL."""
    python = CACHE.resolve() / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True)
    if subprocess.run([python, "-c", "import trl"], capture_output=True, check=False).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    return python


def measure_peer(
    python: Path, tickets: Sequence[Ticket], directory: Path, *, model: Path, steps: int, keeps_memory: bool
) -> Any:
    """What TRL and Hugging Face's generate take for the same work.

    Args:
        keeps_memory: whether its process keeps freed memory as ours does (`gpu_workers.process`).
    """
    work = {
        "model": str(model),
        "prompts": [ticket.text for ticket in tickets],
        "hints": [", ".join(rule_book_hints(ticket)) for ticket in tickets],
        "distillation_weight": TAUGHT.w_opd,
        "answers": [f"<answer> {solve(ticket, ticket.house_option)[-1][1]}" for ticket in tickets],
        "tasks": TASKS,
        "group": GROUP,
        "max_tokens": MOST_TOKENS,
        "steps": steps,
        "rank": RECIPE.lora_rank,
        "alpha": RECIPE.lora_alpha,
        "modules": list(RECIPE.target_modules),
        "learning_rate": RECIPE.learning_rate,
    }
    (directory / "work.json").write_text(json.dumps(work))
    done = subprocess.run(
        [python, str(Path(__file__).with_name("trl_peer.py")), str(directory / "work.json")],
        env={**os.environ, **PEER_ENVIRONMENT, **(KEPT_MEMORY if keeps_memory else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the peer failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_ours(
    engine: Engine, tickets: Sequence[Ticket], directory: Path, *, model: str, steps: int, recipe: Recipe = RECIPE
) -> Any:
    """Wall and CPU seconds of a step, generation to swap."""
    walls: list[float] = []
    cpus: list[float] = []
    lengths: list[int] = []
    adapter: str | None = None
    parent: tuple[str, str] | None = None
    for step in range(steps + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        here = tickets[step * TASKS : (step + 1) * TASKS]
        groups = attempt_tickets(engine, here, n=GROUP, adapter=adapter, seed=step)
        rollouts = record_rollouts(engine, groups, version=step)
        output = directory / f"step-{step}"
        spec = write_spec(output, rollouts, recipe, update=step + 1, seed=0, model=model, parent=parent)
        result = run(spec, lambda _: None)
        if not result.ok:
            raise SystemExit(f"{result.error_type}: {result.error_message}")
        parent, adapter = (result.adapter_uri, result.sha256), f"step-{step}"
        engine.load_adapter(adapter, Path(result.adapter_uri.removeprefix("file://")))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        lengths.extend(len(attempt.token_ids) for group in groups for attempt in group)
    return {
        "step_s": statistics.median(walls[1:]),
        "step_cpu_s": statistics.median(cpus[1:]),
        "mean_length_tokens": statistics.fmean(lengths),
    }


def measure_generation(engine: Engine, tickets: Sequence[Ticket], *, steps: int) -> Any:
    """Tokens a second of the engine on the first step's prompts."""
    texts = [engine.codec.render_chat([{"role": "user", "content": ticket.text}]) for ticket in tickets[:TASKS]]
    prompts = engine.codec.encode(texts, add_special_tokens=False)
    rates = []
    for number in range(steps + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        drawn = engine.generate(prompts, n=GROUP, options=SamplingOptions(max_tokens=MOST_TOKENS, seed=number))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        tokens = sum(len(sample.token_ids) for samples in drawn for sample in samples)
        rates.append((tokens / wall, tokens / cpu))
    return {
        "tokens_per_s": statistics.median(rate for rate, _ in rates[1:]),
        "tokens_per_cpu_s": statistics.median(rate for _, rate in rates[1:]),
    }


def measure_packing(engine: Engine, tickets: Sequence[Ticket], *, rounds: int) -> list[dict[str, Any]]:
    """One update's forward and backward pass over one step's rollouts, laid out in several ways; CPU seconds."""
    base = load_base("desk")
    by_hugging_face = replace(base, decoder=HuggingFaceDecoder(open_module(base.directory)))
    linears = base.find_linears(RECIPE.target_modules)
    optimizer = Optimizer(start_adapter(linears, rank=RECIPE.lora_rank, seed=0), RECIPE, base.device)
    groups = attempt_tickets(engine, tickets[:TASKS], n=GROUP, seed=0)
    shared = [PackedRow(group[0].prompt_ids, [attempt.token_ids for attempt in group]) for group in groups]
    alone = [PackedRow(row.prompt, [answer]) for row in shared for answer in row.completions]
    ways: dict[str, Batch] = {
        "prompts shared, no padding": share_prefixes(shared),
        "a prompt an answer, no padding": share_prefixes(alone),
        "prompts shared, padded rows (Hugging Face's forward)": pack_rows(shared),
        "a prompt an answer, padded rows (Hugging Face's forward)": pack_rows(alone),
    }
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds + 1):
        for way, batch in ways.items():
            started = time.process_time()
            reader = base if isinstance(batch, SharedBatch) else by_hugging_face
            logprobs = reader.score(batch, optimizer.changes(linears, RECIPE.lora_scale)).logprobs
            torch.autograd.backward(logprobs.sum())
            spent[way].append(time.process_time() - started)
    return [{"way": way, "cpu_s": statistics.median(times[1:])} for way, times in spent.items()]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8, help="steps per turn, the first one not counted")
    parser.add_argument("--turns", type=int, default=3, help="how often the sides take turns")
    parser.add_argument(
        "--even", action="store_true", help="the peer keeps freed memory too, which it does not ask for"
    )
    parser.add_argument("--model", help="a kept model, a directory, or `tiny`, in place of the desk's")
    parser.add_argument("--tasks", type=int, default=8, help="prompts a step, of --model")
    parser.add_argument("--group", type=int, default=GROUP, help="answers to each, of --model")
    parser.add_argument("--max-tokens", type=int, default=36, help="new tokens an answer, of --model")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help="of ours, of --model")
    options = parser.parse_args(argv)
    prepare_process()
    python = prepare_peer()
    if options.model:
        environment = {"OMP_NUM_THREADS": "1", **PEER_ENVIRONMENT}
        return compare(options, python, Path(__file__).with_name("trl_peer.py"), environment)
    engine = Engine.open("desk")
    model = Path(engine.base.path)
    tickets = make_tickets(5, TASKS * (options.steps + 1), held_out=False, families=FAMILIES)
    rounds: list[dict[str, Any]] = []
    for turn in range(options.turns):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            found = {}
            for side, recipe in (("ours", RECIPE), ("ours + teacher", TAUGHT)):
                home = directory / recipe.hash
                found[side] = measure_ours(
                    Engine.open("desk"), tickets, home, model="desk", steps=options.steps, recipe=recipe
                )
            found["ours"] |= measure_generation(engine, tickets, steps=options.steps)
            peer = measure_peer(python, tickets, directory, model=model, steps=options.steps, keeps_memory=options.even)
        found |= {"TRL 1.16 GRPO": peer["grpo"] | peer["generate"], "TRL 1.16 SDPO": peer["sdpo"]}
        rounds.append(found)
        told = ", ".join(f"{side} {found[side]['step_s']:.3f} s" for side in SIDES)
        print(f"turn {turn + 1}: {told}", file=sys.stderr)
    rows = {side: summarise(side, [found[side] for found in rounds]) for side in SIDES}
    print(f"{'':18}{'s/step':>9}{'cpu s':>9}{'samples/s':>11}{'tokens':>8}{'gen tok/s':>11}{'gen tok/cpu s':>15}")
    for row in rows.values():
        generated = "".join(
            f"{row[name]:{width}.0f}" if name in row else f"{'-':>{width}}"
            for name, width in (("tokens_per_s", 11), ("tokens_per_cpu_s", 15))
        )
        print(
            f"{row['side']:18}{row['step_s']:9.3f}{row['step_cpu_s']:9.3f}{row['samples_per_s']:11.1f}"
            f"{row['mean_length_tokens']:8.1f}{generated}"
        )
    ratios = {
        "samples_per_s": _ratio(rows, "TRL 1.16 GRPO", "ours", "step_s"),
        "samples_per_cpu_s": _ratio(rows, "TRL 1.16 GRPO", "ours", "step_cpu_s"),
        "taught_samples_per_s": _ratio(rows, "TRL 1.16 SDPO", "ours + teacher", "step_s"),
        "taught_samples_per_cpu_s": _ratio(rows, "TRL 1.16 SDPO", "ours + teacher", "step_cpu_s"),
        "generation_tokens_per_s": _ratio(rows, "ours", "TRL 1.16 GRPO", "tokens_per_s"),
        "generation_tokens_per_cpu_s": _ratio(rows, "ours", "TRL 1.16 GRPO", "tokens_per_cpu_s"),
    }
    print(", ".join(f"{name} {value:.2f}x" for name, value in ratios.items()))
    packing = measure_packing(engine, tickets, rounds=3 * options.steps)
    print("forward and backward pass of one update:")
    for way in packing:
        print(f"  {way['way']:58}{1000 * way['cpu_s']:7.1f} ms of CPU")
    print(
        f"{TASKS} tasks x {GROUP} answers, at most {MOST_TOKENS} new tokens, LoRA rank {RECIPE.lora_rank} on all "
        "linears, float32, one thread, one update a step.\nWanted: 2.5x samples/s of TRL's GRPO, 1.5x of its SDPO."
    )
    print(json.dumps({"bench": "trainer", "rows": list(rows.values()), "packing": packing, "ratios": ratios}))
    return 0


def _ratio(rows: Mapping[str, Mapping[str, Any]], above: str, below: str, column: str) -> float:
    return round(float(rows[above][column]) / float(rows[below][column]), 2)


def summarise(side: str, rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians over the turns."""
    medians = {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
    return {"side": side, **medians, "samples_per_s": TASKS * GROUP / medians["step_s"]}


if __name__ == "__main__":
    sys.exit(main())
