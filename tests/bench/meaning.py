"""`python -m tests.bench.meaning`: what a gateway's traffic is taken for.

Recorded kinds of programs' traffic, so many conversations of each, and people among it who correct an answer, all
through the real gateway and its writer, cut, heard, settled and made rollouts as they come
(`tests.apps.conversations.replay`). Of the programs nothing may be learnt; of the people every correction must be, of
the very answer that it was said of, and nothing of any other. What is asked and said, by which agents and tools, under
which names and how fast is drawn anew for each conversation.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tests.apps.conversations.traffic import Kinds

CONVERSATIONS, CORRECTIONS, ROUND = 200, 200, 20
KINDS = 24
Share = Mapping[str, int]
"""Of a round: conversations of each kind."""


class Counted(NamedTuple):
    """What came of one round, or of all; each by kind."""

    sent: Counter[str]
    requests: Counter[str]
    planted: Counter[str]
    lost: Counter[str]
    noted: Counter[str]
    false: Counter[str]
    why: list[str]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS, help="of each kind of programs' traffic")
    parser.add_argument("--corrections", type=int, default=CORRECTIONS, help="by people, over all their kinds")
    parser.add_argument("--round", type=int, default=ROUND, help="conversations of a kind that are under way at once")
    parser.add_argument("--processes", type=int, default=2, help="rounds at once")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    set_up()
    return measure(options)


def set_up() -> None:
    """Servers of our own, gone with this process, and the tables in them."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
    import tests.embedded_servers

    open_database()
    from django.core.management import call_command

    call_command("prepare_database", verbosity=0)
    os.environ.pop(tests.embedded_servers.STARTED_BY, None)  # processes from here on use the same


def open_database() -> None:
    import django

    django.setup()


def share_out(options: argparse.Namespace, machines: "Kinds", people: "Kinds") -> list[dict[str, int]]:
    """Rounds, in each of which every kind has its part."""
    rounds = max(1, math.ceil(options.conversations / options.round))
    shares: list[dict[str, int]] = [dict.fromkeys([*machines, *people], 0) for _ in range(rounds)]
    for kind in machines:
        for place in range(options.conversations):
            shares[place % rounds][kind] += 1
    for place in range(options.corrections):
        shares[place % rounds][list(people)[place % len(people)]] += 1
    return shares


def run_round(number: int, share: Share, seed: int) -> Counted:
    """Send, learn and count one round's conversations, in a project of their own."""
    from apps.accounts.models import Project
    from tests.apps.conversations.replay import Replay
    from tests.apps.conversations.traffic import MACHINES, PEOPLE

    project = Project.objects.create(slug=f"round-{number}", name=f"Round {number}")
    dice = random.Random(seed * 1_000_003 + number)
    known = {**MACHINES, **PEOPLE}
    counted = Counted(Counter(), Counter(), Counter(), Counter(), Counter(), Counter(), [])
    with Replay(project) as replay:
        kinds = [kind for kind, count in share.items() for _ in range(count)]
        for kind in dice.sample(kinds, len(kinds)):
            talk = replay.send(kind, known[kind], random.Random(dice.getrandbits(64)))
            counted.sent[kind] += 1
            counted.requests[kind] += len(talk.records)
            counted.planted[kind] += len(talk.corrected)
        replay.learn(dice)
        found = replay.find()
    counted.false.update(found.false)
    counted.noted.update(found.signals)
    counted.lost.update(words.partition(":")[0] for words in found.lost)
    counted.why.extend(found.lost)
    return counted


def measure(options: argparse.Namespace) -> int:
    from tests.apps.conversations.traffic import AMONG_OTHERS, MACHINES, PEOPLE

    began = time.monotonic()
    shares = share_out(options, MACHINES, PEOPLE)
    total = Counted(Counter(), Counter(), Counter(), Counter(), Counter(), Counter(), [])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context, initializer=open_database) as pool:
        works = [pool.submit(run_round, number, share, options.seed) for number, share in enumerate(shares, start=1)]
        for work in as_completed(works):
            counted = work.result()
            for mine, more in zip(total[:-1], counted[:-1], strict=True):
                mine.update(more)
            for words in counted.why:
                print(f"lost: {words}", file=sys.stderr)
            fallen = {kind: count for kind, count in counted.false.items() if count}
            print(
                f"  {total.sent.total()} conversations, {time.monotonic() - began:.0f} s; learnt of nobody's word: "
                f"{fallen or 'nothing'}",
                file=sys.stderr,
                flush=True,
            )
    rows = [
        {
            "traffic": kind, "by": "people" if kind in PEOPLE else "programs", "conversations": total.sent[kind],
            "requests": total.requests[kind], "corrections": total.planted[kind], "lost": total.lost[kind],
            "noted": total.noted[kind], "rollouts of what nobody judged": total.false[kind],
        }
        for kind in [*MACHINES, *PEOPLE]
    ]  # fmt: skip
    print_table(rows)
    found_false = sum(total.false[kind] for kind in MACHINES)
    crosswise = sum(total.false[kind] for kind in PEOPLE)
    planted, among = total.planted.total(), sum(total.planted[kind] for kind in AMONG_OTHERS)
    bars: dict[str, dict[str, Any]] = {
        "kinds of programs' traffic": {"found": len(MACHINES), "wanted": f">= {KINDS}", "met": len(MACHINES) >= KINDS},
        "usable rollouts of programs' traffic": {"found": found_false, "wanted": 0, "met": found_false == 0},
        "corrections lost": {"found": total.lost.total(), "wanted": 0, "met": total.lost.total() == 0},
        "rollouts of answers people did not judge": {"found": crosswise, "wanted": 0, "met": crosswise == 0},
        "corrections in sessions that held other requests": {
            "found": f"{among} of {planted}", "wanted": "half", "met": 2 * among >= planted,
        },
    }  # fmt: skip
    for name, bar in bars.items():
        print(f"{'met   ' if bar['met'] else 'MISSED'} {name}: {bar['found']} (wanted {bar['wanted']})")
    print(
        f"\n{total.sent.total()} conversations, {total.requests.total()} requests, {planted} corrections, "
        f"{time.monotonic() - began:.0f} s. Noted: scores that were heard and teach nothing alone."
    )
    print(json.dumps({"bench": "meaning", "rows": rows, "ratios": {}, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title="What traffic is taken for")
    for name in rows[0]:
        table.add_column(name, justify="left" if name in {"traffic", "by"} else "right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    sys.exit(main())
