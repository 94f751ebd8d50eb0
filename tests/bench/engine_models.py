"""`python -m tests.bench.engine --model NAME`: a pretrained model, the engine beside Hugging Face.

NAME is a kept model (`tentalis model get`) or a directory. Each side is a process of its own on the same threads
(`TENTALIS_TORCH_THREADS`), and they take turns: 1, 8 and 32 sequences, eight answers to one prompt, a conversation of
twelve turns, and of the engine alone eight answers by an adapter each. Tokens are counted for each CPU second, which a
busy machine does not change, and for each wall second. Then how far the log-probs that the engine told, and those that
a peer says of tokens it drew, lie from those of Hugging Face's forward in float32.

With `--peers` vLLM's CPU build (float32, bfloat16) and llama.cpp (bfloat16, int8) are sides too, each by a Python of
its own that is made once (`engine_peers`: some minutes, and ten minutes of CPU for llama.cpp). What was read of a
prompt once they keep as ours does; Hugging Face reads it each time.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpu_workers.engine.text import TextCodec
from tentalis.kept_models import find_model
from tentalis.platform.stack import LARGE_PAGES
from tests.bench.engine_peers import Peer, find_peers

Row = dict[str, Any]
SEQUENCES, GROUP, TURNS = (1, 8, 32), 8, 12
ADAPTERS = 8
TOGETHER, APART = f"{ADAPTERS} sequences of the base", f"{ADAPTERS} sequences, an adapter each"
SPEED_BAR, APART_BAR, TURN_BAR, LOGPROB_BAR, HALF_LOGPROB_BAR = 3.0, 1.5, 1.5, 1e-4, 1e-3
NOT_ASKED = "llama.cpp and vLLM's CPU build, which --peers measures"
TEXT = (
    "The lamp arrived on Tuesday, but its shade was torn along the seam and one of the screws was missing.",
    "Dear customer service, my order of three mugs was delivered to the wrong address last week.",
    "Water boils at a lower temperature on a mountain, because the air there presses on it less.",
    "In the spring the river rises and the meadows behind the mill stand under water for some days.",
    "She counted the coins twice, put them back in the jar, and wrote the sum into the small blue book.",
    "A refund is paid within fourteen days of the day on which the parcel reached our warehouse.",
    "The committee met in the afternoon and agreed that the bridge should be painted before the winter.",
    "When two gears of different size turn together, the smaller one turns more often than the larger.",
)


class Side:
    """A process that draws and scores."""

    def __init__(self, peer: Peer) -> None:
        self.who, self.precision, self.name = peer.who, peer.precision, peer.name
        self._process = subprocess.Popen(
            peer.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=peer.environment
        )

    def __enter__(self) -> Self:
        self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def ask(self, what: str, **asked: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **asked}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def try_out(self, codec: TextCodec) -> str:
        """Why it draws nothing here; "" where it does. What is ours has to."""
        try:
            self.ask("draw", prompts=make_prompts(codec, 1), n=1, tokens=2, seed=0)
        except RuntimeError as error:
            if self.who in {"ours", "hf"}:
                raise
            return str(error)
        return ""

    def _read(self) -> Any:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"{self.name} ended: {self._process.wait()}")
        return json.loads(line)


def make_side(who: str, directory: Path, precision: str) -> Peer:
    """The engine ("ours") or Hugging Face's generate ("hf"), both with the memory that a stack's engine has."""
    argv = [sys.executable, "-m", "tests.bench.engine_worker", who, str(directory), "--precision", precision]
    name = "engine" if who == "ours" else "Hugging Face"
    return Peer(who, precision, f"{name}, {precision}", argv, LARGE_PAGES | os.environ)


def find_directory(model: str, home: Path) -> Path:
    """A kept model's directory, or the directory itself."""
    return Path(model) if "/" in model else find_model(home, model).directory


def make_prompts(codec: TextCodec, count: int) -> list[list[int]]:
    """Beginnings of English texts, all different."""
    texts = [
        f"{place + 1}. {TEXT[place % len(TEXT)]} {TEXT[(place // 8 + place + 3) % len(TEXT)]}" for place in range(count)
    ]
    return codec.encode(texts)


def measure_row(
    name: str, sides: Sequence[Any], rounds: int, prompts: list[list[int]], tokens: int, what: str = "draw", n: int = 1
) -> Row:
    """Tokens a CPU second and a wall second of each side."""
    told = {"n": n} if what == "draw" else {}
    found: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for turn in range(-1, rounds):
        for side in sides:
            one = side.ask(what, prompts=prompts, tokens=2 if turn < 0 else tokens, seed=turn + 1, **told)
            if turn >= 0:  # the first warms up
                found[side.name].append(one)
    drawn = len(prompts) * n * tokens
    return {
        "row": name,
        **{
            who: {
                "per_cpu_s": round(statistics.median(drawn / one["cpu_s"] for one in turns), 2),
                "per_wall_s": round(statistics.median(drawn / one["wall_s"] for one in turns), 2),
            }
            for who, turns in found.items()
        },
    }


def converse(side: Any, codec: TextCodec, tokens: int) -> dict[str, float]:
    """Twelve turns, each behind all that was said before: its speed, how long it read at the second and the last."""
    said = codec.encode(["A conversation about orders that went wrong. " + " ".join(TEXT)])[0]
    turns = []
    for turn in range(TURNS):
        asked = f"\n\nQuestion {turn + 1}: {TEXT[0]}\nAnswer:"  # the same each time: turns are of one length
        said = said + codec.encode([asked], add_special_tokens=False)[0]
        found = side.ask("draw", prompts=[said], n=1, tokens=tokens, seed=turn)
        turns.append(found)
        said = said + found["token_ids"][0]
    drawn = TURNS * tokens
    return {
        "per_cpu_s": round(drawn / sum(turn["cpu_s"] for turn in turns), 2),
        "per_wall_s": round(drawn / sum(turn["wall_s"] for turn in turns), 2),
        "read_2_s": round(turns[1]["read_s"], 3),
        "read_12_s": round(turns[-1]["read_s"], 3),
        "last_against_second": round(turns[-1]["read_s"] / turns[1]["read_s"], 2),
    }


def compare(told: Sequence[Sequence[float]], judged: Sequence[Sequence[float]]) -> dict[str, float]:
    """The differences of log-probs, and the ratio that a trainer would weigh with."""
    differences = [
        mine - theirs for one, other in zip(told, judged, strict=True) for mine, theirs in zip(one, other, strict=True)
    ]
    ratios = [math.exp(-difference) for difference in differences]
    return {
        "tokens": len(differences),
        "mean_abs": statistics.fmean(map(abs, differences)),
        "max_abs": max(map(abs, differences)),
        "mean_ratio": statistics.fmean(ratios),
        "ratio_spread": statistics.pstdev(ratios),
    }


def judge_logprobs(sides: Sequence[Side], prompts: list[list[int]], tokens: int) -> dict[str, dict[str, float]]:
    """Of each side that draws and, for comparison, each Hugging Face one of another precision, against the float32 one.

    What the engine told when it drew; of a peer what it says of its tokens afterwards.
    """
    judge = next(side for side in sides if side.who == "hf" and side.precision == "float32")
    found = {}
    for side in sides:
        if side.who == "ours":
            drawn = side.ask("draw", prompts=prompts, n=1, tokens=tokens, seed=11)
            judged = judge.ask("score", prompts=prompts, answers=drawn["token_ids"])["logprobs"]
            found[side.name] = compare(drawn["logprobs"], judged)
            for other in sides:
                if other.who == "hf" and other is not judge and other.precision == side.precision:
                    theirs = other.ask("score", prompts=prompts, answers=drawn["token_ids"])["logprobs"]
                    found[other.name] = compare(theirs, judged)
                    found[f"{side.name}, against {other.name}"] = compare(drawn["logprobs"], theirs)
        elif side.who != "hf":
            answers = side.ask("draw", prompts=prompts, n=1, tokens=tokens, seed=11)["token_ids"]
            theirs = side.ask("score", prompts=prompts, answers=answers)["logprobs"]
            judged = judge.ask("score", prompts=prompts, answers=answers)["logprobs"]
            found[side.name] = compare(theirs, judged)
    return found


def run(
    model: str,
    home: Path,
    *,
    tokens: int,
    rounds: int,
    precisions: Sequence[str],
    sequences: Sequence[int],
    with_peers: bool = False,
) -> int:
    """Exit code 1 when a bar is missed."""
    directory = find_directory(model, home)
    codec = TextCodec.from_directory(directory)
    kinds = [("ours", precision) for precision in precisions]
    kinds += [("hf", precision) for precision in ("float32", "bfloat16") if precision in {"float32", *precisions}]
    with ExitStack() as stack:
        asked, absent = [make_side(who, directory, precision) for who, precision in kinds], [NOT_ASKED]
        if with_peers:
            peers, absent = find_peers(directory, Path(stack.enter_context(tempfile.TemporaryDirectory())))
            asked += peers
        opened = [stack.enter_context(Side(one)) for one in asked]
        reasons = {side: side.try_out(codec) for side in opened}
        sides, rows = [side for side, why in reasons.items() if not why], []
        absent += filter(None, reasons.values())
        for count in sequences:
            prompts = make_prompts(codec, count)
            rows.append(measure_row(f"{count} sequences", sides, rounds, prompts, tokens))
            print_row(rows[-1])
        prompts = [codec.encode([" ".join(TEXT)])[0]]
        rows.append(measure_row("group of 8", sides, rounds, prompts, tokens, n=GROUP))
        print_row(rows[-1])
        engines = [side for side in sides if side.who == "ours"]
        for name, what in ((TOGETHER, "draw"), (APART, "draw_apart")):
            rows.append(measure_row(name, engines, rounds, make_prompts(codec, ADAPTERS), tokens, what))
            print_row(rows[-1])
        rows.append({"row": "12 turns", **{side.name: converse(side, codec, tokens // 2) for side in sides}})
        print_row(rows[-1])
        rows.append({"row": "memory", **{side.name: side.ask("memory") for side in sides}})
        print_row(rows[-1])
        logprobs = judge_logprobs(sides, make_prompts(codec, 8), tokens)
    for who, found in logprobs.items():
        shown = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
        print(f"log-probs, {who}, against Hugging Face's forward in float32: {shown}")
    for one in absent:
        print(f"SKIPPED, and no bar: {one}")
    bars = judge_bars(rows, logprobs)
    for name, bar in bars.items():
        print(f"{'ok  ' if bar['holds'] else 'MISS'} {name}: {bar['found']:.3g}, wanted {bar['wanted']}")
    print(json.dumps({"bench": "engine", "model": model, "rows": rows, "logprobs": logprobs, "bars": bars}))
    return 0 if all(bar["holds"] for bar in bars.values()) else 1


def judge_bars(rows: Sequence[Row], logprobs: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    by_name = {row["row"]: row for row in rows}
    bars: dict[str, dict[str, Any]] = {}
    last = by_name.get(f"{SEQUENCES[-1]} sequences", rows[0])
    ours = {who: found for who, found in last.items() if who.startswith("engine")}
    peer = last["Hugging Face, float32"]["per_cpu_s"]
    for who, found in ours.items():
        speed = found["per_cpu_s"] / peer
        bars[f"{who}: x Hugging Face in float32 at 32 sequences, a CPU second"] = {
            "found": speed,
            "wanted": f">= {SPEED_BAR:g}",
            "holds": speed >= SPEED_BAR,
        }
        if vllm := last.get(f"vLLM, {who.rpartition(' ')[2]}"):
            beside = found["per_cpu_s"] / vllm["per_cpu_s"]
            bars[f"{who}: x vLLM's CPU build at 32 sequences, a CPU second"] = {
                "found": beside,
                "wanted": ">= 1",
                "holds": beside >= 1,
            }
        apart = by_name[TOGETHER][who]["per_cpu_s"] / by_name[APART][who]["per_cpu_s"]
        bars[f"{who}: x the base's CPU time where each of {ADAPTERS} has an adapter of its own"] = {
            "found": apart,
            "wanted": f"<= {APART_BAR:g}",
            "holds": apart <= APART_BAR,
        }
        turns = by_name["12 turns"][who]["last_against_second"]
        bars[f"{who}: turn 12 reads x turn 2"] = {
            "found": turns,
            "wanted": f"<= {TURN_BAR:g}",
            "holds": turns <= TURN_BAR,
        }
        most = LOGPROB_BAR if who.endswith("float32") else HALF_LOGPROB_BAR
        bars[f"{who}: largest difference of a log-prob"] = {
            "found": logprobs[who]["max_abs"],
            "wanted": f"<= {most:g}",
            "holds": logprobs[who]["max_abs"] <= most,
        }
    return bars


def print_row(row: Row) -> None:
    print(row["row"])
    for who, found in row.items():
        if who != "row":
            print(f"  {who:24} " + "  ".join(f"{name} {value}" for name, value in found.items()), flush=True)
