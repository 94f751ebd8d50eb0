"""`python -m tests.bench.templates`: does an agent of each framework work here as well as the loop without one?

`--part equal`: for each template a package is made and installed, with its framework from the package index, into an
environment of its own in which Tentalis is not; its own tests run there. Then a stack that is told of these
environments evaluates a worker of each kind, whole and streamed, on items that a scripted model answers through the
gateway, some of them wrongly: each must come to what the loop without a framework comes to, item by item, and each call
must have exact tokens. What cannot be installed here is said loudly, and misses its bar.

`--part trained`: agents made of templates learn benchmarks of their own on the installation's own engine, by the
commands that a stranger types (`tests/bench/templates_trained.py`): each must gain, by an adapter that passes the gate
as it comes, and each call must have exact tokens.

Exit 1 when a bar is missed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import psycopg
from rich.console import Console
from rich.table import Table

from tentalis.agent_templates import FRAMEWORKS
from tentalis.client import Client
from tentalis.client.endpoints import calls
from tentalis.contract.scripted_model import Asked, Call, ScriptedModel
from tests.bench import templates_trained
from tests.bench.templates_made import CallCounts, InstallError, count_calls, install_package
from tests.chaos.stage import chaos_stack, read_admin_token

BASELINE: Final = "react"
PATIENCE_S: Final = 1_200.0
PROJECT: Final = "sums"
CALLS: Final[Mapping[str, Sequence[Call]]] = {
    "17 * 23 + 4": [Call("calculate", {"expression": "17 * 23 + 4"})],
    "12 * 12 - 44": [Call("calculate", {"expression": "12 * 12 - 44"})],
    "in thousands, times 2": [
        Call("look_up", {"subject": "people of Oslo in thousands"}),
        Call("calculate", {"expression": "717 * 2"}),
    ],
    "capital of Norway?": [Call("look_up", {"subject": "capital of Norway"})],
    "6 * 7": [Call("calculate", {"expression": "6 * 8"})],
    "capital of Chile?": [Call("look_up", {"subject": "capital of Chile"})],
}
ITEMS: Final = {
    "What is 17 * 23 + 4?": "395", "What is 12 * 12 - 44?": "100", "What is the capital of Norway?": "Oslo",
    "How many people live in the capital of Norway, in thousands, times 2?": "1434", "What is 6 * 7?": "42",
    "What is the capital of Chile?": "Santiago",
}  # fmt: skip
RIGHT: Final = 4
"""Of these; the script errs in the others."""


@dataclass
class Row:
    """What came of a template. `words`: why it could not be tried."""

    template: str
    words: str = ""
    install_s: float = 0.0
    tests: str = ""
    venv: str = ""
    outcomes: dict[str, list[float | None]] = field(default_factory=dict)
    calls: CallCounts = field(default_factory=CallCounts)

    @property
    def kind(self) -> str:
        return f"t_{self.template.replace('-', '_')}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("equal", "trained"), help="none: both")
    parser.add_argument("--only", nargs="*", default=[], choices=sorted(FRAMEWORKS), help="templates; none: all")
    parser.add_argument("--keep", action="store_true", help="take environments that an earlier run made")
    templates_trained.add_options(parser)
    options = parser.parse_args(argv)
    is_met = [run(options) for part, run in PARTS.items() if options.part in (None, part)]
    return 0 if all(is_met) else 1


def compare_templates(options: argparse.Namespace) -> bool:
    """Each beside the loop without a framework, on a scripted model; whether every bar is met."""
    names = [name for name in FRAMEWORKS if name == BASELINE or not options.only or name in options.only]
    rows = [Row(name) for name in names]
    for row in rows:
        install(row, keep=options.keep)
        print(f"{row.template}: {row.words or f'installed in {row.install_s:.0f} s, tests: {row.tests}'}", flush=True)
    evaluate([row for row in rows if not row.words])
    print_table(rows)
    bars = find_bars(rows)
    told = [asdict(row) | {"kind": row.kind} for row in rows]
    print(json.dumps({"bench": "templates", "rows": told, "ratios": {}, "bars": bars}))
    return all(bar["met"] for bar in bars.values())


def install(row: Row, *, keep: bool) -> None:
    """Make the package and an environment for it; its tests."""
    try:
        made = install_package(row.kind, row.template, keep=keep)
    except InstallError as error:
        row.words = f"COULD NOT BE INSTALLED: {error}"
        return
    row.install_s, row.venv = made.seconds, str(made.venv)
    tested = subprocess.run(
        [str(made.python), "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=made.package, capture_output=True, text=True, check=False,
    )  # fmt: skip
    row.tests = (tested.stdout.strip().splitlines() or ["no word of them"])[-1].strip("= ")
    if tested.returncode:
        row.words = f"ITS TESTS FAIL: {row.tests}"


def script(asked: Asked) -> str | Call:
    calls = next((calls for words, calls in CALLS.items() if words in str(asked.messages)), [])
    if (done := len(asked.results)) < len(calls):
        return calls[done]
    answer = f"It is {asked.results[-1]}." if asked.results else "I do not know."
    return Call("final_answer", {"answer": answer}) if "final_answer" in asked.tools else answer


def evaluate(rows: Sequence[Row]) -> None:
    """A worker of each kind, whole and streamed, on a stack that knows their environments."""
    settings = {
        "TENTALIS_AGENT_ENVIRONMENTS": ",".join(row.venv for row in rows),
        "TENTALIS_TASK_TIMEOUT_SECONDS": "280",
    }
    with ScriptedModel(script, tells_tokens=True) as model, chaos_stack(settings=settings) as stack:
        addresses = stack.state().addresses
        with Client(addresses["console_url"], token=read_admin_token(stack)) as client:
            client.create_project(slug=PROJECT, name="Sums")
            server: dict[str, Any] = {"project": PROJECT, "name": "scripted", "kind": "vllm", "allow_private": True}
            server |= {"base_url": f"{model.url}/v1", "default_model": "scripted"}
            client.send(calls.Call("POST", "providers", body=server))
            taskset = client.make_taskset(project=PROJECT, name="sums", environment="chat")
            lines = [
                json.dumps({"prompt": prompt, "reference": {"match": "contains", "value": value}})
                for prompt, value in ITEMS.items()
            ]
            client.add_items(taskset["id"], split="held_out", text="\n".join(lines), form="jsonl")
            for row in rows:
                for mode, stream in (("whole", 0), ("streamed", 1)):
                    name = f"{row.kind.replace('_', '-')}-{mode}"
                    client.create_worker(
                        project=PROJECT, name=name, kind=row.kind, provider="scripted", base_model="scripted",
                        sampling={"temperature": 1.0, "max_tokens": 400, "stream": stream},
                    )  # fmt: skip
                    asked = client.ask_evaluation(project=PROJECT, worker=name, taskset=taskset["id"])
                    wait_for(client, asked["id"])
                    with psycopg.connect(addresses["admin_database_url"], autocommit=True) as database:
                        row.outcomes[mode] = read_outcomes(database, asked["id"])
                        row.calls += count_calls(database, name)


def wait_for(client: Client, evaluation: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if client.get_evaluation(evaluation)["state"] in {"done", "failed", "cancelled"}:
            return
        time.sleep(0.5)


def read_outcomes(database: "psycopg.Connection[Any]", evaluation: int) -> list[float | None]:
    asked = "SELECT outcome FROM evals_itemtry WHERE evaluation_id = %s ORDER BY place, number"
    return [outcome for (outcome,) in database.execute(asked, [evaluation])]


def find_bars(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    wanted = next((row.outcomes.get("whole") for row in rows if row.template == BASELINE), None)
    bars: dict[str, dict[str, Any]] = {}
    for row in rows:
        same = [outcomes == wanted for outcomes in row.outcomes.values()]
        is_right = bool(wanted) and sum(map(bool, wanted or ())) == RIGHT
        met = not row.words and len(same) == 2 and all(same) and is_right and row.calls.are_exact
        found = row.words or f"{row.outcomes}, {row.calls.exact} of {row.calls.made} calls exact"
        bars[row.template] = {"found": found, "wanted": f"{wanted} whole and streamed, all calls exact", "met": met}
    return bars


def print_table(rows: Sequence[Row]) -> None:
    table = Table("template", "install s", "own tests", "right, whole", "right, streamed", "calls", "exact", "streamed")
    for row in rows:
        right = [f"{sum(map(bool, row.outcomes.get(mode, ())))} of {len(ITEMS)}" for mode in ("whole", "streamed")]
        told = [*right, *map(str, row.calls)]
        table.add_row(row.template, f"{row.install_s:.0f}", row.words or row.tests, *([] if row.words else told))
    Console(width=150).print(table)


PARTS: Final = {"equal": compare_templates, "trained": templates_trained.measure}

if __name__ == "__main__":
    sys.exit(main())
