"""From a spec to a job: which of OpenRLHF's trainers, its command line, its data, and what its processes are told."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_workers.artifacts import ArtifactError, hash_files, path_from_uri
from gpu_workers.backends.adapter_files import open_parent, require_fit
from gpu_workers.backends.base_models import find_weights, locate_base
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.openrlhf.argv import REINFORCE, Places, reinforce
from gpu_workers.backends.openrlhf.plugin.told import VARIABLE, Told
from gpu_workers.backends.openrlhf.prompts import write_prompts
from gpu_workers.backends.openrlhf.ray_jobs import PACKAGE
from gpu_workers.backends.openrlhf.records import BaseTokens, write_demonstrations, write_pairs, write_step_pairs
from gpu_workers.backends.openrlhf.stock import Trainer, compare, imitate, prefer, start_with
from gpu_workers.backends.prm import read_labelled_steps
from gpu_workers.backends.rollout_files import read_records, read_rollouts
from tentalis.core.contracts import DemonstrationRecord, PairRecord, TrainSpec
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError
from tentalis.core.learning.openrlhf_recipes import fit_sizes, require_possible, require_stock, require_teacher
from tentalis.core.learning.recipes import Recipe

REWARD_VARIABLE = "TENTALIS_REWARD_URL"


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """A job before it is submitted.

    Args:
        words: what starts it. variables: of its processes' environment.
        gpus: that its first process holds itself; told: what is worth keeping, without a secret.
    """

    words: Sequence[str]
    variables: Mapping[str, str]
    gpus: int
    told: Mapping[str, Any]


def plan_job(spec: TrainSpec, *, output: Path, reward_url: str) -> PlannedJob:
    """Plan the spec's job; its data are written into `output`.

    Raises:
        TrainingError, ContractError, ArtifactError: it cannot be trained like this.
    """
    options = ClusterOptions.from_json(spec.options)
    places = Places(
        model=find_base(spec),
        data=output / "data.jsonl",
        output=output / "saved",
        checkpoints=path_from_uri(spec.resume_uri) if spec.resume_uri else output / "checkpoints",
        curves=output / "curves",
        resumes=spec.resume_uri is not None,
    )
    if spec.purpose == "reward_model":
        return _plan_head(spec, options, places)
    recipe = Recipe.from_json(spec.recipe)
    if recipe.learns_from == "rollouts":
        return _plan_reinforcement(spec, recipe, options, places, reward_url=reward_url or options.reward_url)
    return _plan_stock(spec, recipe, options, places)


def _plan_reinforcement(
    spec: TrainSpec, recipe: Recipe, options: ClusterOptions, places: Places, *, reward_url: str
) -> PlannedJob:
    require_possible(recipe)
    if not reward_url:
        raise ClusterOptionsError("options.reward_url must say where answers are rewarded, found nothing")
    if recipe.uses_teacher:
        require_teacher(options)
    rollouts = read_rollouts(path_from_uri(spec.rollouts_uri), sha256=spec.rollouts_sha256)
    prompts = write_prompts(places.data, rollouts, base_model=spec.base_model, recipe=recipe, options=options)
    sizes = fit_sizes(recipe, options, prompts=prompts.tasks)
    told = Told(
        parent=str(_find_parent(spec, recipe) or ""),
        teacher_url=options.teacher_url if recipe.uses_teacher else "",
        teacher_model=options.teacher_model if recipe.uses_teacher else "",
        w_rl=recipe.w_rl,
        w_opd=recipe.w_opd,
        opd_clip=recipe.opd_clip,
        opd_least_share=recipe.opd_least_share,
    )
    argv = reinforce(recipe, options, sizes, places, seed=spec.seed % 2**31)
    return PlannedJob(
        words=["python3", "-m", f"{PACKAGE}.entry", REINFORCE, *argv],
        variables={VARIABLE: json.dumps(dataclasses.asdict(told)), REWARD_VARIABLE: reward_url},
        gpus=0,  # Ray gives its actors theirs
        told={
            "argv": argv,
            "sizes": dataclasses.asdict(sizes),
            "told": dataclasses.asdict(told),
            "hints": prompts.hints,
            "refused": dict(prompts.refused.counts),
            "notes": prompts.refused.notes,
        },
    )


def _plan_stock(spec: TrainSpec, recipe: Recipe, options: ClusterOptions, places: Places) -> PlannedJob:
    """Preferences and imitation, by the trainers OpenRLHF has for them."""
    path, seed = path_from_uri(spec.rollouts_uri), spec.seed % 2**31
    base, fits = BaseTokens.open(spec.base_model), {"max_tokens": options.max_tokens}
    trainer: Trainer
    if recipe.learns_from == "pairs":
        pairs = read_records(path, PairRecord, sha256=spec.rollouts_sha256)
        require_stock(
            recipe, [pair.weight for pair in pairs], several=[pair.pair_id for pair in pairs if not pair.is_of_one]
        )
        records = write_pairs(places.data, pairs, base, **fits)
        trainer, argv = "dpo", prefer(recipe, options, places, records=records, seed=seed)
    else:
        demonstrations = read_records(path, DemonstrationRecord, sha256=spec.rollouts_sha256)
        require_stock(recipe, [one.weight for one in demonstrations])
        records = write_demonstrations(places.data, demonstrations, base, **fits)
        trainer, argv = "sft", imitate(recipe, options, places, records=records, seed=seed)
    told = Told(parent=str(_find_parent(spec, recipe) or ""), parent_is_reference=True)
    return _describe_stock(trainer, argv, told, records=records, options=options)


def _plan_head(spec: TrainSpec, options: ClusterOptions, places: Places) -> PlannedJob:
    """A step scorer: a linear head on the frozen base, by the trainer OpenRLHF has for reward models."""
    recipe, seed = HeadRecipe.from_json(spec.recipe), spec.seed % 2**31
    steps = read_labelled_steps(path_from_uri(spec.rollouts_uri), sha256=spec.rollouts_sha256)
    records = write_step_pairs(
        places.data, steps, updates=recipe.steps, batch=recipe.batch, max_tokens=options.max_tokens, seed=seed
    )
    argv = compare(recipe, options, places, records=records, seed=seed)
    return _describe_stock("rm", argv, Told(head_alone=True), records=records, options=options)


def _describe_stock(
    trainer: Trainer, argv: Sequence[str], told: Told, *, records: int, options: ClusterOptions
) -> PlannedJob:
    return PlannedJob(
        words=start_with(trainer, argv, gpus=options.actor_gpus),
        variables={VARIABLE: json.dumps(dataclasses.asdict(told))},
        gpus=options.actor_gpus,
        told={"argv": list(argv), "records": records, "told": dataclasses.asdict(told)},
    )


def find_base(spec: TrainSpec) -> Path:
    """The directory of the base model. Raises BaseModelError where it holds no weights."""
    directory = locate_base(spec.base_model)
    if not find_weights(directory):
        raise BaseModelError(f"wanted a model directory with *.safetensors, found none at {directory}")
    return directory


def _find_parent(spec: TrainSpec, recipe: Recipe) -> Path | None:
    """The adapter that training goes on from.

    Raises:
        ParentMismatchError: it does not fit the recipe. ArtifactError: it is not what was promised.
    """
    parent = open_parent(spec)
    if parent is None:
        return None
    directory, manifest = parent
    require_fit(
        ("rank", recipe.lora_rank, manifest.rank),
        ("alpha", recipe.lora_alpha, manifest.alpha),
        ("target modules", sorted(recipe.target_modules), sorted(manifest.target_modules)),
    )
    for file, entry in manifest.files.items():
        if hash_files([directory / file]) != entry["sha256"]:
            raise ArtifactError(f"{directory / file} is not what the parent's manifest says")
    return directory
