"""`python -m tests.bench.engine`: hot swaps under load, and generation beside Hugging Face's `generate`.

The engine runs as a process of its own for the swaps and in this process for the throughput, one thread each. Prints
two tables and, as its last line, one JSON object.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from gpu_workers.desk import base_directory
from gpu_workers.engine import Engine
from tentalis.core.desk import make_tickets
from tentalis.platform.home import Home
from tests.bench.engine_models import SEQUENCES
from tests.bench.engine_models import run as run_model
from tests.bench.hugging_face import draw_answers, pad_left
from tests.local_server import find_free_port

PROMPTS, SAMPLES, MOST_TOKENS = 24, 8, 44
TOLERANCE = 1e-4
BAR = 1.4
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class Answer:
    """What one stream brought, under which name it was asked for, and how long it took."""

    asked: str
    served: str
    header: str
    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    took_s: float


def write_adapter(directory: Path, seed: int) -> Path:
    """A random rank-8 adapter of the desk in PEFT's format, far enough from the base to tell versions apart."""
    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(base_directory(), dtype=torch.float32)
    adapted = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=TARGETS, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.02)
    adapted.save_pretrained(str(directory))
    return directory


class SwapTrial:
    """Streams that never pause, while the served adapter changes under them."""

    def __init__(self, session: aiohttp.ClientSession, url: str, prompts: list[list[int]]) -> None:
        self._session = session
        self._url = url
        self._prompts = prompts
        self._current = "desk"
        self._unheard: Counter[str] = Counter()  # requests sent whose answer has not begun, by name
        self._open: Counter[str] = Counter()  # requests not finished, by name
        self._is_over = False
        self.answers: list[Answer] = []
        self.failures: list[str] = []
        self.unloaded_in_use = 0

    async def run(self, adapters: dict[str, Path], streams: int) -> None:
        readers = [asyncio.create_task(self._keep_streaming(index)) for index in range(streams)]
        for name, path in adapters.items():
            await self._wait_for(lambda: self._open[self._current] >= streams // 2)
            await self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)})
            old, self._current = self._current, name
            if old != "desk":
                await self._wait_for(lambda: self._unheard[old] == 0)  # noqa: B023  awaited within the turn
                self.unloaded_in_use += self._open[old]
                await self._post("/v1/unload_lora_adapter", {"lora_name": old})
        await self._wait_for(lambda: self._open[self._current] >= streams // 2)
        self._is_over = True
        await asyncio.gather(*readers)

    async def _wait_for(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.001)

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        async with self._session.post(self._url + path, json=body) as response:
            if response.status != 200:
                raise RuntimeError(f"{path}: {response.status} {await response.text()}")

    async def _keep_streaming(self, index: int) -> None:
        turn = 0
        while not self._is_over:
            name = self._current
            self._unheard[name] += 1
            self._open[name] += 1
            try:
                await self._stream(name, self._prompts[(index + turn) % len(self._prompts)], 1_000 * index + turn)
            except (aiohttp.ClientError, ValueError, KeyError) as error:
                self.failures.append(f"{name}: {type(error).__name__} {error}")
            finally:
                self._open[name] -= 1
            turn += 1

    async def _stream(self, name: str, prompt: list[int], seed: int) -> None:
        body = {"model": name, "prompt": prompt, "max_tokens": 120, "ignore_eos": True, "seed": seed, "stream": True}
        body |= {"logprobs": 0, "return_token_ids": True}
        is_unheard, began = True, time.perf_counter()
        try:
            async with self._session.post(f"{self._url}/v1/completions", json=body) as response:
                self._unheard[name] -= 1
                is_unheard = False
                if response.status != 200:
                    raise ValueError(f"{response.status} {await response.text()}")
                lines = (await response.text()).split("\n\n")
                header = response.headers["X-Tentalis-Adapter"]
        finally:
            self._unheard[name] -= is_unheard
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line and line != "data: [DONE]"]
        choices = [chunk["choices"][0] for chunk in chunks]
        (served,) = {chunk["model"] for chunk in chunks}
        tokens = [token for choice in choices for token in choice["token_ids"]]
        logprobs = [value for choice in choices if choice["logprobs"] for value in choice["logprobs"]["token_logprobs"]]
        if choices[-1]["finish_reason"] != "length" or len(tokens) != 120 or len(logprobs) != 120:
            raise ValueError(f"a stream broke off after {len(tokens)} tokens")
        took_s = time.perf_counter() - began
        self.answers.append(Answer(name, served, header, prompt, tokens, logprobs, took_s))


def recompute(answers: list[Answer], adapters: dict[str, Path], shift: int) -> list[float]:
    """Each answer's largest log-prob difference under the adapter it names, or the `shift`-th after it, by PEFT."""
    names = ["desk", *adapters]
    differences = []
    for index, name in enumerate(names):
        mine = [answer for answer in answers if answer.served == name]
        if not mine:
            continue
        judge = names[(index + shift) % len(names)]
        model: Any = AutoModelForCausalLM.from_pretrained(base_directory(), dtype=torch.float32)
        if judge != "desk":
            model = PeftModel.from_pretrained(model, adapters[judge])
        model.eval()
        for answer in mine:
            ids = torch.tensor([answer.prompt_ids + answer.token_ids])
            with torch.no_grad():
                spread = model(input_ids=ids).logits[0, len(answer.prompt_ids) - 1 : -1].log_softmax(-1)
            own = spread.gather(-1, torch.tensor(answer.token_ids)[:, None])[:, 0]
            differences.append(float((own - torch.tensor(answer.logprobs)).abs().max()))
    return differences


async def bench_swaps(swaps: int, streams: int, prompts: list[list[int]]) -> dict[str, Any]:
    """Swap adapters under streams against a real engine process."""
    with tempfile.TemporaryDirectory() as folder:
        adapters = {f"bench@v{turn}": write_adapter(Path(folder) / str(turn), turn) for turn in range(1, swaps + 1)}
        port = find_free_port()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gpu_workers.engine", "--port", str(port), stderr=asyncio.subprocess.DEVNULL
        )
        url = f"http://127.0.0.1:{port}"
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                await wait_until_healthy(session, url)
                trial = SwapTrial(session, url, prompts)
                started_s = time.perf_counter()
                await trial.run(adapters, streams)
                took_s = time.perf_counter() - started_s
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        own = recompute(trial.answers, adapters, 0)
        neighbour = recompute(trial.answers, adapters, 1)
    took = sorted(answer.took_s for answer in trial.answers)
    misnamed = sum(not answer.asked == answer.served == answer.header for answer in trial.answers)
    return {
        "row": "hot swaps",
        "swaps": swaps,
        "streams": streams,
        "answers": len(trial.answers),
        "failed": len(trial.failures),
        "failures": trial.failures[:3],
        "unloaded_while_streaming": trial.unloaded_in_use,
        "misnamed": misnamed,
        "versions_seen": len({answer.served for answer in trial.answers}),
        "max_logprob_difference": max(own),
        "control_min_difference_under_next_version": min(neighbour),
        "p50_ms": round(1000 * took[len(took) // 2], 1),
        "p99_ms": round(1000 * took[int(0.99 * len(took))], 1),
        "wall_s": round(took_s, 2),
    }


async def wait_until_healthy(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                async with session.get(f"{url}/health") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


def bench_throughput(rounds: int, prompts: list[list[int]]) -> list[dict[str, Any]]:
    """Engine and Hugging Face generate by turns, the same model, prompts and sizes, sampling at temperature 1."""
    engine = Engine.open("desk")
    reference: Any = AutoModelForCausalLM.from_pretrained(base_directory(), dtype=torch.float32)
    reference.eval()
    ids, attends = pad_left(prompts)

    def run_engine(seed: int, *, ignores_eos: bool) -> int:
        groups = engine.generate(prompts, SAMPLES, max_tokens=MOST_TOKENS, seed=seed, ignores_eos=ignores_eos)
        return sum(len(sample.token_ids) for group in groups for sample in group)

    def run_reference(seed: int, *, ignores_eos: bool) -> int:
        torch.manual_seed(seed)
        least = MOST_TOKENS if ignores_eos else None
        drawn = draw_answers(reference, ids, attends, SAMPLES, MOST_TOKENS, least=least)
        ended = (drawn == 1).cumsum(-1) - (drawn == 1).long()
        return int((ended == 0).sum()) if not ignores_eos else drawn.numel()

    rows = []
    for name, ignores_eos in (("until the end token", False), ("44 tokens each", True)):
        measured: dict[str, list[tuple[float, float, int]]] = {"engine": [], "hugging face": []}
        for turn in range(rounds + 1):
            for who, run in (("engine", run_engine), ("hugging face", run_reference)):
                wall, cpu = time.perf_counter(), time.process_time()
                tokens = run(turn, ignores_eos=ignores_eos)
                if turn:  # the first turn warms up
                    measured[who].append((time.perf_counter() - wall, time.process_time() - cpu, tokens))
        for who, turns in measured.items():
            cpu_s = statistics.median(cpu for _, cpu, _ in turns)
            rows.append(
                {
                    "row": f"generate, {name}",
                    "who": who,
                    "wall_s": round(statistics.median(wall for wall, _, _ in turns), 4),
                    "cpu_s": round(cpu_s, 4),
                    "tokens": int(statistics.median(tokens for _, _, tokens in turns)),
                    "tokens_per_cpu_s": round(statistics.median(tokens / cpu for _, cpu, tokens in turns)),
                }
            )
    return rows


def encode_prompts() -> list[list[int]]:
    """(PROMPTS, P) tickets of the desk as its model reads them."""
    codec = Engine.open("desk").codec
    tickets = make_tickets(3, PROMPTS, held_out=False)
    texts = [codec.render_chat([{"role": "user", "content": ticket.text}]) for ticket in tickets]
    return codec.encode(texts, add_special_tokens=False)


def print_table(rows: list[dict[str, Any]]) -> None:
    heads = list(rows[0])
    cells = [heads, *([str(row[head]) for head in heads] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()


def main() -> int:
    """Run both; exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.engine")
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--model", help="a kept model's name or a directory: `engine_models` instead of the above")
    parser.add_argument("--tokens", type=int, default=32, help="with --model: new ones a sequence")
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"], help="with --model: of the engine")
    parser.add_argument("--sequences", nargs="+", type=int, default=list(SEQUENCES), help="with --model")
    parser.add_argument("--peers", action="store_true", help="with --model: vLLM's CPU build and llama.cpp too")
    options = parser.parse_args()
    if options.model:
        home = Home.find(os.environ).root
        return run_model(
            options.model,
            home,
            tokens=options.tokens,
            rounds=options.rounds,
            precisions=options.precisions,
            sequences=options.sequences,
            with_peers=options.peers,
        )
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    prompts = encode_prompts()
    throughput = bench_throughput(options.rounds, prompts)
    print_table(throughput)
    swaps = asyncio.run(bench_swaps(options.swaps, options.streams, prompts))
    print_table([{"what": name, "found": value} for name, value in swaps.items()])
    ratios = {}
    for mine, theirs in zip(throughput[::2], throughput[1::2], strict=True):
        ratios[mine["row"]] = round(mine["tokens_per_cpu_s"] / theirs["tokens_per_cpu_s"], 2)
    holds = (
        min(ratios.values()) >= BAR
        and swaps["failed"] == swaps["misnamed"] == 0
        and swaps["max_logprob_difference"] <= TOLERANCE
        and swaps["versions_seen"] == options.swaps + 1
    )
    print(json.dumps({"bench": "engine", "rows": [*throughput, swaps], "ratios": ratios, "holds": holds}))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
