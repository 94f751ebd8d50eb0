"""`python -m tests.bench.hinted`: hinted answers of tool-calling agents through every backend, and odd conversations.

First the ordinary: conversations with tools, calls without content and contents in parts, rendered by the real chat
templates of three families, each with a hint, trained standalone, at a Tinker service on loopback, and by what
OpenRLHF's plug-in does of it where there is no Ray and no vLLM: the prompts it is sent, its own experience maker, the
teacher asked by address. Every hint must count, and the first update's ratio must be 1: the log-probs of the prompt
that a backend trains on are those that were served.

Then the odd: conversations drawn with messages, contents, calls, tools and template arguments of every wrong kind, in
batches with good ones, through the same three. No run may end, what can be read is learnt from on policy, and all three
must count the same hints. Exit 1 where one of these is missed.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import torch

from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.micro_batches import score_answers
from gpu_workers.backends.openrlhf.plugin.told import Told
from gpu_workers.backends.openrlhf.prompts import write_prompts
from gpu_workers.backends.replaying import Replayer, ReplayError
from gpu_workers.process import prepare_process
from gpu_workers.runner import run
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import RolloutRecord
from tentalis.core.hints import HintError, hinted_messages
from tentalis.core.learning.openrlhf_options import ClusterOptions
from tentalis.core.learning.recipes import Recipe
from tests.engine_process import run_engine
from tests.gpu_workers.learning.training_factory import make_spec
from tests.gpu_workers.odd_conversations import make_odd_conversation
from tests.gpu_workers.openrlhf.real_classes import import_openrlhf, make_maker
from tests.gpu_workers.templated import (
    CONVERSATIONS,
    FAMILIES,
    HINT,
    TOOLS,
    make_templated_model,
    make_templated_rollouts,
    serve_prompt,
)
from tests.gpu_workers.tinker_server import KEY, MODEL, TinkerServer, serve

RECIPE = Recipe(lora_rank=4, lora_alpha=32.0, minibatches=1, learning_rate=1e-3)
OPTIONS = ClusterOptions(max_tokens=8192, max_new_tokens=64)
LARGEST_DRIFT = 1e-3
TOOL_FAMILIES = ("qwen2.5", "qwen3", "llama3")
KINDS = ("call without content", "call with null")
GOOD = 4


@dataclass
class Found:
    """What one backend made of a batch.

    Args:
        ended: why the run ended, "" where it did not; hinted: hints that counted.
        drift: how far the largest ratio of an answer's tokens lies from 1.
        refused: reason -> how many.
    """

    ended: str
    hinted: int = 0
    drift: float = 0.0
    refused: Mapping[str, float] = field(default_factory=dict)


Backend = Callable[[Path, Path, Sequence[RolloutRecord]], Found]
"""(directory to work in, model, rollouts) -> what came of them."""


def train_here(home: Path, model: Path, rollouts: Sequence[RolloutRecord], **fields: Any) -> Found:
    result = run(make_spec(home, rollouts, recipe=RECIPE, base_model=str(model), **fields), lambda _: None)
    if not result.ok:
        return Found(f"{result.error_type}: {result.error_message}")
    refused = {name.removeprefix("refused_"): value for name, value in result.summary.items() if "refused_" in name}
    told = result.summary
    return Found("", int(told["rollouts_hinted"]), abs(told["max_ratio"] - 1), refused)


def train_at_tinker(home: Path, model: Path, rollouts: Sequence[RolloutRecord]) -> Found:
    with serve(TinkerServer(model=str(model))) as server:
        os.environ |= {"TENTALIS_TINKER_URL": server.url, "TENTALIS_TINKER_API_KEY": KEY}
        return train_here(home, model, rollouts, backend="tinker", options={"model": MODEL})


class Teacher:
    """An engine as a process that serves one model at a time: the last one that was asked for."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._model = Path()
        self._url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def serve(self, model: Path) -> str:
        """Its address."""
        if model != self._model:
            self._open.close()
            self._model, self._url = model, self._open.enter_context(run_engine(str(model)))
        return self._url


def weigh_there(home: Path, model: Path, rollouts: Sequence[RolloutRecord], *, teacher: Teacher) -> Found:
    """The plug-in on answers as if the cluster had sampled them: to the label's prompt, which is all that it has."""
    home.mkdir(parents=True)
    try:
        written = write_prompts(home / "data.jsonl", rollouts, base_model=str(model), recipe=RECIPE, options=OPTIONS)
    except Exception as error:  # whatever it is, it ended the run: that is counted here
        return Found(f"{type(error).__name__}: {error}")
    labels = [json.loads(line)["label"] for line in (home / "data.jsonl").read_text().splitlines()]
    by_task = {json.loads(label)["task"]: label for label in labels}
    answered = [one for one in rollouts if one.group_id in by_task]
    prompts = [json.loads(by_task[one.group_id])["prompt_token_ids"] for one in answered]
    items = [(prompt, one.token_ids) for prompt, one in zip(prompts, answered, strict=True)]
    scored = score_answers(load_base(str(model)), items, {})
    drift = max(
        abs(torch.tensor(value - served).exp().item() - 1)
        for values, one in zip(scored, answered, strict=True)
        for value, served in zip(values, one.logprobs, strict=True)
    )
    told = Told(teacher_url=teacher.serve(model), teacher_model=model.name, w_rl=RECIPE.w_rl, w_opd=RECIPE.w_opd)
    try:
        with import_openrlhf() as openrlhf:
            made = [
                make_experience(openrlhf, place, by_task[one.group_id], prompt, one, values)
                for place, (one, prompt, values) in enumerate(zip(answered, prompts, scored, strict=True))
            ]
            weighed = make_maker(openrlhf, told).compute_advantages_and_returns(made)
    except Exception as error:
        return Found(f"{type(error).__name__}: {error}")
    asked = sum(bool(each.info["opd_hinted"][0]) for each in weighed)
    wanted = sum("hinted_prompt_token_ids" in json.loads(by_task[one.group_id]) for one in answered)
    lost = "" if asked == wanted else f"{asked} of {wanted} hints were weighed"
    return Found(lost, asked, drift, dict(written.refused.counts))


def make_experience(
    openrlhf: SimpleNamespace,
    place: int,
    label: str,
    prompt: Sequence[int],
    rollout: RolloutRecord,
    logprobs: Sequence[float],
) -> Any:
    """An answer as OpenRLHF's experience maker has it, which compares neighbours."""
    whole = [*prompt, *rollout.token_ids]
    before = len(prompt) - 1
    reward = rollout.reward or 0.0
    return openrlhf.experience.Experience(
        sequences=torch.tensor([whole]),
        attention_mask=torch.ones(1, len(whole)),
        action_mask=torch.tensor([[0] * before + [int(flag) for flag in rollout.sampled]]),
        action_log_probs=torch.tensor([[0.0] * before + list(logprobs)]),
        rewards=torch.tensor([reward]),
        kl=torch.zeros(1, len(whole) - 1),
        index=[place],
        labels=[label],
        info={"reward": torch.tensor([reward])},
    )


def make_odd_batch(family: str, count: int, rng: random.Random) -> tuple[Path, list[RolloutRecord], int]:
    """A model, that many odd conversations behind a few good ones, and how many of all have a hint that can be read.

    Where an odd conversation can be rendered it is what was served, else another was; the answers' log-probs are the
    model's own.
    """
    model = make_templated_model(family)
    base = load_base(str(model))
    plain = CONVERSATIONS["plain"]
    good = make_templated_rollouts(model, plain, serve_prompt(model, plain), size=GOOD)
    rollouts, readable = list(good), GOOD
    replayer = Replayer(base.codec, model.name)
    for number in range(count):
        messages, rendering = make_odd_conversation(rng)
        odd: dict[str, Any] = {"messages": messages, "rendering": rendering}
        try:
            odd["hinted_messages"] = hinted_messages(messages, HINT)
        except HintError as error:
            odd |= {"hinted_messages": None, "hint_fault": str(error)}
        odd = json.loads(json.dumps(odd))
        try:
            odd["prompt_token_ids"] = list(replayer.read(odd["messages"], odd["rendering"]))
        except ReplayError:
            odd["prompt_token_ids"] = good[0].prompt_token_ids
        made = replace(good[number % GOOD], rollout_id=100 + number, group_id=100 + number, **odd)
        rollouts.append(RolloutRecord.from_json(json.loads(canonical_json(made.to_json()))))
        readable += can_be_hinted(replayer, made)
    scored = score_answers(base, [(one.prompt_token_ids, one.token_ids) for one in rollouts], {})
    return model, [replace(one, logprobs=values) for one, values in zip(rollouts, scored, strict=True)], readable


def can_be_hinted(replayer: Replayer, rollout: RolloutRecord) -> bool:
    try:
        return bool(rollout.hinted_messages and replayer.hint(rollout, rollout.hinted_messages))
    except ReplayError:
        return False


def ask_ordinary(backends: Mapping[str, Backend], directory: Path) -> list[dict[str, Any]]:
    """A row each backend, family and kind."""
    rows = []
    for family in TOOL_FAMILIES:
        model = make_templated_model(family)
        for kind in KINDS:
            messages = CONVERSATIONS[kind]
            prompt = serve_prompt(model, messages, tools=TOOLS)
            rollouts = make_templated_rollouts(model, messages, prompt, rendering={"tools": TOOLS})
            for name, backend in backends.items():
                found = backend(directory / f"{family} {kind} {name}", model, rollouts)
                bad = bool(found.ended) or found.hinted != len(rollouts) or found.drift > LARGEST_DRIFT
                row = {"backend": name, "family": family, "kind": kind, "answers": len(rollouts)}
                rows.append(row | vars(found) | {"missed": bad})
    return rows


def ask_odd(
    backends: Mapping[str, Backend], directory: Path, *, conversations: int, batch: int, seed: int
) -> list[dict[str, Any]]:
    """A row each backend, over all batches."""
    rng = random.Random(seed)
    rows: dict[str, dict[str, Any]] = {
        name: {
            "backend": name,
            "runs": 0,
            "ended": [],
            "hinted": 0,
            "readable": 0,
            "drift": 0.0,
            "refused": {},
            "s": 0.0,
        }
        for name in backends
    }
    sizes = [
        (family, min(batch, of_family - start))
        for family, of_family in zip(FAMILIES, share(conversations, len(FAMILIES)), strict=True)
        for start in range(0, of_family, batch)
    ]
    for number, (family, size) in enumerate(sizes):
        model, rollouts, readable = make_odd_batch(family, size, rng)
        for name, backend in backends.items():
            row: dict[str, Any] = rows[name]
            started = time.perf_counter()
            found = backend(directory / f"odd {number} {name}", model, rollouts)
            row["s"] += time.perf_counter() - started
            row["runs"] += 1
            row["readable"] += readable
            row["hinted"] += found.hinted
            row["drift"] = max(row["drift"], found.drift)
            row["ended"] += [found.ended] if found.ended else []
            for reason, count in found.refused.items():
                row["refused"][reason] = row["refused"].get(reason, 0) + int(count)
        print(f"batch {number + 1} of {len(sizes)}", file=sys.stderr)
    for row in rows.values():
        row["missed"] = bool(row["ended"]) or row["hinted"] != row["readable"] or row["drift"] > LARGEST_DRIFT
    return list(rows.values())


def share(total: int, parts: int) -> list[int]:
    """Even numbers, as near to each other as can be: answers are compared in pairs."""
    return [2 * (total // 2 * (part + 1) // parts - total // 2 * part // parts) for part in range(parts)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=10_000, help="odd ones, through each backend")
    parser.add_argument("--batch", type=int, default=500, help="odd ones a run")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args(argv)
    prepare_process()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name, Teacher() as teacher:
        directory = Path(name)
        backends: dict[str, Backend] = {
            "standalone": train_here,
            "Tinker, on loopback": train_at_tinker,
            "OpenRLHF's plug-in": partial(weigh_there, teacher=teacher),
        }
        ordinary = ask_ordinary(backends, directory)
        odd = ask_odd(backends, directory, conversations=options.conversations, batch=options.batch, seed=options.seed)
    print(f"{'hinted answers that call tools':58}{'answers':>9}{'hints':>7}{'ratio off 1 by':>16}")
    for row in ordinary:
        label = f"{row['backend']}, {row['family']}, {row['kind']}"
        print(
            f"{label:58}{row['answers']:9}{row['hinted']:7}{row['drift']:16.1e}"
            f"{'  MISSED ' + row['ended'] if row['missed'] else ''}"
        )
    print(f"\n{options.conversations} odd conversations, and good ones among them")
    print(f"{'':22}{'runs':>6}{'ended':>7}{'hints':>8}{'readable':>10}{'ratio off 1 by':>16}{'s':>8}  not learnt from")
    for row in odd:
        refused = ", ".join(f"{count} {reason}" for reason, count in sorted(row["refused"].items()))
        print(
            f"{row['backend']:22}{row['runs']:6}{len(row['ended']):7}{row['hinted']:8}{row['readable']:10}"
            f"{row['drift']:16.1e}{row['s']:8.1f}  {refused}{'  MISSED' if row['missed'] else ''}"
        )
        for ended in sorted(set(row["ended"]))[:5]:
            print(f"    ended: {ended[:200]}")
    print(json.dumps({"bench": "hinted", "ordinary": ordinary, "odd": odd}))
    return 1 if any(row["missed"] for row in [*ordinary, *odd]) else 0


if __name__ == "__main__":
    sys.exit(main())
