"""`python -m tests.bench.talker`: a user who only talks, and a worker who learns from nothing else.

The loop is that of `tests.bench.learning`, but every ticket is asked once, in a conversation of OpenClaw's shape
(a system message, the person's words, its internal context as a further user message), and nobody scores: the user
reads the answer and says thanks, corrects it with the house's rule, tells the right answer, asks the same again (which
is noted, and teaches nothing alone), or says nothing to it.
What the trainer gets is what the product's own rules (`tentalis.core.conversations`) hear in the
next request. The desk's model is shown the ticket alone: it was taught no other words.

Beside it: the same attempts with an explicit score and hint for each of them; users who say the opposite of what
they should in one of ten, and in 37 of a hundred turns; and users whose words neither the rules nor the judge have seen
(`tests.bench.talker_user.HELD_OUT`), heard by the rules alone, and with a judge who reads what the rules cannot
(`tests.bench.talker_judge`: a small classifier that learnt from other people's words; no language model).

With `--openclaw N` a sample goes through a real OpenClaw and the whole platform: see `tests.bench.talker_openclaw`.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gpu_workers.engine import Engine
from tentalis.core.contracts import RolloutRecord
from tentalis.core.conversations.signals import MACHINES, Abstained, Signal, read_reaction
from tentalis.core.conversations.turns import find_change, find_words
from tentalis.core.desk import DeskVerdict, Ticket, parse_hints, parse_ticket, read_pieces, verify
from tentalis.core.hints import hinted_prompt
from tentalis.core.learning.recipes import RECIPES
from tests.bench import talker_openclaw
from tests.bench.learning import learn, measure_base, print_table
from tests.bench.talker_judge import Judge
from tests.bench.talker_user import HELD_OUT, KNOWN, User, Wording

TICKETS = 192
SYSTEM = {"role": "system", "content": "You are a personal assistant running inside OpenClaw.\n" * 20}
INTERNAL = {
    "role": "user",
    "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nCurrent time: noon.\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
}
RECIPE = RECIPES["desk"]


@dataclass(frozen=True)
class Arm:
    """How a user talks, and who hears it.

    Args:
        wrong: how often the user says the opposite; None: every attempt is scored and gets its hint.
    """

    wrong: float | None
    wording: Wording = KNOWN
    is_judged: bool = False


ARMS: Mapping[str, Arm] = {
    "explicit feedback": Arm(None),
    "talk alone": Arm(0.0),
    "talk, 10 % wrong": Arm(0.10),
    "talk, 37 % wrong": Arm(0.37),
    "other words, rules alone": Arm(0.0, HELD_OUT),
    "other words and a judge": Arm(0.0, HELD_OUT, is_judged=True),
}


def hear(ticket: Ticket, answer: str, reaction: str) -> tuple[Signal | Abstained, str]:
    """What the product hears of two requests of OpenClaw's shape: a signal, and the words it was in."""
    first = [SYSTEM, {"role": "user", "content": ticket.text}, INTERNAL]
    second = [*first[:2], {"role": "assistant", "content": answer}, {"role": "user", "content": reaction}, INTERNAL]
    before, now = find_words(first), find_words(second)
    change = find_change(before, now)
    said = "\n\n".join(now[change.start :])
    return read_reaction(asked="\n\n".join(before), reaction=said, began=change.began), said


RIGHT, WRONG, MISSED, LEFT, HINTED = "heard right", "heard wrong", "not heard", "rightly left", "with a hint"
"""Of conversations; the last of those that were heard."""


class Desk:
    """Puts what a user's words show in the place of the rule book's rewards; what shows nothing is left out."""

    def __init__(self, arm: str, *, seed: int, model: str) -> None:
        self.arm = ARMS[arm]
        self.user = User(random.Random(seed * 7 + 1), self.arm.wrong or 0.0, self.arm.wording)
        self.judge = Judge() if self.arm.is_judged else None
        self.codec = Engine.open(model).codec
        self.heard: Counter[str] = Counter()

    def rejudge(self, rollouts: list[RolloutRecord]) -> list[RolloutRecord]:
        judged = [self._explain(one) if self.arm.wrong is None else self._hear(one) for one in rollouts]
        return [rollout for rollout in judged if rollout is not None]

    def _explain(self, rollout: RolloutRecord) -> RolloutRecord:
        """An explicit score, and the hint that belongs to the mistakes."""
        ticket, verdict, _ = self._read(rollout)
        return self._teach(rollout, ticket, rollout.reward or 0.0, 1.0, verdict.hints)

    def _hear(self, rollout: RolloutRecord) -> RolloutRecord | None:
        ticket, verdict, answer = self._read(rollout)
        verdict = replace(verdict, outcome=rollout.reward or 0.0)
        spoken = self.user.speak(ticket, verdict)
        found, said = hear(ticket, answer, spoken.words)
        hints: Sequence[str] = ()
        if self.judge is not None:
            heard = self.judge.hear(asked=ticket.text, answer=answer, reaction=said, found=found)
            found, hints = heard.found, heard.hints
        if isinstance(found, Abstained) or found.kind in MACHINES:  # what is only asked again teaches nothing alone
            self.heard[MISSED if spoken.is_content is not None else LEFT] += 1
            return None
        self.heard[RIGHT if spoken.is_content is (found.score >= 0.5) else WRONG] += 1
        told = parse_hints(" ".join([said, *hints])) if found.score < 0.5 else ()
        self.heard[HINTED] += bool(told)
        return self._teach(rollout, ticket, found.score, found.trust, told)

    def _read(self, rollout: RolloutRecord) -> tuple[Ticket, DeskVerdict, str]:
        ticket = parse_ticket(rollout.messages[0]["content"])
        pieces = self.codec.split_pieces(list(rollout.token_ids))
        return ticket, verify(ticket, read_pieces(pieces).parts, ended=True), "".join(pieces)

    @staticmethod
    def _teach(
        rollout: RolloutRecord, ticket: Ticket, score: float, trust: float, hints: Sequence[str]
    ) -> RolloutRecord:
        hinted = [{"role": "user", "content": hinted_prompt(ticket.text, hints)}] if hints else None
        return replace(rollout, reward=score, weight=trust, hinted_messages=hinted, steps=(), missing_steps=0)


def learn_arm(
    work: tuple[str, int], *, marks: Sequence[int], model: str, tickets: int
) -> tuple[str, int, dict[str, float], dict[str, int]]:
    """One arm with one seed: held-out accuracy at each mark, and what was heard."""
    arm, seed = work
    desk = Desk(arm, seed=seed, model=model)
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory:
        found = learn(
            RECIPE,
            seed=seed,
            marks=marks,
            model=model,
            directory=Path(directory),
            rejudge=desk.rejudge,
            tasks=tickets,
            group=1,
        )
    return arm, seed, found, dict(desk.heard)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, nargs="+", default=[4, 12], help="when to measure")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--tickets", type=int, default=TICKETS, help="conversations an update")
    parser.add_argument("--model", default="desk", help="desk, or a model directory")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--openclaw", type=int, default=0, help="so many conversations through a real OpenClaw instead")
    parser.add_argument("--panel", type=int, default=120, help="held-out tickets asked through it, before and after")
    options = parser.parse_args(argv)
    if options.openclaw:
        talks = talker_openclaw.run(conversations=options.openclaw, seeds=options.seeds, panel=options.panel)
        return talker_openclaw.report(talks, options.panel)
    marks = sorted(options.updates)
    began = time.monotonic()
    sampled, greedy = measure_base(options.model)
    print(f"base: {sampled:.3f} sampled, {greedy:.3f} greedy on held-out tickets", flush=True)
    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in options.arms}
    heard: dict[str, Counter[str]] = {arm: Counter() for arm in options.arms}
    work = [(arm, seed) for seed in options.seeds for arm in options.arms]
    run = partial(learn_arm, marks=marks, model=options.model, tickets=options.tickets)
    with ProcessPoolExecutor(options.processes) as pool:
        for arm, seed, measured, kinds in pool.map(run, work):
            found[arm].append(measured)
            heard[arm].update(kinds)
            print(f"  {arm}, seed {seed}: {measured[f'sampled_{marks[-1]}']:.3f}", file=sys.stderr, flush=True)
    rows: list[dict[str, Any]] = []
    for arm, values in found.items():
        shares = [name for name in values[0] if name.startswith(("sampled_", "greedy_"))]
        means = {name: round(statistics.fmean(value[name] for value in values), 4) for name in shares}
        last = [round(value[f"sampled_{marks[-1]}"], 3) for value in values]
        rows.append({"variant": arm, "heard": dict(heard[arm]), **means, "seeds": last})
    print_table(rows, marks)
    print_heard(rows)
    print(
        f"\n{options.tickets} conversations of one ticket an update, the same tickets in every row, mean of "
        f"{len(options.seeds)} seeds, {time.monotonic() - began:.0f} s. An explicit\nscore is always there and always "
        "right; of what users say some shows nothing, and some is wrong.\nThe other words and the judge's lessons "
        "share no sentence; the judge is a small classifier."
    )
    gained = {row["variant"]: round(row[f"sampled_{marks[-1]}"] - sampled, 4) for row in rows}
    base = {"variant": "base", "sampled": sampled, "greedy": greedy}
    print(json.dumps({"bench": "talker", "rows": [base, *rows], "ratios": {"gained": gained}}))
    return 0 if all(gained.get(arm, 1.0) > 0.1 for arm in ("talk alone", "other words and a judge")) else 1


def print_heard(rows: Iterable[Mapping[str, Any]]) -> None:
    print("\nwhat was heard of what users meant, share of conversations")
    print(f"{'':28}" + "".join(f"{kind:>16}" for kind in (RIGHT, WRONG, MISSED, LEFT, HINTED)))
    for row in rows:
        heard = Counter(row["heard"])
        if total := heard.total() - heard[HINTED]:
            shares = "".join(f"{heard[kind] / total:16.3f}" for kind in (RIGHT, WRONG, MISSED, LEFT, HINTED))
            print(f"{row['variant']:28}{shares}")


if __name__ == "__main__":
    sys.exit(main())
