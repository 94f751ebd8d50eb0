"""Command lines: OpenRLHF's own parser and placement checks take what we let pass; we refuse first what they would."""

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from gpu_workers.backends.openrlhf.argv import Places, reinforce
from tentalis.core.learning.openrlhf_options import (
    ATTENTIONS,
    SYNCS,
    ClusterOptions,
    ClusterOptionsError,
    UnsupportedRecipeError,
)
from tentalis.core.learning.openrlhf_recipes import (
    ESTIMATORS,
    NOT_ITS_OWN,
    TAKEN,
    fit_sizes,
    require_possible,
)
from tentalis.core.learning.recipes import ALGORITHMS, ALL_LINEAR, OPD_MODES, Recipe
from tests.gpu_workers.openrlhf.command_line import CommandLines, RefusedByOpenRLHFError
from tests.gpu_workers.openrlhf.peer import fetch_openrlhf

PLACES = Places(
    model=Path("/m"), data=Path("/d.jsonl"), output=Path("/o"), checkpoints=Path("/o/ckpt"), curves=Path("/o/tb")
)
OUTCOME = {"w_rl": 1.0, "w_opd": 0.0, "step_mix": 0.0}


@pytest.fixture(scope="session")
def openrlhf() -> CommandLines:
    return CommandLines(fetch_openrlhf())


def make_recipe(**changes: Any) -> Recipe:
    return Recipe.from_json(OUTCOME | changes)


def write(recipe: Recipe, options: ClusterOptions, *, prompts: int = 64, seed: int = 1) -> list[str]:
    """The command line, or our refusal."""
    require_possible(recipe)
    return reinforce(recipe, options, fit_sizes(recipe, options, prompts=prompts), PLACES, seed=seed)


def test_every_field_of_a_recipe_is_taken_or_said_not_to_be() -> None:
    assert {item.name for item in fields(Recipe)} == TAKEN | set(NOT_ITS_OWN)
    assert not TAKEN & set(NOT_ITS_OWN)


def test_the_parser_reads_what_the_recipe_says(openrlhf: CommandLines) -> None:
    recipe = make_recipe(
        algorithm="dapo", kl_coef=0.001, dual_clip=3.0, importance_cap=2.0, overlong_buffer=8,
        target_modules=["q_proj", "v_proj"], minibatches=4, learning_rate=2e-5,
    )  # fmt: skip
    options = ClusterOptions(samples_per_prompt=4, engines=2, tensor_parallel=2, max_new_tokens=44)
    plan = openrlhf.plan(write(recipe, options))
    args = plan.args
    assert (args.algo.advantage.estimator, args.algo.kl.init_coef, args.algo.kl.use_loss) == ("group_norm", 0.001, True)
    assert (args.actor.eps_clip_low_high, args.actor.dual_clip) == ([0.2, 0.28], 3.0)
    assert (args.algo.advantage.is_correction_level, args.algo.advantage.is_correction_threshold) == ("token", [0, 2])
    assert (args.algo.dynamic_filtering_enable, args.reward.overlong_buffer_len) == (True, 8)
    assert (args.train.batch_size, args.rollout.batch_size, args.rollout.n_samples_per_prompt) == (16, 16, 4)
    assert (args.ds.lora.rank, args.ds.lora.target_modules) == (8, ["q_proj", "v_proj"])
    assert (args.actor.adam.lr, args.actor.adam.betas, args.actor.lr_scheduler) == (2e-5, [0.9, 0.95], "constant")
    assert plan.groups == [("PolicyModelActor", 1, False), ("ReferenceModelActor", 1, False)]
    assert plan.engines[:2] == (2, 2)
    assert plan.engines[2]["agent_func_path"] == "tentalis_rlhf/executor.py"


@pytest.mark.parametrize("algorithm", ESTIMATORS)
def test_every_flag_is_spelt_in_full(openrlhf: CommandLines, algorithm: str) -> None:
    recipe = make_recipe(
        algorithm=algorithm, kl_coef=0.1, entropy_coef=0.01, dual_clip=2.0, importance_cap=4.0, overlong_buffer=4
    )
    argv = write(recipe, ClusterOptions(colocate=True, max_new_tokens=44))
    assert {word for word in argv if word.startswith("--")} <= openrlhf.flags("ppo")


@some.composite
def possible(draw: Any) -> tuple[Recipe, ClusterOptions, int]:
    """A recipe, a cluster and a number of tasks that fit each other."""
    number = some.integers
    recipe = draw(
        some.fixed_dictionaries(
            {"algorithm": some.sampled_from(sorted(ESTIMATORS)), "minibatches": number(1, 4)},
            optional={
                "lora_rank": number(1, 64),
                "lora_alpha": number(1, 64).map(float),
                "target_modules": some.lists(some.sampled_from(ALL_LINEAR), min_size=1, unique=True),
                "learning_rate": some.floats(1e-8, 1e-2),
                "epochs": number(1, 3),
                "clip_low": some.floats(0.01, 1),
                "clip_high": some.floats(0.01, 5),
                "dual_clip": some.none() | some.floats(1.01, 10),
                "kl_coef": some.sampled_from([0.0, 1e-3, 1.0]),
                "entropy_coef": some.sampled_from([0.0, 0.01]),
                "importance_cap": some.none() | some.floats(1, 10),
                "overlong_buffer": number(0, 43),
                "w_rl": some.floats(0.1, 2),
                "w_opd": some.sampled_from([0.0, 0.3]),
                "opd_mode": some.sampled_from(["logprobs", "lightweight"]),
            },
        )
    )
    gpus, micro, samples = draw(some.sampled_from([1, 2, 4])), draw(some.sampled_from([1, 2, 4])), draw(number(2, 8))
    unit = gpus * micro * recipe["minibatches"]
    prompts = unit // math.gcd(unit, samples) * draw(number(1, 3))
    parallel = draw(some.sampled_from([size for size in (1, 2, 4) if gpus % size == 0]))
    cluster = {
        "actor_gpus": gpus,
        "micro_batch": micro,
        "samples_per_prompt": samples,
        "prompts_per_step": prompts,
        "tensor_parallel": parallel,
        "engines": gpus // parallel,
        "colocate": draw(some.booleans()),
        "zero_stage": draw(number(0, 2)),
        "attention": draw(some.sampled_from(ATTENTIONS)),
        "sync": draw(some.sampled_from(SYNCS)),
        "save_every": draw(number(0, 3)),
        "episodes": draw(number(1, 3)),
        "gpu_memory": draw(some.floats(0.1, 1)),
        **({"max_new_tokens": 44} if recipe.get("overlong_buffer") else {}),
    }
    return make_recipe(**recipe), ClusterOptions.from_json(cluster), draw(number(prompts, 4 * prompts))


@given(run=possible(), seed=some.integers(0, 2**31 - 1))
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_we_let_pass_its_parser_and_its_placements_take(
    openrlhf: CommandLines, run: tuple[Recipe, ClusterOptions, int], seed: int
) -> None:
    recipe, options, prompts = run
    args = openrlhf.plan(write(recipe, options, prompts=prompts, seed=seed)).args
    samples = args.rollout.batch_size * args.rollout.n_samples_per_prompt
    assert samples == args.train.batch_size * recipe.minibatches
    assert args.train.batch_size % (args.train.micro_batch_size * args.actor.num_gpus_per_node) == 0
    assert args.rollout.batch_size <= prompts, "a batch that never fills trains nothing"


wild = some.fixed_dictionaries(
    {
        "samples_per_prompt": some.integers(1, 8),
        "prompts_per_step": some.integers(1, 32),
        "actor_gpus": some.integers(1, 8),
        "engines": some.integers(1, 4),
        "tensor_parallel": some.sampled_from([1, 2, 4]),
        "colocate": some.booleans(),
        "zero_stage": some.integers(0, 3),
        "micro_batch": some.integers(1, 4),
        "max_new_tokens": some.integers(1, 4096),
    }
)


@given(
    algorithm=some.sampled_from(ALGORITHMS), opd=some.sampled_from(OPD_MODES), cluster=wild, tasks=some.integers(0, 64)
)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_cannot_be_is_refused_by_us_first(
    openrlhf: CommandLines, algorithm: str, opd: str, cluster: Any, tasks: int
) -> None:
    """Either we say no, in words, or OpenRLHF says yes: it never gets to say no."""
    try:
        argv = write(
            make_recipe(algorithm=algorithm, opd_mode=opd, w_opd=0.3), ClusterOptions.from_json(cluster), prompts=tasks
        )
    except (UnsupportedRecipeError, ClusterOptionsError) as error:
        refusal = str(error)
    else:
        refusal = ""
        openrlhf.plan(argv)
    assert not refusal or len(refusal.split()) >= 6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": "cispo"}, "OpenRLHF does grpo, dapo, dr_grpo, reinforce_pp; found cispo"),
        ({"algorithm": "reward_weighted_sft"}, "found reward_weighted_sft"),
        ({"algorithm": "kto"}, "found kto, which the standalone backend does"),
        ({"step_mix": 0.5}, "step_mix must be 0"),
        ({"w_rl": 0.0, "w_opd": 1.0}, "w_rl must be more than 0"),
        ({"w_opd": 0.3, "opd_mode": "top_k"}, "opd_mode must be logprobs or lightweight"),
        ({"lora_alpha": 0.5}, "lora_alpha must be a whole number"),
        ({"dual_clip": 1.0}, "dual_clip must be null or more than 1"),
        ({"schedule": "cosine"}, 'recipe.schedule must be "constant" with OpenRLHF, found "cosine"; the standalone'),
        ({"warmup_updates": 8}, "recipe.warmup_updates must be 0 with OpenRLHF, found 8"),
        ({"cut_answers_teach": False}, "recipe.cut_answers_teach must be true with OpenRLHF, found false"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedRecipeError, match=words):
        require_possible(make_recipe(**changes))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"colocate": True, "engines": 2}, "1 train, 2 engines of 1 are 2"),
        ({"zero_stage": 3}, "zero_stage must be 0 to 2"),
        ({"samples_per_prompt": 1}, "samples_per_prompt must be at least 2"),
        ({"prompts_per_step": 3, "samples_per_prompt": 3}, "wanted a multiple of 8 answers, found 9"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterOptionsError, match=words):
        write(make_recipe(), ClusterOptions.from_json(options))


@pytest.mark.parametrize("size", [43, 45])
def test_answers_are_overlong_where_the_recipe_says_or_not_at_all(size: int) -> None:
    """Its penalty ends at the longest answer it samples: elsewhere than at the recipe's, it is another penalty."""
    recipe = make_recipe(overlong_buffer=8)
    write(recipe, ClusterOptions(max_new_tokens=44))
    with pytest.raises(ClusterOptionsError, match=f"answer_tokens 44, .* the same, found {size}"):
        write(recipe, ClusterOptions(max_new_tokens=size))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpus": 1}, "options: wanted fields of actor_gpus"),
        ({"engines": True}, "wanted a whole number from 1 to 1,024, found True"),
        ({"engines": 0}, "wanted a whole number from 1 to 1,024, found 0"),
        ({"gpu_memory": 0}, "wanted a number above 0 and at most 1"),
        ({"attention": "fast"}, "wanted one of"),
        ({"max_tokens": 8, "max_new_tokens": 8}, "wanted room for the prompt"),
        ({"teacher_url": "http://t"}, "come together"),
    ],
)
def test_options_that_are_not_what_they_must_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterOptionsError, match=words):
        ClusterOptions.from_json(options)


@pytest.mark.parametrize(
    "argv", [["--advantage_estimator", "group_norm"], ["--actor.policy_loss_type", "cispo"]], ids=["stale", "cispo"]
)
def test_the_parser_at_hand_is_the_real_one(openrlhf: CommandLines, argv: list[str]) -> None:
    with pytest.raises(RefusedByOpenRLHFError):
        openrlhf.plan(argv)
