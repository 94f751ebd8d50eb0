"""The desk's inner loop as the benches run it: the product's engine and trainer in one process, no rows, no queues."""

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gpu_workers.desk.attempts import Attempt, attempt_tickets, judge_attempt, measure_accuracy
from gpu_workers.engine import Engine
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import AnswerRecord, DemonstrationRecord, PairRecord, RolloutRecord, StepReward, TrainSpec
from tentalis.core.desk import Ticket, make_tickets, read_pieces, rule_book_hints, verify
from tentalis.core.hints import hinted_prompt
from tentalis.core.learning.recipes import Recipe

TASKS, GROUP = 24, 8
PANEL_TICKETS, PANEL_SEED, SECOND_PANEL_SEED = 300, 7, 7_007
Record = RolloutRecord | PairRecord | DemonstrationRecord
Rejudge = Callable[[list[RolloutRecord]], list[RolloutRecord]]


def record_rollouts(engine: Engine, groups: Sequence[Sequence[Attempt]], *, version: int) -> list[RolloutRecord]:
    """The rows' work: rewards from the rule book's verdict, and its hints for every attempt.

    The candidate hints are the whole of what the rule book says of a ticket, the same without the sum, and the option
    alone.
    """
    rollouts: list[RolloutRecord] = []
    for group_id, group in enumerate(groups):
        ticket = group[0].ticket
        text, hints = ticket.text, rule_book_hints(ticket)
        candidates = [
            [{"role": "user", "content": hinted_prompt(text, told)}] for told in (hints, hints[:2], hints[:1])
        ]
        for attempt in group:
            reading = read_pieces(engine.codec.split_pieces(attempt.token_ids))
            verdict = verify(attempt.ticket, reading.parts, attempt.ended)
            rollouts.append(
                RolloutRecord(
                    rollout_id=len(rollouts),
                    group_id=group_id,
                    adapter="",
                    policy_version=version,
                    messages=[{"role": "user", "content": text}],
                    hinted_messages=candidates[0],
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
                    candidate_hints=candidates if attempt.top else (),
                    top_token_ids=[[token for token, _ in top] for top in attempt.top] if attempt.top else None,
                    top_logprobs=[[value for _, value in top] for top in attempt.top] if attempt.top else None,
                )
            )
    return rollouts


def measure_panel(engine: Engine, adapter: str | None, *, temperature: float) -> float:
    """Share of held-out tickets answered right."""
    tickets = make_tickets(PANEL_SEED, PANEL_TICKETS, held_out=True)
    return measure_accuracy(engine, tickets, adapter=adapter, seed=1, temperature=temperature)


def list_panels() -> Sequence[Ticket]:
    """The panel's held-out tickets, then those of a second one that was drawn and is sampled apart from it."""
    return [
        ticket
        for seed in (PANEL_SEED, SECOND_PANEL_SEED)
        for ticket in make_tickets(seed, PANEL_TICKETS, held_out=True)
    ]


def measure_mark(
    engine: Engine, mark: int, *, adapter: str | None = None, hint: Callable[[Ticket], Sequence[str]] | None = None
) -> dict[str, Any]:
    """What is told of an arm at a mark.

    Args:
        hint: what each ticket is told in its prompt.
    Returns:
        `sampled_M` and `greedy_M` of the panel, `second_M` of the second one, sampled, and `outcomes_M`: 0 or 1 of each
        ticket of `list_panels`.
    """
    outcomes: list[int] = []
    panels = list_panels()
    for place, seed in ((0, 1), (PANEL_TICKETS, 2)):
        tickets = panels[place : place + PANEL_TICKETS]
        hints = [hint(ticket) for ticket in tickets] if hint else None
        groups = attempt_tickets(engine, tickets, adapter=adapter, seed=seed, hints=hints)
        outcomes += [int(judge_attempt(engine, group[0]).outcome) for group in groups]
    first = panels[:PANEL_TICKETS]
    hints = [hint(ticket) for ticket in first] if hint else None
    greedy = measure_accuracy(engine, first, seed=1, temperature=0.0, adapter=adapter, hints=hints)
    shares = {"sampled": outcomes[:PANEL_TICKETS], "second": outcomes[PANEL_TICKETS:]}
    return {
        **{f"{name}_{mark}": sum(found) / len(found) for name, found in shares.items()},
        f"greedy_{mark}": greedy,
        f"outcomes_{mark}": outcomes,
    }


def measure_base(model: str) -> tuple[float, float]:
    """Held-out accuracy of the untrained model, sampled and greedy."""
    torch.set_num_threads(1)
    engine = Engine.open(model)
    return measure_panel(engine, None, temperature=1.0), measure_panel(engine, None, temperature=0.0)


def learn(
    recipe: Recipe,
    *,
    seed: int,
    marks: Sequence[int],
    model: str,
    directory: Path,
    rejudge: Rejudge = list,
    tasks: int = TASKS,
    group: int = GROUP,
    lag: int = 0,
    corrects: bool = True,
) -> dict[str, Any]:
    """Run the loop; held-out accuracy at each mark, sampled and greedy, and where the CPU seconds went.

    Args:
        rejudge: puts others' judgements in the place of the rule book's, update by update.
        lag: updates by which the policy that samples is behind the one that learns.
        corrects: False takes the learning policy's log-probs for the behaviour's, as a trainer does that computes them
            anew: nothing then says how old a token is.
    """
    torch.set_num_threads(1)
    engine = Engine.open(model)
    rng = random.Random(seed + 100)
    parent: tuple[str, str] | None = None
    adapters: list[str | None] = [None]  # by version, the base first
    found: dict[str, Any] = {}
    spent = {"generate": 0.0, "train": 0.0, "swap": 0.0}
    ratios: list[float] = []
    refused = 0
    for update in range(1, max(marks) + 1):
        clock = time.process_time()
        version = max(0, update - 1 - lag)
        tickets = make_tickets(rng, tasks, held_out=False)
        groups = attempt_tickets(
            engine,
            tickets,
            n=group,
            adapter=adapters[version],
            seed=seed * 100_003 + update,
            top_k=recipe.stored_top_k or None,
        )
        rollouts = rejudge(record_rollouts(engine, groups, version=version))
        if not corrects:
            rollouts = _forget_behaviour(engine, rollouts, adapters[-1])
        spent["generate"] += time.process_time() - clock
        clock = time.process_time()
        spec = write_spec(
            directory / f"{update}",
            as_records(rollouts, recipe),
            recipe,
            update=update,
            seed=seed,
            model=model,
            parent=parent,
        )
        result = run(spec, lambda _: None)
        spent["train"] += time.process_time() - clock
        refused += result.error_type == "UnfitAdapterError"
        if result.error_type in {"NothingToLearnError", "UnfitAdapterError"}:
            adapters.append(adapters[-1])
        elif not result.ok:
            raise SystemExit(f"update {update}: {result.error_type}: {result.error_message}")
        else:
            clock = time.process_time()
            ratios.append(float(result.summary.get("max_ratio", 0.0)))
            parent = (result.adapter_uri, result.sha256)
            engine.load_adapter(f"update-{update}", Path(result.adapter_uri.removeprefix("file://")))
            adapters.append(f"update-{update}")
            if update - 1 - lag >= 0 and (old := adapters[update - 1 - lag]) and old not in adapters[update - lag :]:
                engine.unload_adapter(old)
            spent["swap"] += time.process_time() - clock
        if update in marks:
            found |= measure_mark(engine, update, adapter=adapters[-1])
    found |= {"max_ratio": max(ratios, default=0.0), "trained_updates": float(len(ratios)), "refused": float(refused)}
    return found | {f"{name}_cpu_s": seconds / max(marks) for name, seconds in spent.items()}


def as_records(rollouts: Sequence[RolloutRecord], recipe: Recipe) -> Sequence[Record]:
    """What the recipe's algorithm learns from, of the same attempts: right answers over wrong ones at one ticket, or
    the right ones alone; the same tokens once a ticket.
    """
    if recipe.learns_from == "rollouts":
        return rollouts
    once = {(one.group_id, tuple(one.token_ids)): one for one in rollouts if any(one.sampled)}
    good = [one for one in once.values() if one.reward == 1]
    if recipe.learns_from == "demonstrations":
        return [
            DemonstrationRecord(
                demonstration_id=one.rollout_id,
                group_id=one.group_id,
                source="attempt",
                messages=one.messages,
                answer="",
                prompt_token_ids=one.prompt_token_ids,
                token_ids=one.token_ids,
                counts=one.sampled,
            )
            for one in good
        ]
    return [
        PairRecord(
            pair_id=better.rollout_id * 1_000 + worse.rollout_id,
            group_id=better.group_id,
            source="attempts",
            messages=better.messages,
            prompt_token_ids=better.prompt_token_ids,
            chosen=[AnswerRecord(token_ids=better.token_ids, counts=better.sampled)],
            rejected=[AnswerRecord(token_ids=worse.token_ids, counts=worse.sampled)],
        )
        for better in good
        for worse in once.values()
        if worse.group_id == better.group_id and worse.reward == 0
    ]


def write_spec(
    output: Path,
    rollouts: Sequence[Record],
    recipe: Recipe,
    *,
    update: int,
    seed: int,
    model: str,
    parent: tuple[str, str] | None,
) -> TrainSpec:
    """A spec over these rollouts, written into its own output directory."""
    content = b"\n".join(canonical_json(rollout.to_json()) for rollout in rollouts)
    output.mkdir(parents=True)
    (output / "rollouts.jsonl").write_bytes(content)
    return TrainSpec(
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
    )


def remember(*, seed: int, marks: Sequence[int], model: str, tasks: int = TASKS, group: int = GROUP) -> dict[str, Any]:
    """The loop without weights: hints are kept, and each held-out ticket is told the hints of the likest one seen.

    It sees the tickets `learn` would see with this seed; a ticket's hints are the rule book's, as OPD's are.
    """
    torch.set_num_threads(1)
    del group  # a hint is written once a ticket, however often it was tried
    engine = Engine.open(model)
    rng = random.Random(seed + 100)
    memory: list[Ticket] = []
    found: dict[str, Any] = {}
    for update in range(1, max(marks) + 1):
        memory += make_tickets(rng, tasks, held_out=False)
        if update in marks:
            found |= measure_mark(engine, update, hint=partial(_remember_hints, memory))
    return found


def _remember_hints(memory: Sequence[Ticket], ticket: Ticket) -> Sequence[str]:
    return rule_book_hints(_find_likest(ticket, memory))


def _find_likest(ticket: Ticket, memory: Sequence[Ticket]) -> Ticket:
    """The ticket seen whose words overlap most (Jaccard); the latest of equals."""
    words = set(ticket.text.split())

    def overlap(other: Ticket) -> float:
        theirs = set(other.text.split())
        return len(words & theirs) / len(words | theirs)

    return max(reversed(memory), key=overlap)


def _forget_behaviour(engine: Engine, rollouts: Sequence[RolloutRecord], adapter: str | None) -> list[RolloutRecord]:
    """The rollouts as if the policy about to learn had sampled them."""
    scored = engine.score(
        [rollout.prompt_token_ids for rollout in rollouts], [rollout.token_ids for rollout in rollouts], adapter
    )
    return [
        replace(
            rollout,
            logprobs=[value if counts else 0.0 for value, counts in zip(values.tolist(), rollout.sampled, strict=True)],
        )
        for rollout, values in zip(rollouts, scored, strict=True)
    ]
