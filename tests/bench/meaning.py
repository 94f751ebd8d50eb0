"""`python -m tests.bench.meaning`: what a gateway's traffic is taken for.

Recorded kinds of programs' traffic, so many conversations of each, and people among it who correct an answer, all
through the real gateway and its writer, cut, heard, settled and made rollouts as they come
(`tests.apps.conversations.replay`). Of the programs nothing may be learnt; of the people every correction must be, of
the very answer that it was said of, and nothing of any other.
"""

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

CONVERSATIONS, CORRECTIONS, ROUND = 200, 200, 20
KINDS = 24


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS, help="of each kind of programs' traffic")
    parser.add_argument("--corrections", type=int, default=CORRECTIONS, help="by people, over all their kinds")
    parser.add_argument("--round", type=int, default=ROUND, help="conversations of a kind that are under way at once")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    set_up()
    return measure(options)


def set_up() -> None:
    """Servers of our own, gone with this process, and the tables in them."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
    import django

    import tests.embedded_servers  # noqa: F401

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def measure(options: argparse.Namespace) -> int:
    from apps.accounts.models import Project
    from tests.apps.conversations.replay import Replay
    from tests.apps.conversations.traffic import MACHINES, PEOPLE

    began = time.monotonic()
    people = list(PEOPLE)
    wanted = dict.fromkeys(MACHINES, options.conversations)
    wanted |= {kind: options.corrections // len(people) for kind in people}
    for kind in people[: options.corrections % len(people)]:
        wanted[kind] += 1
    known = {**MACHINES, **PEOPLE}
    sent: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    false: Counter[str] = Counter()
    signals: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    number = 0
    while any(sent[kind] < count for kind, count in wanted.items()):
        number += 1
        project = Project.objects.create(slug=f"round-{number}", name=f"Round {number}")
        dice = random.Random(options.seed * 1_000_003 + number)
        with Replay(project) as replay:
            for kind, count in wanted.items():
                for _ in range(min(options.round, count - sent[kind])):
                    talk = replay.send(kind, known[kind], random.Random(dice.getrandbits(64)))
                    sent[kind] += 1
                    requests[kind] += len(talk.records)
                    planted[kind] += len(talk.corrected)
            replay.learn(dice)
            found = replay.find()
        false.update(found.false)
        signals.update(found.signals)
        lost.update(words.partition(":")[0] for words in found.lost)
        for words in found.lost:
            print(f"lost: {words}", file=sys.stderr)
        print(
            f"  round {number}: {sum(sent.values())} conversations, {time.monotonic() - began:.0f} s", file=sys.stderr
        )
    rows = [
        {
            "traffic": kind, "by": "people" if kind in PEOPLE else "programs", "conversations": sent[kind],
            "requests": requests[kind], "corrections": planted[kind], "lost": lost[kind], "noted": signals[kind],
            "rollouts of what nobody judged": false[kind],
        }
        for kind in wanted
    ]  # fmt: skip
    print_table(rows)
    found_false = sum(false[kind] for kind in MACHINES)
    crosswise = sum(false[kind] for kind in PEOPLE)
    bars: dict[str, dict[str, Any]] = {
        "kinds of programs' traffic": {"found": len(MACHINES), "wanted": f">= {KINDS}", "met": len(MACHINES) >= KINDS},
        "usable rollouts of programs' traffic": {"found": found_false, "wanted": 0, "met": found_false == 0},
        "corrections lost": {"found": lost.total(), "wanted": 0, "met": lost.total() == 0},
        "rollouts of answers people did not judge": {"found": crosswise, "wanted": 0, "met": crosswise == 0},
    }
    for name, bar in bars.items():
        print(f"{'met   ' if bar['met'] else 'MISSED'} {name}: {bar['found']} (wanted {bar['wanted']})")
    print(
        f"\n{sum(sent.values())} conversations, {requests.total()} requests, {planted.total()} corrections, "
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
