"""`python -m tests.bench.prm`: how well a trained step scorer tells good steps from bad ones on held-out tickets.

The product's engine, trainer and serving path in one process, without rows and queues. Labels come from completions
alone; the rule book's step scores are the truth of the held-out side and of the calibration, and are never learned.
"""

import argparse
import hashlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_workers.desk.attempts import Attempt, attempt_tickets, finish_attempts, judge_attempt
from gpu_workers.engine import Engine
from gpu_workers.engine.reward_heads import AnsweredSteps
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import LabelledStep, LabelledStepsRecord, TrainSpec
from tentalis.core.desk import ITEMS, DeskVerdict, Segment, make_tickets, read_pieces
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.scoring.ranking import area_under_curve
from tentalis.core.scoring.step_labels import hard_label

TICKETS, TRIES, COMPLETIONS = 400, 2, 6
HELD_OUT, CALIBRATE_EVERY = 200, 8
WANTED_AUC, HEURISTIC_AT_MOST, CPU_S_AT_MOST = 0.88, 0.65, 90.0


@dataclass(frozen=True)
class Read:
    """An attempt with its segments and the rule book's verdict."""

    attempt: Attempt
    segments: tuple[Segment, ...]
    verdict: DeskVerdict

    @property
    def asked(self) -> AnsweredSteps:
        spans = [(segment.start, segment.end) for segment in self.segments]
        return AnsweredSteps(self.attempt.prompt_ids, self.attempt.token_ids, spans)


def sample(engine: Engine, *, seed: int, count: int, held_out: bool) -> list[Read]:
    """Tickets attempted TRIES times each, read and judged."""
    tickets = make_tickets(random.Random(seed), count, held_out=held_out)
    groups = attempt_tickets(engine, tickets, n=TRIES, seed=seed)
    return [
        Read(one, read_pieces(engine.codec.split_pieces(one.token_ids)).segments, judge_attempt(engine, one))
        for group in groups
        for one in group
    ]


def complete(engine: Engine, reads: Sequence[Read], *, seed: int) -> list[list[list[float]]]:
    """Outcomes of COMPLETIONS completions from each step's end; the last step's is the attempt's own."""
    starts = [(one.attempt, segment.end) for one in reads for segment in one.segments[:-1]]
    finished = iter(finish_attempts(engine, starts, n=COMPLETIONS, seed=seed))
    return [
        [
            [one.verdict.outcome]
            if place == len(one.segments) - 1
            else [judge_attempt(engine, attempt).outcome for attempt in next(finished)]
            for place in range(len(one.segments))
        ]
        for one in reads
    ]


def guess(segment: Segment) -> float:
    """What a scorer without rules or training can see: whether it is in form, and whether a sum adds up."""
    if segment.kind == "bad":
        return 0.0
    text = segment.text
    if "=" in text:
        left, _, right = text.rpartition("=")
        words = left.split()[-3:]
        try:
            a, sign, b = int(words[0]), words[1], int(words[2])
            return 1.0 if {"+": a + b, "-": a - b, "*": a * b}[sign] == int(right) else 0.1
        except (ValueError, KeyError, IndexError):
            return 0.1
    if segment.kind == "answer":
        return 0.8 if any(word in text for word in ("EUR", "please", *ITEMS)) else 0.4
    return 0.7


def train_head(
    reads: Sequence[Read], label: Callable[[int, int], float], *, seed: int, directory: Path
) -> tuple[str, dict[str, float]]:
    """Train on the labels through the box's own door; the head's directory and the run's summary."""
    records = [
        LabelledStepsRecord(
            attempt_id=index,
            group_id=index // TRIES,
            split="calibrate" if (index // TRIES) % CALIBRATE_EVERY == 0 else "train",
            prompt_token_ids=one.attempt.prompt_ids,
            token_ids=one.attempt.token_ids,
            steps=[
                LabelledStep(
                    step_id=place,
                    start=segment.start,
                    end=segment.end,
                    label=label(index, place),
                    truth=float(score == 1.0),
                )
                for place, (segment, score) in enumerate(zip(one.segments, one.verdict.step_scores, strict=True))
            ],
        )
        for index, one in enumerate(reads)
    ]
    content = b"\n".join(canonical_json(record.to_json()) for record in records)
    directory.mkdir(parents=True)
    (directory / "steps.jsonl").write_bytes(content)
    result = run(
        TrainSpec(
            run_id=seed + 1,
            attempt=1,
            worker="bench",
            base_model="desk",
            parent_adapter_uri=None,
            parent_sha256=None,
            policy_version=0,
            rollouts_uri=(directory / "steps.jsonl").as_uri(),
            rollouts_sha256=hashlib.sha256(content).hexdigest(),
            recipe=HeadRecipe().to_json(),
            seed=seed,
            output_uri=directory.as_uri(),
            purpose="reward_model",
        ),
        lambda _: None,
    )
    if not result.ok:
        raise SystemExit(f"{result.error_type}: {result.error_message}")
    return result.adapter_uri.removeprefix("file://"), dict(result.summary)


def measure(seed: int) -> dict[str, Any]:
    """AUCs of the held-out tickets' steps by each kind of label, and what it took."""
    clock = time.process_time()
    engine = Engine.open("desk")
    learned = sample(engine, seed=2 * seed + 1, count=TICKETS, held_out=False)
    outcomes = complete(engine, learned, seed=seed + 5_000)
    labels: dict[str, Callable[[int, int], float]] = {
        "hard": lambda index, place: hard_label(outcomes[index][place]),
        "soft": lambda index, place: statistics.fmean(outcomes[index][place]),
        "outcome": lambda index, _place: learned[index].verdict.outcome,
    }
    labelled_s = time.process_time() - clock
    tested = sample(engine, seed=2 * seed + 2, count=HELD_OUT, held_out=True)
    truths = [float(score == 1.0) for one in tested for score in one.verdict.step_scores]
    found: dict[str, Any] = {
        "seed": seed,
        "heuristic": area_under_curve([guess(segment) for one in tested for segment in one.segments], truths),
    }
    with tempfile.TemporaryDirectory() as directory:
        for kind, label in labels.items():
            path, summary = train_head(learned, label, seed=seed, directory=Path(directory) / kind)
            head = engine.load_head(f"{kind}-{seed}", Path(path))
            logits = [x for row in engine.score_steps(head, [one.asked for one in tested]) for x in row]
            found[kind] = area_under_curve(logits, truths)
            if kind == "hard":
                said = [head.curve.probability(logit) for logit in logits]
                found["brier"] = statistics.fmean((p - y) ** 2 for p, y in zip(said, truths, strict=True))
                found["learn_s"] = summary["wall_s"]
    return found | {
        "learned_steps": sum(len(one.segments) for one in learned),
        "tested_steps": len(truths),
        "share_good": statistics.fmean(truths),
        "label_cpu_s": labelled_s,
        "cpu_s": time.process_time() - clock,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    columns = ("hard", "soft", "outcome", "heuristic", "brier", "cpu_s")
    print(f"{'seed':>6}" + "".join(f"{name:>12}" for name in columns))
    rows = []
    for seed in options.seeds:
        rows.append(measure(seed))
        print(f"{seed:>6}" + "".join(f"{rows[-1][name]:12.3f}" for name in columns), flush=True)
    means = {name: statistics.fmean(row[name] for row in rows) for name in columns}
    print(f"{'mean':>6}" + "".join(f"{means[name]:12.3f}" for name in columns))
    print(
        f"\nStep AUC on {HELD_OUT} held-out tickets x {TRIES}: a head on the frozen base's states, {TICKETS} tickets x "
        f"{TRIES} learned, {COMPLETIONS} completions a step.\nhard: any of them reaches the verified outcome; soft: "
        "their mean; outcome: the attempt's, copied to all its steps."
    )
    passed = (
        min(row["hard"] for row in rows) >= WANTED_AUC
        and means["heuristic"] <= HEURISTIC_AT_MOST
        and max(row["cpu_s"] for row in rows) < CPU_S_AT_MOST
    )
    rounded = [{name: round(value, 4) for name, value in row.items()} for row in rows]
    ratios = {"hard_minus_heuristic": round(means["hard"] - means["heuristic"], 4)}
    print(json.dumps({"bench": "prm", "rows": rounded, "ratios": ratios, "passed": passed}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
