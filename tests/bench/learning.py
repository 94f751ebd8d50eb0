"""`python -m tests.bench.learning`: which signal teaches the desk how much, at equal numbers of attempts.

The loop is the product's engine and trainer in one process, without rows and queues. Every variant sees the same
tickets; only the recipe differs. Distillation was TOLD the rule in words, a hint per attempt; others had to find it:
equal samples are not equal information.
"""

import argparse
import hashlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gpu_workers.desk.attempts import Attempt, attempt_tickets, measure_accuracy
from gpu_workers.engine import Engine
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import RolloutRecord, StepReward, TrainSpec
from tentalis.core.desk import hinted_prompt, make_tickets, read_pieces, rule_book_hints, verify
from tentalis.core.learning.recipes import RECIPES, Recipe

TASKS, GROUP = 24, 8
PANEL_TICKETS, PANEL_SEED = 300, 7
NOTHING_TO_LEARN = "NothingToLearnError"
"""A batch whose rewards all agree: the adapter stays as it is."""
VARIANTS: Mapping[str, str] = {
    "outcome only": "desk-outcome",
    "outcome + step": "desk-steps",
    "OPD only (told the rule)": "desk-hints",
    "combined (told the rule)": "desk",
    "reward-weighted SFT": "desk-imitation",
}


def record_rollouts(engine: Engine, groups: Sequence[Sequence[Attempt]], *, version: int) -> list[RolloutRecord]:
    """The rows' work: rewards from the rule book's verdict, and its hint for every attempt."""
    rollouts: list[RolloutRecord] = []
    for group_id, group in enumerate(groups):
        for attempt in group:
            text = attempt.ticket.text
            reading = read_pieces(engine.codec.split_pieces(attempt.token_ids))
            verdict = verify(attempt.ticket, reading.parts, attempt.ended)
            hinted = hinted_prompt(text, rule_book_hints(attempt.ticket))
            rollouts.append(
                RolloutRecord(
                    rollout_id=len(rollouts),
                    group_id=group_id,
                    adapter="",
                    policy_version=version,
                    messages=[{"role": "user", "content": text}],
                    hinted_messages=[{"role": "user", "content": hinted}],
                    prompt_token_ids=attempt.prompt_ids,
                    token_ids=attempt.token_ids,
                    logprobs=attempt.logprobs,
                    sampled=attempt.sampled,
                    reward=verdict.outcome,
                    steps=[
                        StepReward(start=segment.start, end=segment.end, score=score)
                        for segment, score in zip(reading.segments, verdict.step_scores, strict=True)
                    ],
                    missing_steps=verdict.missing_steps,
                )
            )
    return rollouts


def measure_panel(engine: Engine, adapter: str | None, *, temperature: float) -> float:
    """Share of held-out tickets answered right."""
    tickets = make_tickets(PANEL_SEED, PANEL_TICKETS, held_out=True)
    return measure_accuracy(engine, tickets, adapter=adapter, seed=1, temperature=temperature)


def learn(
    recipe: Recipe,
    *,
    seed: int,
    marks: Sequence[int],
    model: str,
    directory: Path,
    rejudge: Callable[[list[RolloutRecord]], list[RolloutRecord]] = list,
    tasks: int = TASKS,
    group: int = GROUP,
) -> dict[str, float]:
    """Run the loop; held-out accuracy at each mark, sampled and greedy, and where the CPU seconds went.

    Args:
        rejudge: puts others' judgements in the place of the rule book's, update by update.
    """
    torch.set_num_threads(1)
    engine = Engine.open(model)
    rng = random.Random(seed + 100)
    parent: tuple[str, str] | None = None
    adapter: str | None = None
    found: dict[str, float] = {}
    spent = {"generate": 0.0, "train": 0.0, "swap": 0.0}
    for update in range(1, max(marks) + 1):
        clock = time.process_time()
        tickets = make_tickets(rng, tasks, held_out=False)
        groups = attempt_tickets(engine, tickets, n=group, adapter=adapter, seed=seed * 100_003 + update)
        rollouts = rejudge(record_rollouts(engine, groups, version=update - 1))
        spent["generate"] += time.process_time() - clock
        output = directory / f"{update}"
        content = b"\n".join(canonical_json(rollout.to_json()) for rollout in rollouts)
        output.mkdir(parents=True)
        (output / "rollouts.jsonl").write_bytes(content)
        clock = time.process_time()
        result = run(
            TrainSpec(
                run_id=update,
                attempt=1,
                worker="bench",
                base_model=model,
                parent_adapter_uri=parent[0] if parent else None,
                parent_sha256=parent[1] if parent else None,
                policy_version=update - 1,
                rollouts_uri=(output / "rollouts.jsonl").as_uri(),
                rollouts_sha256=hashlib.sha256(content).hexdigest(),
                recipe=recipe.to_json(),
                seed=seed,
                output_uri=output.as_uri(),
            ),
            lambda _: None,
        )
        spent["train"] += time.process_time() - clock
        if not result.ok and result.error_type != NOTHING_TO_LEARN:
            raise SystemExit(f"update {update}: {result.error_type}: {result.error_message}")
        if result.ok:
            clock = time.process_time()
            parent = (result.adapter_uri, result.sha256)
            loaded = f"update-{update}"
            engine.load_adapter(loaded, Path(result.adapter_uri.removeprefix("file://")))
            if adapter is not None:
                engine.unload_adapter(adapter)
            adapter = loaded
            spent["swap"] += time.process_time() - clock
        if update in marks:
            found[f"sampled_{update}"] = measure_panel(engine, adapter, temperature=1.0)
            found[f"greedy_{update}"] = measure_panel(engine, adapter, temperature=0.0)
    return found | {f"{name}_cpu_s": seconds / max(marks) for name, seconds in spent.items()}


def _learn_named(work: tuple[str, int], *, marks: Sequence[int], model: str) -> tuple[str, int, dict[str, float]]:
    variant, seed = work
    with tempfile.TemporaryDirectory() as directory:
        found = learn(RECIPES[VARIANTS[variant]], seed=seed, marks=marks, model=model, directory=Path(directory))
    return variant, seed, found


def measure_base(model: str) -> tuple[float, float]:
    """Held-out accuracy of the untrained model, sampled and greedy."""
    torch.set_num_threads(1)
    engine = Engine.open(model)
    return measure_panel(engine, None, temperature=1.0), measure_panel(engine, None, temperature=0.0)


def print_table(rows: Iterable[Mapping[str, Any]], marks: Sequence[int]) -> None:
    columns = [f"{kind}_{mark}" for mark in marks for kind in ("sampled", "greedy")]
    print(f"{'variant':28}" + "".join(f"{column:>12}" for column in columns) + "   seeds at the last mark")
    for row in rows:
        cells = "".join(f"{row[column]:12.3f}" for column in columns)
        print(f"{row['variant']:28}{cells}   {row['seeds']}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, nargs="+", default=[8, 16], help="when to measure")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--model", default="desk", help="desk, or a model directory")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(argv)
    marks = sorted(options.updates)
    base_sampled, base_greedy = measure_base(options.model)
    print(f"base: {base_sampled:.3f} sampled, {base_greedy:.3f} greedy, {PANEL_TICKETS} held-out tickets", flush=True)
    work = [(variant, seed) for seed in options.seeds for variant in options.variants]
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in options.variants}
    with ProcessPoolExecutor(options.processes) as pool:
        for variant, seed, measured in pool.map(partial(_learn_named, marks=marks, model=options.model), work):
            found[variant].append(measured)
            print(f"  {variant}, seed {seed}: {measured[f'sampled_{marks[-1]}']:.3f}", file=sys.stderr, flush=True)
    rows: list[dict[str, Any]] = []
    for variant, values in found.items():
        means = {name: round(statistics.fmean(value[name] for value in values), 4) for name in values[0]}
        last = [round(value[f"sampled_{marks[-1]}"], 3) for value in values]
        rows.append({"variant": variant, "recipe": VARIANTS[variant], **means, "seeds": last})
    print_table(rows, marks)
    print(
        f"\n{TASKS} tickets x {GROUP} attempts per update, the same for every row, mean of {len(options.seeds)} seeds. "
        "OPD was TOLD the rule in words for every attempt;\noutcome, steps and SFT had to find it: equal samples are "
        "not equal information."
    )
    by_variant = {row["variant"]: row for row in rows}
    ratios = {}
    if {"combined (told the rule)", "outcome only"} <= set(by_variant):
        for mark in marks:
            gain = (
                by_variant["combined (told the rule)"][f"sampled_{mark}"]
                - by_variant["outcome only"][f"sampled_{mark}"]
            )
            ratios[f"combined_minus_outcome_{mark}"] = round(gain, 4)
    base_row = {"variant": "base", "sampled": base_sampled, "greedy": base_greedy}
    print(json.dumps({"bench": "learning", "rows": [base_row, *rows], "ratios": ratios}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
