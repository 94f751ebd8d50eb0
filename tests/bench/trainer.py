"""`python -m tests.bench.trainer`: our engine and trainer beside TRL's GRPOTrainer, same model, prompts and sizes.

A step is everything between a batch of prompts and the swapped-in adapter: generate, score, write and read rollouts,
one optimiser update, publish, load. The two sides take turns, so that a busy machine slows both; medians are compared.
TRL is installed into a virtual environment of its own under `.cache/bench` when it is not there yet.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gpu_workers.desk.attempts import MOST_TOKENS, attempt_tickets
from gpu_workers.engine import Engine
from gpu_workers.engine.jobs import SamplingOptions
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import TrainSpec
from tentalis.core.desk import Family, Ticket, make_tickets, solve
from tentalis.core.learning.recipes import Recipe
from tests.bench.learning import record_rollouts

TASKS, GROUP = 12, 8
FAMILIES: Sequence[Family] = ("order", "return", "delay", "broken")
CACHE = Path(".cache/bench/trl")
REQUIREMENTS = ("torch==2.13.0", "trl==1.16.0", "transformers>=5.23,<6", "peft>=0.18", "datasets")
RECIPE = Recipe(w_rl=1.0, w_opd=0.0, step_mix=0.0, minibatches=1)


def prepare_peer() -> Path:
    """The Python of a virtual environment that holds TRL."""
    python = CACHE.resolve() / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True)
    if subprocess.run([python, "-c", "import trl"], capture_output=True, check=False).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    return python


def measure_peer(python: Path, tickets: Sequence[Ticket], directory: Path, *, model: Path, steps: int) -> Any:
    """What TRL and Hugging Face's generate take for the same work."""
    work = {
        "model": str(model),
        "prompts": [ticket.text for ticket in tickets],
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
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the peer failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_ours(engine: Engine, tickets: Sequence[Ticket], directory: Path, *, model: str, steps: int) -> Any:
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
        content = b"\n".join(canonical_json(rollout.to_json()) for rollout in rollouts)
        output = directory / f"step-{step}"
        output.mkdir()
        (output / "rollouts.jsonl").write_bytes(content)
        result = run(
            TrainSpec(
                run_id=step,
                attempt=1,
                worker="bench",
                base_model=model,
                parent_adapter_uri=parent[0] if parent else None,
                parent_sha256=parent[1] if parent else None,
                policy_version=step,
                rollouts_uri=(output / "rollouts.jsonl").as_uri(),
                rollouts_sha256=hashlib.sha256(content).hexdigest(),
                recipe=RECIPE.to_json(),
                seed=0,
                output_uri=output.as_uri(),
            ),
            lambda _: None,
        )
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


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8, help="steps per turn, the first one not counted")
    parser.add_argument("--turns", type=int, default=3, help="how often the two sides take turns")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    python = prepare_peer()
    engine = Engine.open("desk")
    model = Path(engine.base.path)
    tickets = make_tickets(5, TASKS * (options.steps + 1), held_out=False, families=FAMILIES)
    rounds = []
    for turn in range(options.turns):
        with tempfile.TemporaryDirectory() as directory:
            ours = measure_ours(Engine.open("desk"), tickets, Path(directory), model="desk", steps=options.steps)
            ours |= measure_generation(engine, tickets, steps=options.steps)
            peer = measure_peer(python, tickets, Path(directory), model=model, steps=options.steps)
        rounds.append((ours, peer["train"] | peer["generate"]))
        print(
            f"turn {turn + 1}: ours {ours['step_s']:.3f} s a step, TRL {peer['train']['step_s']:.3f}", file=sys.stderr
        )
    rows = [
        summarise("ours", [ours for ours, _ in rounds]),
        summarise("TRL 1.16 + HF generate", [theirs for _, theirs in rounds]),
    ]
    print(f"{'':24}{'s/step':>9}{'cpu s':>9}{'samples/s':>11}{'tokens':>8}{'gen tok/s':>11}{'gen tok/cpu s':>15}")
    for row in rows:
        print(
            f"{row['side']:24}{row['step_s']:9.3f}{row['step_cpu_s']:9.3f}{row['samples_per_s']:11.1f}"
            f"{row['mean_length_tokens']:8.1f}{row['tokens_per_s']:11.0f}{row['tokens_per_cpu_s']:15.0f}"
        )
    ours_row, peer_row = rows
    ratios = {
        "samples_per_s": round(ours_row["samples_per_s"] / peer_row["samples_per_s"], 2),
        "samples_per_cpu_s": round(peer_row["step_cpu_s"] / ours_row["step_cpu_s"], 2),
        "generation_tokens_per_s": round(ours_row["tokens_per_s"] / peer_row["tokens_per_s"], 2),
        "generation_tokens_per_cpu_s": round(ours_row["tokens_per_cpu_s"] / peer_row["tokens_per_cpu_s"], 2),
    }
    print(
        f"{TASKS} tasks x {GROUP} answers, at most {MOST_TOKENS} new tokens, LoRA rank {RECIPE.lora_rank} on all "
        "linears, float32, one thread, one update a step."
    )
    print(json.dumps({"bench": "trainer", "rows": rows, "ratios": ratios}))
    return 0


def summarise(side: str, rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians over the turns."""
    medians = {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
    return {"side": side, **medians, "samples_per_s": TASKS * GROUP / medians["step_s"]}


if __name__ == "__main__":
    sys.exit(main())
