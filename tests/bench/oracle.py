"""`python -m tests.bench.oracle`: advantages, losses and gradients of our runs beside those of TRL's own trainer.

Both sides get the same random answers to the same prompts, with rewards, behaviour log-probs and an adapter that is not
the base. Ours is what a run tells of its first update (float32, as the product trains); TRL's is what
`GRPOTrainer._generate_and_score_completions` and `_compute_loss`, SDPO's `compute_sampled_token_self_distillation_loss`
and GKD's `generalized_jsd_loss` compute of them in float64. Then our code is changed at one place at a time, and each
change must be found. Exit 1 when a number differs by more than the tolerance or a change is not found.

Where TRL means something else by a word, like is compared with like, and the table says what was turned into what:
- std: TRL divides by the sample's (ddof 1) and adds 1e-4; ours is the population's and adds `std_floor`. TRL's
  advantages are multiplied by the quotient of the two.
- `reinforce_pp` is TRL's scale_rewards="batch", which divides by the std of the rewards themselves; ours by that of the
  rewards less their group's mean.
- TRL's "grpo" is a mean of answers' means; ours is a mean over tokens, TRL's "bnpo".
- CISPO's epsilon_high is the cap itself in TRL, what is above 1 in ours.
- the reference of the KL is the model without an adapter in ours, the loaded adapter in TRL's PEFT path; and TRL
  multiplies k3 by the ratio unless use_bias_correction_kl is off (arXiv:2512.02556), ours is the unweighted k3 of GRPO.
- distillation: equal where the policy is the one that sampled and no gap is clipped. Beyond it TRL multiplies by a
  truncated ratio and takes today's gap, ours clips the surrogate and keeps the gap of when it was sampled.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gpu_workers.backends.adapter_files import describe_adapter, publish_adapter, start_adapter
from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.micro_batches import score_answers
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.learning.packing import PackedRow
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import RolloutRecord, TrainSpec
from tentalis.core.learning.recipes import Recipe
from tests.bench.trainer import PEER_ENVIRONMENT, prepare_peer
from tests.gpu_workers.learning.training_factory import make_model

TOLERANCE = 1e-6
"""Of numbers about 1; of larger ones relative. Ours are float32."""
WORDS = 20
ROOT = Path(__file__).parents[2]
GROUPS, GROUP = 4, 4
POLICY = Recipe(
    lora_rank=4, lora_alpha=8.0, minibatches=1, w_rl=1.0, w_opd=0.0, step_mix=0.0, std_floor=1e-4, answer_tokens=12
)
HINTED = Recipe(lora_rank=4, lora_alpha=8.0, minibatches=1, w_rl=0.0, w_opd=1.0, opd_clip=100.0)


@dataclass(frozen=True)
class Case:
    """One question that both sides are asked of several batches.

    Args:
        recipe: fields beside `POLICY`'s or `HINTED`'s; trl: GRPOConfig's.
        noise: nats, by which the behaviour's log-probs lie beside the policy's; 0: it is the policy that sampled.
        tools: some tokens are a tool's.
        dull: one group's rewards agree.
        means: what TRL's is turned into, in a few words.
    """

    name: str
    kind: str = "policy"
    recipe: Mapping[str, Any] = field(default_factory=dict)
    trl: Mapping[str, Any] = field(default_factory=dict)
    noise: float = 0.3
    temperature: float = 1.0
    tools: bool = False
    dull: bool = True
    means: str = ""


CLIPS = {"epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0, "scale_rewards": "group"}
MEAN = {**CLIPS, "loss_type": "bnpo"}
CASES = (
    Case("grpo, on policy", trl=MEAN, noise=0.0, means="std of the population"),
    Case("grpo, off policy", trl=MEAN, means="bnpo, std of the population"),
    Case("grpo, tool tokens", trl=MEAN, tools=True, means="bnpo, std of the population"),
    Case("grpo, dual clip", recipe={"dual_clip": 1.5}, trl={**MEAN, "delta": 1.5}, noise=0.6, means="delta"),
    Case("grpo, temperature .7", trl=MEAN, temperature=0.7),
    Case("grpo, temperature 1.3", trl=MEAN, temperature=1.3),
    Case(
        "grpo, KL to the base (k3)",
        recipe={"kl_coef": 0.05},
        trl={**MEAN, "beta": 0.05, "use_bias_correction_kl": False},
        means="base without adapter, k3 unweighted",
    ),
    Case("grpo, entropy bonus", recipe={"entropy_coef": 0.02}, trl={**MEAN, "entropy_coef": 0.02}, dull=False),
    Case(
        "grpo, importance cap",
        recipe={"importance_cap": 1.2},
        trl=MEAN,
        noise=0.5,
        means="vLLM correction, token_truncate",
    ),
    Case("dapo", recipe={"algorithm": "dapo"}, trl={**CLIPS, "loss_type": "dapo"}, dull=False),
    Case(
        "dr_grpo",
        recipe={"algorithm": "dr_grpo"},
        trl={**CLIPS, "loss_type": "dr_grpo", "scale_rewards": "none"},
    ),
    Case(
        "cispo",
        recipe={"algorithm": "cispo"},
        trl={**MEAN, "loss_type": "cispo", "epsilon_high": 1.28},
        means="cap 1.28",
    ),
    Case(
        "reinforce_pp",
        recipe={"algorithm": "reinforce_pp"},
        trl={**MEAN, "scale_rewards": "batch"},
        means="std of centred rewards",
    ),
    Case("hint, sampled tokens", kind="sampled", noise=0.0, means="SDPO's sampled_token"),
    Case(
        "hint, all words (top K = all)",
        kind="all",
        recipe={"opd_mode": "top_k", "opd_top_k": WORDS, "opd_top_k_clip": 100.0},
        noise=0.0,
        means="GKD's reverse KL",
    ),
)

ADVANTAGES = "tentalis/core/learning/advantages.py"
LOSSES = "gpu_workers/learning/losses.py"
MUTANTS = (
    ("std of the sample", ADVANTAGES, "math.fsum(squares) / total", "math.fsum(squares) / max(1e-9, total - 1)"),
    ("mean not taken away", ADVANTAGES, "[(reward - mean) / scale", "[reward / scale"),
    (
        "mean over moving answers alone",
        "gpu_workers/backends/plans.py",
        "example.advantages is not None]",
        "example.has_signal(recipe)]",
    ),
    ("the larger of both surrogates", LOSSES, "-torch.minimum(ratio * gain", "-torch.maximum(ratio * gain"),
    ("clip above as below", LOSSES, "clamp(1 - clip_low, 1 + clip_high)", "clamp(1 - clip_low, 1 + clip_low)"),
    (
        "CISPO clips the gradient",
        LOSSES,
        "ratio = _ratio(logprobs, old_logprobs, counts).detach()",
        "ratio = _ratio(logprobs, old_logprobs, counts)",
    ),
    ("dual clip on good answers", LOSSES, "torch.where(gain < 0, torch.minimum", "torch.where(gain > 0, torch.minimum"),
    ("KL by k1", LOSSES, "(near.exp() * (1 + gap - near) - gap - 1).sum()", "(-gap).sum()"),
    ("importance without a cap", LOSSES, ".clamp(max=cap)", ""),
    ("temperature multiplies", "gpu_workers/backends/base_models.py", "states / temperatures", "states * temperatures"),
    (
        "tool tokens count",
        "gpu_workers/backends/training_example.py",
        "return sum(self.rollout.sampled)",
        "return len(self.rollout.sampled)",
    ),
    (
        "gap turned round",
        "tentalis/core/opd.py",
        "max(-gap_max, teacher - old)) if",
        "max(-gap_max, old - teacher)) if",
    ),
    (
        "hybrid weighs all words alike",
        "tentalis/core/opd.py",
        "teacher - old)) * exp / total)",
        "teacher - old)) / len(exps))",
    ),
)
"""What it is, file, text and what it becomes: each a mistake that somebody could make."""


def make_work(directory: Path, *, batches: int, seed: int) -> dict[str, Any]:
    """What both sides read: a model, an adapter, and each case's batches as specs and as plain lists."""
    model = make_model(WORDS)
    base = load_base(str(model))
    tensors = start_adapter(base.find_linears(POLICY.target_modules), rank=POLICY.lora_rank, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in tensors.weights.items():
        if "lora_B" in name:
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    rng = random.Random(seed)
    work: dict[str, Any] = {"model": str(model), "cases": []}
    for number in range(batches):
        for case in CASES:
            recipe = Recipe.from_json((POLICY if case.kind == "policy" else HINTED).to_json() | dict(case.recipe))
            name = f"{case.name} #{number}"
            home = directory / str(len(work["cases"]))
            home.mkdir()
            rollouts = make_rollouts(base, tensors, recipe, case, rng)
            content = b"\n".join(canonical_json(rollout.to_json()) for rollout in rollouts)
            (home / "rollouts.jsonl").write_bytes(content)
            spec = TrainSpec(
                run_id=1,
                attempt=1,
                worker="oracle",
                base_model=str(model),
                parent_adapter_uri=None,
                parent_sha256=None,
                policy_version=0,
                rollouts_uri=(home / "rollouts.jsonl").as_uri(),
                rollouts_sha256=hashlib.sha256(content).hexdigest(),
                recipe=recipe.to_json(),
                seed=seed,
                output_uri=home.as_uri(),
            )
            if "adapter" not in work:
                adapter, sha256 = publish_adapter(
                    tensors, describe_adapter(spec, recipe, base.sha256), parent=directory
                )
                work |= {"adapter": str(adapter), "sha256": sha256}
            spec = TrainSpec.from_json(
                {
                    **{key: value for key, value in spec.to_json().items() if key != "content_hash"},
                    "parent_adapter_uri": Path(work["adapter"]).as_uri(),
                    "parent_sha256": work["sha256"],
                }
            )
            work["cases"].append(describe(case, name, spec, recipe, base, rollouts))
    return work


def make_rollouts(base: BaseModel, tensors: Any, recipe: Recipe, case: Case, rng: random.Random) -> list[RolloutRecord]:
    """Random answers with the adapter's log-probs, moved by the case's noise."""
    changes = Optimizer(tensors, recipe, base.device).changes(
        sorted(base.find_linears(recipe.target_modules)), recipe.lora_scale
    )
    prompts, answers, hinted, messages = [], [], [], []
    for group in range(GROUPS):
        asked = [{"role": "user", "content": f"w{group} w{rng.randrange(WORDS - 4)}"}]
        told = [{"role": "user", "content": f"{asked[0]['content']} w9 w{rng.randrange(WORDS - 4)}"}]
        for _ in range(GROUP):
            messages.append(asked)
            hinted.append(told)
            prompts.append(list(base.read_prompt(asked)))
            answers.append([rng.randrange(4, WORDS) for _ in range(rng.randint(3, 10))] + [1])
    temperatures = [case.temperature] * len(answers)
    scored = score_answers(base, list(zip(prompts, answers, strict=True)), changes, temperatures)
    tops = rank_all(base, prompts, answers, changes) if case.kind == "all" else [None] * len(answers)
    rollouts = []
    for index, (answer, logprobs, top) in enumerate(zip(answers, scored, tops, strict=True)):
        sampled = [not case.tools or place % 4 != 2 for place in range(len(answer))]
        reward = (
            0.5 if case.dull and index // GROUP == 1 else rng.choice([0.0, 0.25, 0.5, 1.0]) + 0.01 * (index % GROUP)
        )
        rollouts.append(
            RolloutRecord(
                rollout_id=index,
                group_id=index // GROUP,
                adapter="",
                policy_version=0,
                messages=messages[index],
                hinted_messages=None if case.kind == "policy" else hinted[index],
                prompt_token_ids=prompts[index],
                token_ids=answer,
                logprobs=[
                    min(-1e-3, value + rng.gauss(0, case.noise)) if counts and case.noise else value if counts else 0.0
                    for value, counts in zip(logprobs, sampled, strict=True)
                ],
                sampled=sampled,
                reward=min(1.0, reward),
                temperature=case.temperature,
                top_token_ids=None if top is None else [[word for word, _ in place] for place in top],
                top_logprobs=None if top is None else [[value for _, value in place] for place in top],
            )
        )
    return rollouts


def rank_all(
    base: BaseModel, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], changes: Mapping[str, Any]
) -> list[list[list[tuple[int, float]]]]:
    """Every word's log-prob at each place of each answer, likeliest first."""
    found = []
    for prompt, answer in zip(prompts, answers, strict=True):
        batch = base.lay_out([PackedRow(prompt, [answer])])
        with torch.inference_mode():
            support = base.score(batch, changes, support_ids=torch.arange(WORDS).repeat(len(answer), 1)).support
        assert support is not None, "a support was asked for"
        found.append([sorted(enumerate(place), key=lambda one: -one[1]) for place in support.tolist()])
    return found


def describe(
    case: Case, name: str, spec: TrainSpec, recipe: Recipe, base: BaseModel, rollouts: Sequence[RolloutRecord]
) -> dict[str, Any]:
    """One batch of a case, for either side."""
    rows = [
        {
            "prompt": list(one.prompt_token_ids),
            "hinted_prompt": list(base.read_prompt(one.hinted_messages)) if one.hinted_messages else [],
            "completion": list(one.token_ids),
            "sampled": list(one.sampled),
            "logprobs": list(one.logprobs),
            "reward": one.reward,
        }
        for one in rollouts
    ]
    return {
        "name": name,
        "kind": case.kind,
        "spec": spec.to_json(),
        "trl": dict(case.trl),
        "group": GROUP,
        "rows": rows,
        "temperature": case.temperature,
        "answer_tokens": recipe.answer_tokens,
        "std_floor": recipe.std_floor,
        "cap": recipe.importance_cap,
    }


def ask(python: Path | str, script: str, work: Path, **environment: str) -> dict[str, dict[str, Any]]:
    """What one side says of every batch.

    Raises:
        SystemExit: it ended with an error.
    """
    done = subprocess.run(
        [python, str(Path(__file__).with_name(script)), str(work)],
        env={**os.environ, **PEER_ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr[-3000:]}")
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, float]:
    """The largest difference by number; of what is above 1, relative to it."""
    found = {}
    for name in sorted(ours.keys() & theirs.keys()):
        pairs = zip(*(one if isinstance(one, list) else [one] for one in (ours[name], theirs[name])), strict=True)
        found[name] = max(abs(mine - other) / max(1.0, abs(other)) for mine, other in pairs)
    return found


def gather(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Case -> number -> its largest difference over the batches."""
    worst: dict[str, dict[str, float]] = {}
    for batch, numbers in theirs.items():
        known = worst.setdefault(batch.rpartition(" #")[0], {})
        for name, gap in compare(ours[batch], numbers).items():
            known[name] = max(known.get(name, 0.0), gap)
    return worst


def mutate(directory: Path, file: str, text: str, becomes: str) -> Path:
    """A copy of the product with one place changed.

    Raises:
        SystemExit: the text is not there any more, or more than once.
    """
    for package in ("tentalis", "gpu_workers"):
        shutil.copytree(ROOT / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))
    source = (ROOT / file).read_text()
    if source.count(text) != 1:
        raise SystemExit(f"{file} holds {text!r} {source.count(text)} times, wanted once: change the list of mutants")
    (directory / file).write_text(source.replace(text, becomes))
    return directory


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=5, help="random batches a case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-mutants", action="store_true")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    python = prepare_peer()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        work = make_work(directory, batches=options.batches, seed=options.seed)
        path = directory / "work.json"
        path.write_text(json.dumps(work))
        theirs = ask(python, "oracle_peer.py", path)
        worst = gather(ask(sys.executable, "oracle_ours.py", path), theirs)
        survivors = []
        mutants = () if options.without_mutants else MUTANTS
        rows: list[dict[str, Any]] = []
        for number, (told, file, text, becomes) in enumerate(mutants):
            copy = mutate(directory / f"mutant-{number}", file, text, becomes)
            found = gather(ask(sys.executable, "oracle_ours.py", path, PYTHONPATH=str(copy)), theirs)
            caught = [case for case, gaps in found.items() if max(gaps.values()) > TOLERANCE]
            largest = max(max(gaps.values()) for gaps in found.values())
            rows.append({"mutant": told, "caught_by": caught, "largest": largest})
            survivors += [] if caught else [told]
    wrong = [case for case, gaps in worst.items() if not gaps or max(gaps.values()) > TOLERANCE]
    means = {case.name: case.means for case in CASES}
    print(
        f"ours beside TRL 1.16, {options.batches} random batches of {GROUPS} x {GROUP} answers each: largest difference"
    )
    columns = ("advantages", "loss", "grad_norm", "kl_base", "entropy")
    print(f"{'':32}" + "".join(f"{column:>12}" for column in columns) + "  TRL's turned into")
    for case, gaps in worst.items():
        told = "".join(f"{gaps[column]:12.1e}" if column in gaps else f"{'-':>12}" for column in columns)
        print(f"{case:32}{told}  {means[case]}{'  DIFFERS' if case in wrong else ''}")
    for row in rows:
        said = f"found by {len(row['caught_by'])} of {len(worst)} cases, {row['largest']:.1e} off"
        print(f"  ours with {row['mutant']:34}{said if row['caught_by'] else 'NOT FOUND'}")
    print(json.dumps({"bench": "oracle", "worst": worst, "mutants": rows, "tolerance": TOLERANCE}))
    if wrong or survivors:
        print(f"missed: {', '.join([*wrong, *survivors])}")
    return 1 if wrong or survivors else 0


if __name__ == "__main__":
    sys.exit(main())
