"""1: tasks in, judged, trained on, gated, served, again: `manage.py demo` on a stack, and what it counts."""

from typing import Final

from tests.bench.experiments.ground import Bar, Findings, Ground, make_table

TITLE: Final = "The whole loop, on the ticket desk"
UPDATES, UPDATES_SMALL = 8, 2


def run(ground: Ground) -> Findings:
    """Its command itself fails where attempts, rollouts and places in batches are not all there, the audit does not
    verify or nothing was ever deployed."""
    updates = ground.choose(UPDATES, UPDATES_SMALL)
    told = ground.run_loop(updates)
    low = told["gain"][1]
    table = make_table("", "before", "after", title=f"1. {TITLE}: {updates} updates, {told['attempts']:,} attempts")
    for name in ("sampled", "greedy", "passed"):
        table.add_row(f"held-out tasks, {name}", f"{told[f'base_{name}']:.1%}", f"{told[f'final_{name}']:.1%}")
    gained = "{:+.1f} points [{:+.1f}, {:+.1f}]".format(*told["gain"])
    words = [
        f"gain, paired by task: {gained}; {told['rollouts']:,} rollouts, {told['loop_s'] / updates:.1f} s an update",
        f"beside the work: {told['capability']}",
    ]
    bars = {
        "held-out gain above 0": Bar(low, "the interval's low end above 0", low > 0),
        "the audit verifies": Bar(told["audit_ok"], "true", told["audit_ok"]),
        "rollouts of all attempts": Bar(told["rollouts"], str(told["attempts"]), told["rollouts"] == told["attempts"]),
    }
    return Findings(table, told, bars, words)
