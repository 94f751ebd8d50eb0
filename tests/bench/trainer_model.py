"""`make bench BENCH=trainer ARGS="--model gemma-3-270m"`: engine and trainer on a pretrained model beside TRL's GRPO.

The model is a kept one of TENTALIS_HOME, a directory, or `tiny`: a random model of two layers, by which the program is
tried out in a minute. Both sides draw the same number of answers to the same prompts, reward them by the same rule (an
even sum of their token ids: who learns what is no matter here), update once and go on with what they learnt. Each runs
in a process of its own; the first step warms up and is not counted. Memory is the most that such a process ever held:
ours is engine and trainer in one, as TRL's is, and so has the weights twice (in use each is a process of its own).
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Gemma3ForCausalLM, Gemma3TextConfig

from gpu_workers.backends.base_models import load_base
from gpu_workers.desk import base_directory
from gpu_workers.engine import Engine
from gpu_workers.engine.hugging_face_model import open_module
from gpu_workers.engine.jobs import SamplingOptions
from gpu_workers.process import prepare_process
from gpu_workers.runner import run
from tentalis.core.contracts import RolloutRecord
from tentalis.core.desk import make_tickets
from tentalis.core.learning.recipes import Recipe
from tentalis.kept_models import models_directory
from tests.bench.desk_loop import write_spec
from tests.bench.gpu_training import Work, check_update, draw_items

SIDES = ("ours", "TRL 1.16 GRPO")
WANTED = {"samples_per_cpu_s": 2.0, "memory": 2.0, "gradient": 1e-5}
"""At least so many times the peer's samples, the peer's memory at least so many times ours, and at most that error."""


def find_model(name: str, directory: Path) -> Path:
    """The directory of a kept model, or the one that is named; `tiny` is made under `directory`."""
    if name == "tiny":
        torch.manual_seed(0)
        tokenizer = AutoTokenizer.from_pretrained(base_directory())
        config = Gemma3TextConfig(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=256, num_hidden_layers=2, head_dim=16,
            num_attention_heads=4, num_key_value_heads=1, max_position_embeddings=512, sliding_window=64,
            layer_types=["sliding_attention", "full_attention"], eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
        )  # fmt: skip
        for one in (Gemma3ForCausalLM(config), tokenizer):
            one.save_pretrained(directory / "tiny")
        return directory / "tiny"
    for found in (Path(name), models_directory(Path(os.environ.get("TENTALIS_HOME", ".tentalis"))) / name):
        if (found / "config.json").is_file():
            return found.resolve()
    raise SystemExit(f"no model is kept under the name {name}, and there is no such directory: `tentalis model get`")


def measure_ours(work: Mapping[str, Any], directory: Path) -> dict[str, float]:
    """Wall and CPU seconds of a step, generation to swap, and the most memory this process held."""
    recipe = Recipe.from_json(work["recipe"])
    engine = Engine.open(work["model"])
    ends = [load_base(work["model"], precision=recipe.precision).end_of_turn]
    steps: list[tuple[float, float]] = []
    lengths: list[int] = []
    adapter: str | None = None
    parent: tuple[str, str] | None = None
    for step in range(work["steps"] + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        asked = work["prompts"][step * work["tasks"] : (step + 1) * work["tasks"]]
        talks = [[{"role": "user", "content": text}] for text in asked]
        prompts = engine.codec.encode([engine.codec.render_chat(talk) for talk in talks], add_special_tokens=False)
        options = SamplingOptions(max_tokens=work["max_tokens"], seed=step, stop_token_ids=frozenset(ends))
        drawn = engine.generate(prompts, n=work["group"], options=options, adapter=adapter)
        rollouts = [
            RolloutRecord(
                rollout_id=place * work["group"] + index,
                group_id=place,
                adapter="",
                policy_version=step,
                messages=talks[place],
                hinted_messages=None,
                prompt_token_ids=list(map(int, prompts[place])),
                token_ids=list(map(int, sample.token_ids)),
                logprobs=list(map(float, sample.logprobs)),
                sampled=[True] * len(sample.token_ids),
                reward=float(int(sum(sample.token_ids)) % 2 == 0),
            )
            for place, samples in enumerate(drawn)
            for index, sample in enumerate(samples)
        ]
        lengths.extend(len(one.token_ids) for one in rollouts)
        spec = write_spec(
            directory / f"step-{step}", rollouts, recipe, update=step + 1, seed=0, model=work["model"], parent=parent
        )
        result = run(spec, lambda _: None)
        if not result.ok:
            raise SystemExit(f"{result.error_type}: {result.error_message}")
        parent, adapter = (result.adapter_uri, result.sha256), f"step-{step}"
        engine.load_adapter(adapter, Path(result.adapter_uri.removeprefix("file://")))
        steps.append((time.perf_counter() - wall, time.process_time() - cpu))
    counted = steps[1:] or steps
    return {
        "step_s": statistics.median(wall for wall, _ in counted),
        "step_cpu_s": statistics.median(cpu for _, cpu in counted),
        "mean_length_tokens": statistics.fmean(lengths),
        "peak_mib": read_peak_mib(),
    }


def read_peak_mib() -> float:
    """The most that this process ever held, of its own."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024


def compare(options: argparse.Namespace, python: Path, peer: Path, environment: Mapping[str, str]) -> int:
    """Both sides in turns, and the gradient; exit code 0."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        model = find_model(options.model, directory)
        recipe = Recipe(
            w_rl=1.0, w_opd=0.0, step_mix=0.0, minibatches=1, lora_rank=16, lora_alpha=32.0, learning_rate=2e-4,
            precision=options.precision,
        )  # fmt: skip
        tickets = make_tickets(5, options.tasks * (options.steps + 1), held_out=False)
        work = {
            "kind": "model",
            "model": str(model),
            "prompts": [ticket.text for ticket in tickets],
            "tasks": options.tasks,
            "group": options.group,
            "max_tokens": options.max_tokens,
            "steps": options.steps,
            "rank": recipe.lora_rank,
            "alpha": recipe.lora_alpha,
            "modules": list(recipe.target_modules),
            "learning_rate": recipe.learning_rate,
            "recipe": recipe.to_json(),
        }
        (directory / "work.json").write_text(json.dumps(work))
        commands = {
            "ours": [sys.executable, "-m", "tests.bench.trainer_model", str(directory / "work.json"), str(directory)],
            "TRL 1.16 GRPO": [str(python), str(peer), str(directory / "work.json")],
        }
        rounds: list[dict[str, Any]] = []
        for turn in range(options.turns):
            found = {}
            for side, command in commands.items():
                done = subprocess.run(
                    command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
                )
                if done.returncode:
                    raise SystemExit(f"{side} failed:\n{done.stderr[-2000:]}")
                found[side] = json.loads(done.stdout.splitlines()[-1])
                print(f"turn {turn + 1}, {side}: {found[side]}", file=sys.stderr, flush=True)
            rounds.append(found)
        base = load_base(str(model))
        longest = min(options.max_tokens, 24)
        gap = check_update(
            base, open_module(model), draw_items(base.vocabulary_size, asked := Work(1, 4, 24, longest)), asked
        )
    return report(options, rounds, gap)


def report(options: argparse.Namespace, rounds: Sequence[Mapping[str, Any]], gap: float) -> int:
    rows: dict[str, dict[str, float]] = {}
    for side in SIDES:
        medians = {name: statistics.median(found[side][name] for found in rounds) for name in rounds[0][side]}
        samples = options.tasks * options.group
        medians["samples_per_s"] = samples / medians["step_s"]
        medians["samples_per_cpu_s"] = samples / medians["step_cpu_s"]
        rows[side] = medians
    print(f"{'':16}{'s/step':>9}{'cpu s':>9}{'samples/s':>11}{'samples/cpu s':>15}{'tokens':>8}{'peak MiB':>10}")
    for side, row in rows.items():
        print(
            f"{side:16}{row['step_s']:9.2f}{row['step_cpu_s']:9.2f}{row['samples_per_s']:11.3f}"
            f"{row['samples_per_cpu_s']:15.3f}{row['mean_length_tokens']:8.1f}{row['peak_mib']:10.0f}"
        )
    ours, theirs = (rows[side] for side in SIDES)
    ratios = {
        "samples_per_s": ours["samples_per_s"] / theirs["samples_per_s"],
        "samples_per_cpu_s": ours["samples_per_cpu_s"] / theirs["samples_per_cpu_s"],
        "memory": theirs["peak_mib"] / ours["peak_mib"],
    }
    print(", ".join(f"{name} {value:.2f}x" for name, value in ratios.items()))
    print(
        f"the update's gradient is that of all logits within {gap:.1e}, relative.\n"
        f"{options.model}: {options.tasks} tasks x {options.group} answers, at most {options.max_tokens} new tokens, "
        f"LoRA rank 16 on all linears, ours in {options.precision}, TRL in float32, "
        f"{os.environ.get('OMP_NUM_THREADS', '1')} thread(s), one update a step, {options.turns} turn(s) of "
        f"{options.steps} counted step(s).\nWanted: 2x TRL's samples/s, half of its memory, the gradient within 1e-5."
    )
    print(json.dumps({"bench": "trainer", "model": options.model, "rows": rows, "ratios": ratios, "gradient": gap}))
    return 0


def main() -> None:
    prepare_process()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    work = json.loads(Path(sys.argv[1]).read_bytes())
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as directory:
        print(json.dumps(measure_ours(work, Path(directory))))


if __name__ == "__main__":
    main()
