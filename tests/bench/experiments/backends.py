"""7: one benchmark, the same items, asked of several model servers through the platform.

Ours always; those that `--backend` names beside it. Where it names none, stand-ins answer in vLLM's and in Ollama's
dialect with what our engine was recorded to say: they show that a dialect loses nothing of quality. How fast a
stand-in is says nothing, and is not shown.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.bench.courses import measure
from tests.bench.experiments.ground import Bar, Findings, Ground, ModelServer, add_provider, find_percentile, make_table
from tests.fakes import FakeModelServer

TITLE: Final = "Backends beside each other"
ITEMS, ITEMS_SMALL = 60, 12
LONGEST: Final = 44
OURS: Final = "our engine"
STOOD_IN: Final = {"vllm": False, "ollama": True}
"""Kind of provider -> whether its server knows nothing but OpenAI's API."""


@dataclass(frozen=True)
class BackendRow:
    """What came of one; None where it does not tell, or is a stand-in.

    Args:
        quality: mean outcome. tokens: written.
    """

    backend: str
    items: int
    unscored: int
    quality: float | None
    low: float | None
    high: float | None
    p50_s: float | None
    p99_s: float | None
    tokens: int | None
    tokens_per_s: float | None


def run(ground: Ground) -> Findings:
    slug = f"backends-{time.time_ns() // 10**6}"
    ground.team.create_project(slug=slug, name="Backends", review_policy={"who": "none"})
    benchmark = int(ground.team.install_benchmark(project=slug, name=ground.benchmark)["id"])
    items = ground.choose(ITEMS, ITEMS_SMALL)
    ours, said = ask(ground, slug, benchmark, OURS, ground.engine, items)
    rows = [ours]
    for server in ground.backends:
        row, _ = ask(ground, slug, benchmark, f"{server.kind}: {server.model}", server, items)
        rows.append(row)
    same: list[bool] = []
    replies: dict[str, str] = {find_question(one["messages"]): one["text"] for one in said}

    def repeat(asked: str, _index: int) -> str:
        return replies[find_question(json.loads(asked))]

    for kind, is_plain in STOOD_IN.items() if not ground.backends else ():
        with FakeModelServer(reply=repeat, models=["desk"], is_plain=is_plain) as fake:
            server = ModelServer(kind, f"{fake.url}/v1", "desk")
            row, told = ask(ground, slug, benchmark, f"{kind}, our answers recorded", server, items, is_timed=False)
        rows.append(row)
        same.append([one["outcome"] for one in told] == [one["outcome"] for one in said])
    table = make_table(
        "backend", "items", "unscored", "mean outcome (95%)", "p50 s", "p99 s", "tokens", "tokens/s",
        title=f"7. {TITLE}: {ground.benchmark}, one sampled answer an item",
    )  # fmt: skip
    for row in rows:
        table.add_row(row.backend, str(row.items), str(row.unscored), _say_quality(row), *_say_speed(row))
    bars = {
        "everything our engine said is scored": Bar(ours.unscored, "0 unscored", ours.unscored == 0),
        "every backend is asked and scored": Bar(
            [row.backend for row in rows if row.quality is None],
            "none that is not",
            all(row.quality is not None for row in rows),
        ),
    }
    if same:
        some_right = 0 < sum(one["outcome"] == 1 for one in said) < len(said)
        bars["some are right and some wrong"] = Bar(ours.quality, "between 0 and 1", some_right)
        bars["a dialect changes no outcome"] = Bar(
            sum(same), f"{len(same)} of {len(same)} the same item by item", all(same)
        )
    words = [] if ground.backends else ["no --backend was named: what is recorded shows dialects, not servers"]
    return Findings(table, {"benchmark": ground.benchmark, "rows": [asdict(row) for row in rows]}, bars, words)


def find_question(messages: Sequence[Mapping[str, Any]]) -> str:
    """What a person said last."""
    return str(next(one["content"] for one in reversed(messages) if one["role"] == "user"))


def ask(
    ground: Ground,
    slug: str,
    benchmark: int,
    name: str,
    server: ModelServer,
    items: int,
    *,
    is_timed: bool = True,
) -> tuple[BackendRow, Sequence[Mapping[str, Any]]]:
    """Evaluate a worker on it.

    Args:
        is_timed: how fast it is says something.
    Returns:
        (row, what became of each item, in their order: messages, text and outcome).
    """
    team, worker = ground.team, f"asker-{time.time_ns() // 10**6}"
    add_provider(team, slug, worker, server)
    sampling = {"max_tokens": LONGEST}
    team.create_worker(
        project=slug, name=worker, kind="chat", provider=worker, base_model=server.model, sampling=sampling
    )
    done = measure(team, slug, {"benchmark": benchmark, "worker": worker, "limit": items, "tries": 1})
    tries = sorted(team.iterate(team.list_tries, evaluation_id=done["id"]), key=lambda one: one["place"])
    told = [{**team.get_try(done["id"], one["id"])["record"], "outcome": one["outcome"]} for one in tries]
    took = [one["seconds"] for one in tries if one["seconds"] is not None] if is_timed else []
    tokens = sum(one["completion_tokens"] or 0 for one in tries) if is_timed else 0
    row = BackendRow(
        backend=name, items=len(tries), unscored=done["unscored"], quality=done["mean_outcome"], low=done["low"],
        high=done["high"], p50_s=find_percentile(took, 0.5) if took else None,
        p99_s=find_percentile(took, 0.99) if took else None, tokens=tokens or None,
        tokens_per_s=tokens / sum(took) if tokens and took else None,
    )  # fmt: skip
    return row, told


def _say_quality(row: BackendRow) -> str:
    if row.quality is None:
        return "not known"
    return f"{row.quality:.1%}" + (
        f" [{row.low:.1%}, {row.high:.1%}]" if row.low is not None and row.high is not None else ""
    )


def _say_speed(row: BackendRow) -> tuple[str, str, str, str]:
    """Latencies, tokens and tokens a second of an answer."""
    told = ("-" if one is None else f"{one:.2f}" for one in (row.p50_s, row.p99_s))
    per_s = "-" if row.tokens_per_s is None else f"{row.tokens_per_s:.0f}"
    first, second = told
    return first, second, "-" if row.tokens is None else f"{row.tokens:,}", per_s
