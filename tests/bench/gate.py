"""`python -m tests.bench.gate`: of forty prepared adapters, which does the promotion gate let serve?

Twenty are honestly better than what serves, twenty worse (`tests.bench.gate_adapters`), on the desk and once more in a
project with prompts and checks of its own, whose items are all there is to measure on. Each is recorded, gated and
promoted by the product's services on rows of a Postgres of its own and the product's engine as a process, and taken
back before the next. The truth beside the verdict is measured on hundreds of other held-out tickets.

All forty are made once for each seed, from another line. Half of the verdicts end where it may serve, the others go on
to ask whether it is better than the line's anchor, which takes twice the tries: the median of one making lies on either
side by chance, so what a verdict takes is the mean of the makings' medians.

Before that: how often the gate is wrong of versions as good as their anchor, and how sure of worse ones, over thousands
of lines drawn from what five honest ones really answered (`tests.bench.gate_rates`).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from operator import methodcaller
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tentalis.core.learning.gate import GatePolicy
from tests.bench.databases import own_database
from tests.bench.gate_answers import find_answers
from tests.bench.gate_rates import (
    MARKS,
    MOST_FALSE,
    POINTS,
    PROVED_WITHIN,
    Line,
    judge_candidates,
    judge_null_lines,
    measure_proofs,
    measure_tag_alarms,
)
from tests.local_server import find_free_port

HOME = Path(".cache/bench/gate")
GROUNDS = "desk", "own_work"
MAKINGS, MOST_SEEDS = 3, 10
BETTER, WORSE_ALLOWED, MOST_TRIES = 18, 0, 407
LINES = range(5)
NULL = 2_000
"""Candidates exactly as much worse than what serves as the margin allows."""
LEAKED = (0.2, 0.4, 0.6)
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Judged:
    """One row of the table."""

    ground: str
    seed: int
    name: str
    group: str
    about: str
    truth: float | None
    state: str
    is_promoted: bool
    words: str
    wall_s: float
    tries: int


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="train the adapters again, though they are kept")
    parser.add_argument("--only", default="", help="groups whose name holds this")
    parser.add_argument("--grounds", nargs="+", choices=GROUNDS, default=GROUNDS, help="whose adapters")
    parser.add_argument("--makings", type=int, default=MAKINGS, help="how often the forty are made, of other seeds")
    parser.add_argument("--unrated", action="store_true", help="the forty alone, without how often it is wrong")
    parser.add_argument("--rates", action="store_true", help="how often it is wrong alone, without the forty")
    parser.add_argument("--repeats", type=int, default=200, help="lines drawn from each of the five")
    options = parser.parse_args(argv)
    console = Console(width=200)
    home = HOME.resolve()
    rates = {} if options.unrated else measure_rates(home / "rates", repeats=options.repeats, console=console)
    bars = {name: wanted_at_most(found, MOST_FALSE) for name, found in rates.items() if name.startswith("false")}
    if options.rates:
        return report(rates, bars, [])
    if options.again:
        shutil.rmtree(home, ignore_errors=True)
    kept = dict[tuple[str, int], Any]()
    for ground in options.grounds:
        kept |= {(ground, seed): found for seed, found in prepare(home / ground, ground, options.makings, console)}
    with serve_engine() as url:
        os.environ |= {"TENTALIS_ENGINE_URL": url, "DJANGO_SETTINGS_MODULE": "tentalis.settings.test"}
        judged = judge(kept, home, only=options.only, console=console)
    print_table(console, judged, {making: one["served"] for making, one in kept.items()})
    for ground in options.grounds:
        found = [
            count_promoted(judged, console, *making, served=one["served"])
            for making, one in kept.items()
            if making[0] == ground
        ]
        better, worse = min(one.better for one in found), sum(one.worse for one in found)
        tries = fmean(one.median_tries for one in found)
        console.print(f"{ground}: tries of a verdict, the mean of {len(found)} makings' medians: {tries:.0f}")
        rates |= {f"{ground}, better promoted": better, f"{ground}, worse promoted": worse}
        rates[f"{ground}, median tries"] = tries
        if not options.only:
            bars[f"{ground}, better promoted"] = {"found": better, "wanted": BETTER, "met": better >= BETTER}
            bars[f"{ground}, worse promoted"] = wanted_at_most(worse, WORSE_ALLOWED)
            bars[f"{ground}, median tries"] = wanted_at_most(tries, MOST_TRIES)
    return report(rates, bars, judged)


def prepare(home: Path, ground: str, makings: int, console: Console) -> Iterator[tuple[int, Any]]:
    """The forty of the first so many seeds that have twenty better ones, each with its seed."""
    made = 0
    for seed in range(MOST_SEEDS):
        if made == makings:
            return
        directory = home / str(seed)
        command = [sys.executable, "-m", "tests.bench.gate_adapters", str(directory), ground, str(seed)]
        subprocess.run(command, check=True)
        found = json.loads((directory / "prepared.json").read_text())
        if found["prepared"]:
            made += 1
            yield seed, found
        else:
            console.print(f"{ground}, seed {seed}: too few updates of its line are better in truth, another is taken")
    if made < makings:
        raise SystemExit(f"{ground}: wanted {makings} makings of the forty of {MOST_SEEDS} seeds, found {made}")


class Promoted(NamedTuple):
    """Of one making of the forty: how many of each kind were put into service, and what a verdict took."""

    better: int
    worse: int
    median_tries: float


def count_promoted(judged: Sequence[Judged], console: Console, ground: str, seed: int, *, served: float) -> Promoted:
    judged = [one for one in judged if (one.ground, one.seed) == (ground, seed)]
    better = [one for one in judged if one.group == "better"]
    worse = [one for one in judged if one.group != "better"]
    promoted = sum(one.is_promoted for one in better), sum(one.is_promoted for one in worse)
    tries = [one.tries for one in judged if one.tries] or [0]
    about = f"{ground}, seed {seed}"
    console.print(f"{about}: tries a verdict, where any was made: median {median(tries):g}, mean {fmean(tries):.0f}")
    console.print(f"{about}: promoted {promoted[0]} of {len(better)} better ones, {promoted[1]} of {len(worse)} worse")
    for one in worse:
        if one.is_promoted:
            console.print(f"{about}: {one.name} ({one.about}) was: in truth {one.truth}, what serves {served}")
    return Promoted(*promoted, median(tries))


def wanted_at_most(found: float, most: float) -> dict[str, Any]:
    return {"found": found, "wanted": most, "met": found <= most}


def report(rates: dict[str, float], bars: dict[str, dict[str, Any]], judged: Sequence[Judged]) -> int:
    """Print the line that machines read; 1 when a bar is missed."""
    rows = [asdict(one) for one in judged]
    print(json.dumps({"bench": "gate", "rows": rows, "ratios": rates, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def measure_rates(home: Path, *, repeats: int, console: Console) -> dict[str, float]:
    """Print how often the gate is wrong, and how sure; five lines are trained the first time."""
    home.mkdir(parents=True, exist_ok=True)
    for seed in LINES:
        subprocess.run([sys.executable, "-m", "tests.bench.gate_answers", str(home), str(seed)], check=True)
    lines = [Line.open(find_answers(home, seed), seed) for seed in LINES]
    policy, found = GatePolicy(), dict[str, float]()
    table = Table(
        title=f"{len(lines) * (repeats // 4)} lines of versions that are as good as their anchor, wrong at least once"
    )
    for column in (
        "versions",
        "versions are",
        "called better",
        "by the panel alone",
        "called worse",
        "by the panel alone",
    ):
        table.add_column(column)
    for kind, about in (("same", "the same weights, other seeds"), ("other", "other adapters, exactly as good")):
        null = judge_null_lines(lines, kind=kind, repeats=repeats // 4, marks=MARKS, policy=policy)
        for mark in MARKS:
            shares = {
                f"{name}, {rule}, {kind}, {mark}": counts[rule, mark] / null.lines
                for name, counts in (("proofs", null.proved), ("worse", null.worse))
                for rule in ("confirmed", "panel")
            }
            table.add_row(str(mark), about, *(f"{share:.1%}" for share in shares.values()))
            found |= {f"{'false' if ', confirmed' in name else 'panel alone'} {name}": x for name, x in shares.items()}
    console.print(table)
    table = Table(title="one update, truly so many points from what serves")
    for column in ("points", "may not serve", "median tries", f"as many points up: proved within {PROVED_WITHIN}"):
        table.add_column(column)
    for points in POINTS:
        level = NULL // len(lines) if points == -100 * policy.margin else repeats
        one = judge_candidates(lines, methodcaller("worse_by", points), repeats=level, policy=policy)
        proved = measure_proofs(lines, -points, repeats=repeats // 4, versions=PROVED_WITHIN, policy=policy)
        table.add_row(f"{points:+d}", f"{one.refused:.1%}", str(one.median_tries), f"{proved:.1%}")
        found |= {f"refused at {points}": one.refused, f"proved at {-points}": proved}
        if points == -100 * policy.margin:
            found["false promotion"] = 1 - one.refused
    console.print(table)
    for leaked in (0.0, *LEAKED):
        one = judge_candidates(
            lines, lambda line: line.draw(line.anchor), repeats=repeats, policy=policy, leaked=leaked
        )
        console.print(
            f"{leaked:.0%} of the kept panel known by heart: suspected {one.leaks:.1%}, median tries {one.median_tries}"
        )
        found |= {f"suspected with {leaked:.0%} leaked": one.leaks}
    tags = measure_tag_alarms(lines, repeats=max(repeats // 4, 1))
    caught = "none" if tags.true is None else f"{tags.true:.1%}"
    console.print(
        f"an update whose tags are truly within the bar is stopped for them: {tags.false:.2%} "
        f"(of {tags.versions[0]} versions); one that is beyond it: {caught} (of {tags.versions[1]})"
    )
    return found | {"tags within the bar": tags.false}


def judge(kept: Mapping[tuple[str, int], Any], home: Path, *, only: str, console: Console) -> list[Judged]:
    """Every candidate of every ground and seed through the product's services, one after the other."""
    with own_database():
        from django.conf import settings

        settings.ARTIFACTS = home
        judged = []
        for (ground, seed), found in kept.items():
            counter = make_counter(ground, seed, found)
            console.print(
                f"{ground}, seed {seed}: of the line itself {len(counter.held_up)} of {len(found['line'])} were held up"
            )
            for words in counter.held_up:
                console.print(words, highlight=False)
            judged += [
                counter.judge(one, console)
                for one in sorted(found["prepared"], key=lambda one: (one["group"] != "better", one["name"]))
                if only in one["group"]
            ]
        return judged


def make_counter(ground: str, seed: int, kept: dict[str, Any]) -> Any:
    """A project whose worker is served by the newest version of the line, and what judges candidates there.

    The line itself passes the gate version by version, from the base model on; what is held up serves all the same.
    """
    from django.db import transaction

    from apps.adapters import services, serving
    from apps.adapters.errors import AdapterBrokenError
    from apps.adapters.models import Adapter, Deployment
    from apps.audit.kinds import Kind
    from apps.base.errors import TentalisError
    from apps.evals.holding import AskedTask, find_held_out
    from apps.evals.measuring import measure
    from apps.evals.models import Evaluation
    from apps.evals.panels import choose_panel
    from apps.evals.services import ItemRow, add_items
    from apps.gate import gating
    from tentalis.core.learning.monitors import BatchFacts, describe_batch
    from tests.factories import make_project, make_user, make_worker

    name = f"{ground.replace('_', '-')}-{seed}"
    project = make_project(name)
    if own := [(prompt, answer) for prompt, answer in kept["items"] if answer]:
        rows = [
            ItemRow(line, prompt, "held_out", reference={"match": "exact", "value": answer})
            for line, (prompt, answer) in enumerate(own, start=1)
        ]
        add_items(project=project, name="own", environment=kept["kind"], rows=rows, by=make_user("alice"))
        project.refresh_from_db()
    worker = make_worker(project, name, kind=kept["kind"], base_model="desk", sampling=kept["sampling"])
    line: list[Adapter | None] = [None]
    held_up: list[str] = []
    for version, one in enumerate(kept["line"], start=1):
        adapter = services.record_adapter(
            worker=worker,
            parent=line[-1],
            run_id=1_000 * worker.pk + version,  # a training has one adapter, whichever making it is of
            uri=Path(one["directory"]).as_uri(),
            sha256=one["sha256"],
            by="bench",
        )
        Adapter.objects.filter(pk=adapter.pk).update(taught=asdict(BatchFacts(rollouts=0, reach=one["reach"])))
        gating.gate_adapter(adapter.pk, by="gate")
        services.promote_verified(adapter.pk, by="gate")
        adapter.refresh_from_db()
        if adapter.state != Adapter.State.DEPLOYED:
            held_up.append(f"{adapter.name}: {adapter.verdicts.get(question='safe').words}")
            Adapter.objects.filter(pk=adapter.pk).update(state="verified")
            adapter.refresh_from_db()
            with transaction.atomic():
                services.deploy(worker, adapter, by="bench", kind=Kind.DEPLOYMENT_MOVED)
        line.append(adapter)
    policy = GatePolicy()
    panel = choose_panel(worker, version=len(line), policy=policy)
    assert panel is not None
    anchor = Adapter.objects.filter(worker=worker, is_anchor=True).first()
    for model in {None, line[-1], anchor}:  # once a panel, not once a verdict
        measure(worker, model, panel.item_set, Evaluation.Purpose.PANEL)

    def count_held_out(prompts: Sequence[str]) -> int:
        asked = (AskedTask(place, project.pk, kept["kind"], prompt) for place, prompt in enumerate(prompts))
        return len(find_held_out(asked))

    class Counter:
        """Where a candidate is handed in.

        Attributes:
            held_up: versions of the line that the gate did not let serve, with its words.
        """

        def __init__(self) -> None:
            self.held_up = held_up

        def judge(self, one: dict[str, Any], console: Console) -> Judged:
            began = time.monotonic()
            state, words, is_promoted, name, tries = "no row", "", False, "", 0
            with transaction.atomic():
                try:
                    batch = one["batch"]
                    adapter = services.record_adapter(
                        worker=worker,
                        parent=line[one["told_parent"]],
                        run_id=1_000,
                        uri=Path(one["directory"]).as_uri(),
                        sha256=one["sha256"],
                        by="bench",
                    )
                    taught = describe_batch(
                        [reward for _, reward, _ in batch],
                        [outcome for _, _, outcome in batch],
                        held_out=count_held_out([prompt for prompt, _, _ in batch]),
                    )
                    facts = asdict(replace(taught, reach=one["reach"]))
                    Adapter.objects.filter(pk=adapter.pk).update(taught=facts)
                except AdapterBrokenError as error:
                    words = str(error)
                else:
                    name, before = adapter.name, count_tries()
                    gating.gate_adapter(adapter.pk, by="gate")
                    tries = count_tries() - before
                    services.promote_verified(adapter.pk, by="gate")
                    adapter.refresh_from_db()
                    state = adapter.state
                    words = " | ".join(verdict.words for verdict in adapter.verdicts.order_by("pk"))
                    is_promoted = Deployment.objects.get(worker=worker).adapter_id == adapter.pk
                transaction.set_rollback(True)
            with suppress(TentalisError):  # it was never loaded
                serving.client_of(worker).unload_adapter(name)
            found = Judged(
                ground,
                seed,
                one["name"],
                one["group"],
                one["about"],
                one["truth"],
                state,
                is_promoted,
                words,
                round(time.monotonic() - began, 2),
                tries,
            )
            told = f"{ground}, seed {seed}, {found.name}: {found.state} {found.wall_s} s, {tries} tries"
            console.print(told, highlight=False, style="dim")
            return found

    return Counter()


def count_tries() -> int:
    """Answers that any gate asked for so far."""
    from apps.evals.models import ItemTry

    return ItemTry.objects.count()


def print_table(console: Console, judged: Sequence[Judged], served: Mapping[tuple[str, int], float]) -> None:
    told = ", ".join(f"{ground}, seed {seed}: {share:.3f}" for (ground, seed), share in served.items())
    table = Table(title=f"what serves, of other prompts right: {told}")
    for column in ("ground", "seed", "adapter", "group", "how", "truth", "gate", "words"):
        table.add_column(column, overflow="fold")
    for one in judged:
        truth = "" if one.truth is None else f"{one.truth:.3f}"
        table.add_row(one.ground, str(one.seed), one.name, one.group, one.about, truth, one.state, one.words)
    console.print(table)
    console.print(dict(Counter((one.ground, one.group, one.state) for one in judged)))


@contextmanager
def serve_engine() -> Iterator[str]:
    """The product's engine on a port of its own; gives its address."""
    port = find_free_port()
    command = [sys.executable, "-m", "gpu_workers.engine", "--model", "desk", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except (urllib.error.URLError, ConnectionError):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("the engine did not come up") from None
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    sys.exit(main())
