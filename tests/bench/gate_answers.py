"""What honest lines of the desk answer, many times over: the answers that `tests.bench.gate_rates` draws from.

Each line is trained by the product's trainer from attempts of the product's engine, as the demo's is. Every version
then answers the kept panel and hundreds of other held-out tickets again and again.
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpu_workers.desk.attempts import Attempt, attempt_tickets, judge_attempt
from gpu_workers.engine import Engine
from tentalis.core.desk import Ticket, make_tickets, read_pieces
from tentalis.core.learning.collapse import measure_self_overlap
from tests.bench.gate_adapters import PANEL_SEED, Ground, Workshop

VERSIONS, ANCHOR = 10, 8
PANEL, OTHERS, OTHERS_SEED = 300, 600, 4_000
ROUNDS, ANCHOR_ROUNDS = 6, 16
TRAITS = ("outcome", "step_score", "is_broken", "has_end", "entropy_nats", "length_tokens", "self_overlap")


def find_answers(home: Path, seed: int) -> Path:
    """Where a line's answers are kept.

    Returns:
        An npz file with `v0` (the base model) to `vN`, each (items, rounds, traits): the panel's items first.
    """
    return home / f"answers-{seed}-{VERSIONS}.npz"


def answer_line(home: Path, seed: int) -> None:
    """Train a line and have each version answer everything; made once."""
    kept = find_answers(home, seed)
    if kept.exists():
        return
    shop = Workshop(home / f"line-{seed}", Ground(seed))
    shop.train_line(versions=VERSIONS)
    tickets = list_tickets()
    answers = {
        f"v{version}": answer(
            shop.engine,
            tickets,
            adapter=f"v{version}" if version else None,
            rounds=ANCHOR_ROUNDS if version == ANCHOR else ROUNDS,
        )
        for version in range(VERSIONS + 1)
    }
    np.savez_compressed(kept, **answers)  # type: ignore[arg-type]  # numpy's stub takes the names for its own option


def list_tickets() -> Sequence[Ticket]:
    """The kept panel's tickets, then others that are not on it."""
    panel = make_tickets(PANEL_SEED, PANEL, held_out=True)
    known = {ticket.text for ticket in panel}
    others = [ticket for ticket in make_tickets(OTHERS_SEED, 4 * OTHERS, held_out=True) if ticket.text not in known]
    return [*panel, *others[:OTHERS]]


def answer(engine: Engine, tickets: Sequence[Ticket], *, adapter: str | None, rounds: int) -> np.ndarray:
    """(items, rounds, traits) of every ticket answered so many times, sampled at temperature 1."""
    found = np.zeros((len(tickets), rounds, len(TRAITS)), dtype=np.float32)
    for again in range(rounds):
        groups = attempt_tickets(engine, tickets, adapter=adapter, seed=random.Random(again).getrandbits(30))
        for place, (attempt,) in enumerate(groups):
            found[place, again] = _describe(engine, attempt)
    return found


def _describe(engine: Engine, attempt: Attempt) -> Sequence[float]:
    verdict = judge_attempt(engine, attempt)
    kinds = {kind for kind, _ in read_pieces(engine.codec.split_pieces(attempt.token_ids)).parts}
    scores = [*verdict.step_scores, *[0.0] * verdict.missing_steps]
    chosen = [
        (token, logprob)
        for token, logprob, sampled in zip(attempt.token_ids, attempt.logprobs, attempt.sampled, strict=True)
        if sampled
    ]
    return (
        verdict.outcome,
        sum(scores) / len(scores) if scores else verdict.outcome,
        float(bool(kinds & {"other", "bad"}) or not kinds),
        float(attempt.ended),
        -sum(logprob for _, logprob in chosen) / max(len(chosen), 1),
        float(len(chosen)),
        measure_self_overlap([token for token, _ in chosen]),
    )


if __name__ == "__main__":
    answer_line(Path(sys.argv[1]).resolve(), int(sys.argv[2]))
