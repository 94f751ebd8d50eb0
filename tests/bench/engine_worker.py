"""`engine_worker.py ours|hf DIRECTORY`: one side of `engine_models`, which asks it line by line.

A line of JSON comes in, one goes out. `draw` says how long it took, in wall and CPU seconds, and how long until the
prompts were read; `score` says log-probs; `memory` the most that the process ever held.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpu_workers.engine import Engine, SamplingOptions
from gpu_workers.engine.jobs import Job
from gpu_workers.engine.lora import LoraPair
from gpu_workers.engine.models import LoadedModel
from gpu_workers.process import prepare_process
from tests.bench.engine_peer import read_peak_mib
from tests.bench.hugging_face import draw_answers, pad_left

RANK = 16


class Ours:
    """The engine, without its server."""

    def __init__(self, directory: Path, precision: str) -> None:
        self._engine = Engine(directory.name, directory, precision=precision)
        self._read_s = 0.0
        prefill = self._engine.scheduler._prefill

        def timed(*asked: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return prefill(*asked)
            finally:
                self._read_s += time.perf_counter() - began_s

        self._engine.scheduler._prefill = timed  # type: ignore[method-assign, assignment]

    def draw(self, prompts: list[list[int]], n: int, tokens: int, seed: int) -> dict[str, Any]:
        self._read_s = 0.0
        groups = self._engine.generate(prompts, n, max_tokens=tokens, seed=seed, ignores_eos=True)
        samples = [sample for group in groups for sample in group]
        return {
            "read_s": self._read_s,
            "token_ids": [list(map(int, sample.token_ids)) for sample in samples],
            "logprobs": [sample.logprobs.tolist() for sample in samples],
        }

    def draw_apart(self, prompts: list[list[int]], tokens: int, seed: int) -> dict[str, Any]:
        """An answer to each prompt, by a random adapter of its own, all at the same time."""
        models, base = self._engine.models, self._engine.base.model
        for number in range(len(models.now()) - 1, len(prompts)):
            random = torch.Generator().manual_seed(number)
            pairs = {
                name: LoraPair(
                    torch.randn(RANK, inner, generator=random) / inner**0.5, torch.zeros(outer, RANK), scale=1.0
                )
                for name, (outer, inner) in base.adaptable.items()
            }
            models.add(f"a{number}", lambda pairs=pairs: LoadedModel("a", base.adapt(pairs), "", ""))  # type: ignore[misc]
        options = SamplingOptions(max_tokens=tokens, seed=seed, ignores_eos=True)
        for number, prompt in enumerate(prompts):
            self._engine.submit(Job(models.find(f"a{number}"), [prompt], options))
        while self._engine.scheduler.has_work:
            self._engine.scheduler.step()
        return {}

    def score(self, prompts: list[list[int]], answers: list[list[int]]) -> dict[str, Any]:
        return {"logprobs": [found.tolist() for found in self._engine.score(prompts, answers)]}


class HuggingFace:
    """`generate` with its defaults, drawing at temperature 1."""

    def __init__(self, directory: Path, precision: str) -> None:
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, precision))
        model.eval()
        model.generation_config.eos_token_id = None
        self._model = model

    def draw(self, prompts: list[list[int]], n: int, tokens: int, seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        ids, attends = pad_left(prompts)
        began_s, read_s = time.perf_counter(), []

        def note(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            read_s.append(time.perf_counter() - began_s)
            return scores

        found = draw_answers(self._model, ids, attends, n, tokens, least=tokens, logits_processor=[note])
        return {"read_s": read_s[0], "token_ids": found.tolist()}

    def score(self, prompts: list[list[int]], answers: list[list[int]]) -> dict[str, Any]:
        logprobs = []
        for prompt, answer in zip(prompts, answers, strict=True):
            with torch.inference_mode():
                logits = self._model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
            spread = logits.double().log_softmax(-1)
            logprobs.append(spread.gather(-1, torch.tensor(answer)[:, None])[:, 0].tolist())
        return {"logprobs": logprobs}


SIDES: dict[str, Callable[[Path, str], Ours | HuggingFace]] = {"ours": Ours, "hf": HuggingFace}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=sorted(SIDES))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--precision", default="float32")
    options = parser.parse_args()
    prepare_process(has_one_heap=True)
    side = SIDES[options.side](options.directory, options.precision)
    answer({"is_ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        what = asked.pop("do")
        if what == "memory":
            answer({"peak_mib": read_peak_mib()})
            continue
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        found = getattr(side, what)(**asked)
        answer({**found, "wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s})


def answer(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
