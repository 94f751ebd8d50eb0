"""`python engine_peer.py vllm|llama MODEL --precision X`: another engine as a side of `engine_models`, by its Python.

It speaks as `engine_worker` does: a line of JSON comes in, one goes out. Nothing of ours is imported. Both keep what
they read of a prompt, as ours does: vLLM by its prefix cache, llama.cpp a sequence at a time, as its server does.
"""

import argparse
import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

MOST_TOKENS, MOST_ROWS = 2_048, 32
SLOT_TOKENS, GROUP_TOKENS = 512, 16_384


class Vllm:
    """vLLM's CPU build in this process, drawing at temperature 1 without telling log-probs."""

    def __init__(self, model: str, precision: str) -> None:
        from vllm import LLM

        self._engine = LLM(
            model=model,
            dtype=precision,
            enforce_eager=True,
            enable_prefix_caching=True,
            skip_tokenizer_init=True,
            max_model_len=MOST_TOKENS,
            max_num_seqs=MOST_ROWS,
            disable_log_stats=False,
            seed=0,
        )

    def draw(self, prompts: list[list[int]], n: int, tokens: int, seed: int) -> dict[str, Any]:
        from vllm import SamplingParams

        options = SamplingParams(n=n, max_tokens=tokens, temperature=1.0, ignore_eos=True, detokenize=False)
        answers = self._engine.generate(_ask(prompts), options, use_tqdm=False)
        read_s = [one.metrics.first_token_latency for one in answers if one.metrics]
        return {
            "read_s": max(read_s, default=0.0),
            "token_ids": [list(choice.token_ids) for one in answers for choice in one.outputs],
        }

    def score(self, prompts: list[list[int]], answers: list[list[int]]) -> dict[str, Any]:
        from vllm import SamplingParams

        options = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        whole = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
        told = self._engine.generate(_ask(whole), options, use_tqdm=False)
        return {
            "logprobs": [
                [one.prompt_logprobs[place][ids[place]].logprob for place in range(len(prompt), len(ids))]
                for one, prompt, ids in zip(told, prompts, whole, strict=True)
            ]
        }


def _ask(prompts: list[list[int]]) -> list[Any]:
    return [{"prompt_token_ids": prompt} for prompt in prompts]


class Llama:
    """llama.cpp by its Python wheel's own bindings: all sequences in one context, one step of all of them a call."""

    def __init__(self, model: str, precision: str) -> None:
        import llama_cpp

        self._cpp = cpp = llama_cpp
        cpp.llama_backend_init()
        quiet = cpp.llama_log_callback(lambda *_: None)
        cpp.llama_log_set(quiet, None)
        self._quiet = quiet
        self._model = cpp.llama_model_load_from_file(model.encode(), cpp.llama_model_default_params())
        if not self._model:
            raise SystemExit(f"llama.cpp cannot load {model}")
        options = cpp.llama_context_default_params()
        options.n_ctx, options.n_seq_max = GROUP_TOKENS, MOST_ROWS
        options.n_batch, options.n_ubatch = MOST_TOKENS, SLOT_TOKENS
        options.n_threads = options.n_threads_batch = 1
        options.kv_unified, options.swa_full = True, True
        self._context = cpp.llama_init_from_model(self._model, options)
        self._memory = cpp.llama_get_memory(self._context)
        self._size = cpp.llama_vocab_n_tokens(cpp.llama_model_get_vocab(self._model))
        self._batch = cpp.llama_batch_init(MOST_TOKENS, 0, 1)
        self._held: list[list[int]] = [[] for _ in range(MOST_ROWS)]

    def draw(self, prompts: list[list[int]], n: int, tokens: int, seed: int) -> dict[str, Any]:
        cpp, began_s = self._cpp, time.perf_counter()
        sampler = cpp.llama_sampler_init_dist(seed)
        rows = len(prompts) * n
        read = [prompt for prompt in prompts for _ in range(n)]
        entries, last = [], {}
        for first in range(0, rows, n):
            known = self._keep(first, read[first])
            entries += [(token, place, first) for place, token in enumerate(read[first]) if place >= known]
            last[first] = len(entries) - 1
        self._decode(entries, set(last.values()))
        for first in range(0, rows, n):
            for row in range(first + 1, first + n):
                cpp.llama_memory_seq_rm(self._memory, row, -1, -1)
                cpp.llama_memory_seq_cp(self._memory, first, row, -1, -1)
        places = [last[row - row % n] for row in range(rows)]
        answers: list[list[int]] = [[] for _ in range(rows)]
        read_s = 0.0
        for step in range(tokens):
            for row, place in enumerate(places):
                answers[row].append(int(cpp.llama_sampler_sample(sampler, self._context, place)))
            read_s = read_s or time.perf_counter() - began_s
            if step + 1 < tokens:
                self._decode([(answers[row][-1], len(read[row]) + step, row) for row in range(rows)], set(range(rows)))
                places = list(range(rows))
        cpp.llama_sampler_free(sampler)
        for row in range(rows):
            self._held[row] = read[row] + answers[row][:-1]
        return {"read_s": read_s, "token_ids": answers}

    def score(self, prompts: list[list[int]], answers: list[list[int]]) -> dict[str, Any]:
        told = []
        for prompt, answer in zip(prompts, answers, strict=True):
            ids = prompt + answer
            self._keep(0, [])
            wanted = range(len(prompt) - 1, len(ids) - 1)
            self._decode([(token, place, 0) for place, token in enumerate(ids)], set(wanted))
            logprobs = []
            for place in wanted:
                found = self._cpp.llama_get_logits_ith(self._context, place)
                logits = np.ctypeslib.as_array(ctypes.cast(found, ctypes.POINTER(ctypes.c_float)), (self._size,))
                best = float(logits.max())
                total = best + float(np.log(np.exp(logits.astype(np.float64) - best).sum()))
                logprobs.append(float(logits[ids[place + 1]]) - total)
            self._held[0] = ids
            told.append(logprobs)
        return {"logprobs": told}

    def _keep(self, row: int, prompt: list[int]) -> int:
        """How much of a prompt its sequence has read already; the rest of what it held goes."""
        known, held = 0, self._held[row]
        while known < min(len(held), len(prompt) - 1) and held[known] == prompt[known]:
            known += 1
        self._cpp.llama_memory_seq_rm(self._memory, row, known, -1)
        return known

    def _decode(self, entries: list[tuple[int, int, int]], wanted: set[int]) -> None:
        """Read tokens (token, position, sequence), the logits of some of them wanted."""
        batch = self._batch
        batch.n_tokens = len(entries)
        for index, (token, place, row) in enumerate(entries):
            batch.token[index], batch.pos[index] = token, place
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, row
            batch.logits[index] = index in wanted
        if code := self._cpp.llama_decode(self._context, batch):
            raise SystemExit(f"llama.cpp refused a batch of {len(entries)} tokens: {code}")


SIDES = {"vllm": Vllm, "llama": Llama}


def count_cpu_s(process: str = "self") -> float:
    """CPU seconds of this process and of all that it started and that still run."""
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    spent = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    children = [one for file in Path(f"/proc/{process}/task").glob("*/children") for one in file.read_text().split()]
    return spent + sum(map(count_cpu_s, children))


def read_peak_mib() -> int:
    """The most that this process ever held; what getrusage says may be its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=sorted(SIDES))
    parser.add_argument("model")
    parser.add_argument("--precision", default="float32")
    options = parser.parse_args()
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print is no answer
    side = SIDES[options.side](options.model, options.precision)
    print(json.dumps({"is_ready": True}), file=lines, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        what = asked.pop("do")
        if what == "memory":
            print(json.dumps({"peak_mib": read_peak_mib()}), file=lines, flush=True)
            continue
        wall_s, cpu_s = time.perf_counter(), count_cpu_s()
        found = getattr(side, what)(**asked)
        told = {**found, "wall_s": time.perf_counter() - wall_s, "cpu_s": count_cpu_s() - cpu_s}
        print(json.dumps(told), file=lines, flush=True)


if __name__ == "__main__":
    main()
