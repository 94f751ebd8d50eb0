"""The trainer of preferences and demonstrations, whole: records in, a checked adapter or a refusal out."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends import publication_checks
from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.examples import Answer, Example, gather, read_examples
from gpu_workers.backends.held_out import choose_held_out
from gpu_workers.backends.rehearsal import write_texts
from gpu_workers.engine import Engine
from gpu_workers.runner import run
from tentalis.core.contracts import (
    AnswerRecord,
    ContractError,
    DemonstrationRecord,
    PairRecord,
    RolloutRecord,
    TrainResult,
    TrainSpec,
)
from tentalis.core.learning.lengths import LengthQuestion
from tentalis.core.learning.monitors import watch_update
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec, tell_tokens, tiny_model

pytestmark = pytest.mark.torch
RECIPE = Recipe(
    lora_rank=4,
    lora_alpha=8.0,
    algorithm="dpo",
    learning_rate=1e-2,
    epochs=6,
    answer_tokens=12,
    held_out_share=0.25,
    most_length_drift=1.0,
    most_logprob_drop=1.0,
)
GOOD_WORD, BAD_WORD = 9, 20
"""People prefer answers that say the one over those that say the other: what is learnt holds for unseen tasks."""


def make_answers(groups: int = 8) -> list[RolloutRecord]:
    """Two answers a task, the first good: they differ in one word."""
    found = []
    for one in make_rollouts(groups=groups, size=2):
        word = GOOD_WORD if one.reward == 1 else BAD_WORD
        found.append(
            dataclasses.replace(one, token_ids=[word, 5, 1], logprobs=[-3.0] * 3, sampled=[True] * 3, steps=())
        )
    return found


def make_pairs(groups: int = 8, **fields: Any) -> list[PairRecord]:
    rollouts = make_answers(groups)
    pairs = []
    for good, bad in zip(rollouts[::2], rollouts[1::2], strict=True):
        values: dict[str, Any] = {
            "pair_id": good.rollout_id,
            "group_id": good.group_id,
            "source": "attempts",
            "messages": good.messages,
            "prompt_token_ids": good.prompt_token_ids,
            "chosen": [tell_tokens(good.token_ids)],
            "rejected": [tell_tokens(bad.token_ids)],
        }
        pairs.append(PairRecord(**(values | fields)))
    return pairs


def make_demonstrations(groups: int = 8) -> list[DemonstrationRecord]:
    return [
        DemonstrationRecord(
            demonstration_id=pair.pair_id, group_id=pair.group_id, source="edit", messages=pair.messages, answer="w5 w1"
        )
        for pair in make_pairs(groups)
    ]


def train(directory: Path, records: Sequence[Any], **changes: Any) -> TrainResult:
    return run(make_spec(directory, records, recipe=dataclasses.replace(RECIPE, **changes)), lambda _: None)


def train_well(directory: Path, records: Sequence[Any], **changes: Any) -> TrainResult:
    result = train(directory, records, **changes)
    assert result.ok, f"{result.error_type}: {result.error_message}"
    return result


def measure_gains(result: TrainResult, rollouts: Sequence[RolloutRecord]) -> list[float]:
    """Nats each answer won over the base, by the engine that would serve the adapter."""
    engine = Engine("tiny", tiny_model())
    engine.load_adapter("trained", path_from_uri(result.adapter_uri))
    prompts, tokens = [one.prompt_token_ids for one in rollouts], [one.token_ids for one in rollouts]
    after, before = engine.score(prompts, tokens, "trained"), engine.score(prompts, tokens, None)
    return [float(new.sum() - old.sum()) for new, old in zip(after, before, strict=True)]


@pytest.mark.parametrize("algorithm", ["dpo", "ipo", "kto"])
def test_what_people_prefer_wins_on_tasks_that_were_held_out(tmp_path: Path, algorithm: str) -> None:
    records = make_answers() if algorithm == "kto" else make_pairs()
    result = train_well(tmp_path, records, algorithm=algorithm)
    assert result.summary["held_out_pair_accuracy"] == 1.0
    assert result.summary["examples_held_out"] == (4 if algorithm == "kto" else 2)
    gains = measure_gains(result, make_answers())
    assert all(good > bad for good, bad in zip(gains[::2], gains[1::2], strict=True))
    assert result.metrics[-1]["loss_preference"] < result.metrics[0]["loss_preference"]


def test_judgements_of_one_kind_alone_are_learnt_and_told(tmp_path: Path) -> None:
    """No reward, margin or log-prob is made up of the kind that is not there."""
    result = train(tmp_path, make_answers()[::2], algorithm="kto", epochs=1, kto_desirable=3.0)
    told = result.metrics[0]
    assert (told["examples_rejected"], told["share_chosen"], told["weight_chosen"]) == (0.0, 1.0, 3.0)
    assert told.keys() & {"reward_rejected", "logp_rejected", "reward_margin"} == set()
    assert told["reward_chosen"] == pytest.approx(0.0, abs=1e-4), "before the first step nothing has moved"
    (alarm,) = watch_update(result.metrics)
    assert "it learns from good answers alone" in alarm.words


def test_demonstrations_in_words_are_imitated_to_their_end(tmp_path: Path) -> None:
    result = train_well(tmp_path, make_demonstrations(), algorithm="sft")
    assert result.summary["chosen_logprob_change"] > 0.1
    assert result.summary["val_loss"] < result.metrics[0]["loss"]
    base = load_base(str(tiny_model()))
    spec = make_spec(tmp_path / "again", make_demonstrations(), recipe=RECIPE)
    examples = read_examples(spec, "sft", base, held_out_share=0.25)
    (answer,) = examples.learnt[0].answers
    assert answer.tokens[-1] == base.end_of_turn == 1


def test_what_rehearses_texts_of_its_own_forgets_less(tmp_path: Path) -> None:
    shown = make_demonstrations()
    bare = train_well(tmp_path / "bare", shown, algorithm="sft")
    kept = train_well(tmp_path / "kept", shown, algorithm="sft", rehearsal_texts=32)
    counted = ("examples", "examples_learned", "tasks_learned", "tasks_held_out")
    assert [kept.summary[name] for name in counted] == [bare.summary[name] for name in counted]
    assert (kept.summary["texts_rehearsed"], bare.summary.get("texts_rehearsed")) == (32, None)
    assert kept.summary["chosen_logprob_change"] > 0.1, "what is shown is learnt all the same"
    others = dataclasses.replace(make_spec(tmp_path / "others", shown, recipe=RECIPE), seed=99)
    answers = [answer for one in write_texts(others, load_base(str(tiny_model())), count=64) for answer in one.chosen]
    engine = Engine("tiny", tiny_model())
    nats: dict[str | None, float] = {}
    engine.load_adapter("bare", path_from_uri(bare.adapter_uri))
    engine.load_adapter("kept", path_from_uri(kept.adapter_uri))
    for name in (None, "bare", "kept"):
        found = engine.score([one.prompt for one in answers], [one.tokens for one in answers], name)
        nats[name] = -sum(float(one.sum()) for one in found) / sum(one.size_tokens for one in answers)
    assert nats[None] < nats["kept"] < nats["bare"] - 0.05


def test_an_edited_answer_in_words_beats_the_original(tmp_path: Path) -> None:
    result = train_well(tmp_path, make_pairs(chosen=[AnswerRecord(text="w5 w5")]))
    assert result.summary["held_out_pair_accuracy"] == 1.0


def test_an_attempt_of_several_sequences_is_as_likely_as_all_of_them(tmp_path: Path) -> None:
    """What people prefer was said in the first of two calls; both ended with the same words."""
    last = tell_tokens([6, 1], prompt_token_ids=[2, 4, 5, 3])
    pairs = [
        dataclasses.replace(pair, chosen=[*pair.chosen, last], rejected=[*pair.rejected, last]) for pair in make_pairs()
    ]
    result = train_well(tmp_path, pairs)
    assert result.summary["held_out_pair_accuracy"] == 1.0
    gains = measure_gains(result, make_answers())
    assert all(good > bad for good, bad in zip(gains[::2], gains[1::2], strict=True))


def test_a_file_of_the_earlier_schema_is_read_as_it_was(tmp_path: Path) -> None:
    """A side was one sequence, and its fields were the pair's."""
    told = tell_tokens([9, 5, 1], logprobs=[-1.0, -2.0, -3.0])
    pair = make_pairs(1, weight=0.5, chosen=[told], rejected=[AnswerRecord(text="w5")])[0]
    line = {name: value for name, value in pair.to_json().items() if name not in ("chosen", "rejected")}
    line |= {
        "schema": "tentalis.pair/1",
        "chosen_token_ids": told.token_ids,
        "chosen_sampled": told.counts,
        "chosen_logprobs": told.logprobs,
        "chosen_answer": "",
        "rejected_token_ids": (),
        "rejected_sampled": (),
        "rejected_logprobs": None,
        "rejected_answer": "w5",
    }
    assert PairRecord.from_json(line) == dataclasses.replace(pair, chosen=(told,), rejected=tuple(pair.rejected))
    with pytest.raises(ContractError, match=r"pair 0: rejected\[0\]: wanted either token_ids or text, found neither"):
        PairRecord.from_json(line | {"rejected_answer": ""})


@pytest.mark.parametrize("algorithm", ["dpo", "ipo"])
def test_log_probs_that_another_model_told_are_not_the_reference(tmp_path: Path, algorithm: str) -> None:
    """A worker's base is another one than the base that answered: the policy is held to what the run starts from."""
    pairs = make_pairs()
    told = [
        dataclasses.replace(
            pair,
            chosen=[dataclasses.replace(one, logprobs=[-9.0] * len(one.token_ids)) for one in pair.chosen],
            rejected=[dataclasses.replace(one, logprobs=[-1.0] * len(one.token_ids)) for one in pair.rejected],
        )
        for pair in pairs
    ]
    wanted = train_well(tmp_path / "a", pairs, algorithm=algorithm, epochs=1)
    found = train_well(tmp_path / "b", told, algorithm=algorithm, epochs=1)
    for name in ("loss", "margin", "chosen_gain", "grad_norm"):
        assert found.metrics[0][name] == pytest.approx(wanted.metrics[0][name], abs=1e-5)
    for name in ("val_loss", "chosen_logprob_change"):
        assert found.summary[name] == pytest.approx(wanted.summary[name], abs=1e-5)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (24, "not published: 0.0% [0.0, 39.0] of the 6 held-out pairs are ordered right, more than 60% are wanted"),
        (8, "whether that is better than before cannot be told with 2 tasks, 6 can at best (p 0.5)"),
    ],
)
def test_preferences_that_contradict_each_other_are_not_published_where_that_shows(
    tmp_path: Path, groups: int, words: str
) -> None:
    """Most tasks prefer the other word; the held-out ones disagree with the others."""
    held_out = choose_held_out(set(range(groups)), share=0.25)
    pairs = [flip(pair) if pair.group_id in held_out else pair for pair in make_pairs(groups)]
    result = train(tmp_path, pairs, learning_rate=3e-3)  # at which the held-out good answers lose less than is allowed
    assert result.summary["held_out_pair_accuracy"] == 0.0
    assert result.summary["held_out_pairs"] == len(held_out)
    assert result.summary["held_out_margin"] < 0
    assert len(result.metrics) == result.summary["updates"] == 12, "what was measured of it stays"
    if groups == 8:
        assert result.ok
        assert words in result.notes[0]
        return
    assert (result.ok, result.error_type) == (False, "UnfitAdapterError")
    assert words in result.error_message
    assert not result.adapter_uri
    assert not list((tmp_path / "out").glob("*/manifest.json"))


def flip(pair: PairRecord) -> PairRecord:
    return dataclasses.replace(pair, chosen=pair.rejected, rejected=pair.chosen)


def test_answers_of_another_length_are_not_published(tmp_path: Path) -> None:
    """Everything preferred is one word long: so become the answers."""
    short = make_pairs(chosen=[tell_tokens([1])], rejected=[tell_tokens([5] * 9)])
    result = train(tmp_path, short, epochs=20, most_length_drift=0.2)
    assert result.error_type == "UnfitAdapterError"
    assert "20% are allowed" in result.error_message


def test_where_a_server_is_asked_the_box_leaves_the_question_and_samples_nothing(tmp_path: Path) -> None:
    """Answers of another length are the gate's to refuse, on the server that would serve them."""
    short = make_pairs(chosen=[tell_tokens([1])], rejected=[tell_tokens([5] * 9)])
    recipe = dataclasses.replace(RECIPE, epochs=20, most_length_drift=0.2)
    result = run(make_spec(tmp_path, short, recipe=recipe, options={"lengths": "server"}), lambda _: None)
    assert result.ok, result.error_message
    assert not [name for name in result.summary if name.startswith("length")]
    assert not [note for note in result.notes if note.startswith("length")]
    asked = LengthQuestion.from_json(json.loads((tmp_path / "out" / "lengths.json").read_bytes()))
    assert (len(asked.prompts), asked.answers, asked.max_tokens, asked.most_drift) == (2, 4, 12, 0.2)
    assert {tuple(prompt) for prompt in asked.prompts} < {tuple(one.prompt_token_ids) for one in short}


def test_the_built_in_engine_is_named_where_it_is_asked(tmp_path: Path) -> None:
    _, note = train_well(tmp_path, make_pairs()).notes
    assert note.startswith("lengths of answers: sampled by the built-in engine, on the CPU")


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ({"chosen_logprob_change": -0.11}, "held-out good answers lost 0.110 nats a token, 0.1 are allowed"),
        (
            {"length_drift": 0.21, "length_after_tokens": 12.1},
            "answers have 12.1 tokens where they had 10.0: 21% off, 20% are allowed",
        ),
    ],
)
def test_each_fault_in_words(findings: dict[str, float], words: str) -> None:
    fine = {
        "chosen_logprob_change": -0.09,
        "length_before_tokens": 10.0,
        "length_after_tokens": 11.9,
        "length_drift": 0.19,
    }
    assert publication_checks.find_faults(fine, Recipe(algorithm="dpo"), order=None) == []
    [fault] = publication_checks.find_faults(fine | findings, Recipe(algorithm="dpo"), order=None)
    assert words in fault


@pytest.mark.parametrize(
    ("good", "bad", "pairs", "tasks"),
    [([0, 0, 1], [0, 1, 1], 4, 2), ([0, 1, 2], [3, 4], 2, 2), ([0, 0], [], 0, 0)],
    ids=["at one task", "apart", "of one kind"],
)
def test_answers_judged_one_by_one_make_pairs_in_which_nothing_counts_twice(
    good: list[int], bad: list[int], pairs: int, tasks: int
) -> None:
    answer = (Answer((2,), (5,), (True,)),)
    judged = [Example(group, 1.0, chosen=answer) for group in good]
    judged += [Example(group, 1.0, rejected=answer) for group in bad]
    order = publication_checks.order_pairs(judged, [1.0] * len(judged), [-1.0] * len(judged))
    assert (order.pairs, order.tasks, order.margin) == (pairs, tasks, 2.0) if order else pairs == 0


def test_one_task_is_too_few(tmp_path: Path) -> None:
    result = train(tmp_path, make_pairs(1))
    assert result.error_type == "NothingToLearnError"
    assert "wanted examples of at least two tasks" in result.error_message


def test_records_of_another_kind_are_refused_by_line(tmp_path: Path) -> None:
    result = train(tmp_path, make_answers())
    assert result.error_type == "RolloutsUnreadableError"
    assert "line 1: schema must be 'tentalis.pair/2'" in result.error_message


def test_what_cannot_be_learnt_from_is_counted(tmp_path: Path) -> None:
    pairs = make_pairs(6)
    same = dataclasses.replace(pairs[0], rejected=pairs[0].chosen)
    worthless = dataclasses.replace(pairs[1], weight=0.0)
    long = dataclasses.replace(pairs[2], chosen=[tell_tokens([5] * 80)])
    spec = make_spec(tmp_path, [same, worthless, long, *pairs[3:]], recipe=RECIPE)
    found = read_examples(spec, "dpo", load_base(str(tiny_model())), held_out_share=0.25)
    assert found.refused.counts == {"same_answers": 1, "no_weight": 1, "longer_than_the_context": 1}
    assert len(found.learnt) + len(found.held_out) == 3


def test_parts_of_one_attempt_are_learnt_or_held_out_together(tmp_path: Path) -> None:
    """An earlier part is compared with nothing: its group is its own. Its task is the whole attempt's."""
    whole = make_answers(40)
    parts = [dataclasses.replace(one, group_id=-one.rollout_id - 1) for one in whole]
    spec = make_spec(tmp_path, [*parts, *whole], recipe=RECIPE)
    found = read_examples(spec, "kto", load_base(str(tiny_model())), held_out_share=0.25)
    held_out, learnt = ({one.group_id for one in side} for side in (found.held_out, found.learnt))
    assert (len(held_out), len(learnt), held_out & learnt) == (10, 30, set())
    assert len(found.held_out) == 10 * 2
    assert {len(one.answers) for one in [*found.held_out, *found.learnt]} == {2}


def test_imitation_of_what_was_rewarded_tells_its_loss_on_tasks_it_did_not_learn(tmp_path: Path) -> None:
    rollouts = make_answers(8)
    result = train_well(tmp_path, rollouts, algorithm="reward_weighted_sft")
    assert (result.summary["rollouts_learned"], result.summary["rollouts_held_out"]) == (12, 4)
    held_out = choose_held_out(set(range(8)), share=0.25)
    engine = Engine("tiny", tiny_model())
    engine.load_adapter("trained", path_from_uri(result.adapter_uri))
    mine = [one for one in rollouts if one.group_id in held_out]
    scored = engine.score([one.prompt_token_ids for one in mine], [one.token_ids for one in mine], "trained")
    mean = sum(one.reward or 0.0 for one in rollouts) / len(rollouts)
    weights = [
        min(math.exp(((one.reward or 0.0) - mean) / RECIPE.sft_temperature), RECIPE.sft_weight_max) for one in mine
    ]
    by_hand = -sum(weight * float(found.sum()) for weight, found in zip(weights, scored, strict=True)) / (3 * len(mine))
    assert result.summary["val_loss"] == pytest.approx(by_hand, rel=1e-4)
    assert result.summary["train_loss"] > 0


def test_whole_tasks_are_held_out_and_the_same_ones_every_time() -> None:
    chosen = choose_held_out(set(range(100)), share=0.1)
    assert len(chosen) == 10
    assert choose_held_out(chosen | set(range(40)), share=10 / len(chosen | set(range(40)))) == chosen
    assert len(choose_held_out({1, 2}, share=0.5)) == 1
    assert choose_held_out({1}, share=0.5) == set()


def test_an_answer_of_many_pairs_is_computed_once(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, [*make_pairs(), *make_pairs()], recipe=RECIPE)
    examples = read_examples(spec, "dpo", load_base(str(tiny_model())), held_out_share=0.25)
    sheet = gather(examples.learnt)
    assert (len(examples.learnt), len(sheet.answers)) == (12, 12)


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = train_well(tmp_path / "whole", make_pairs())
    spec = make_spec(tmp_path / "part", make_pairs(), recipe=RECIPE)
    stopped = path_from_uri(spec.output_uri)

    def stop(metrics: Any) -> None:
        if metrics["update"] == 5:
            (stopped / "pause").touch()

    assert run(spec, stop).error_type == "PausedError"
    resumed: TrainSpec = dataclasses.replace(
        spec,
        attempt=1,
        output_uri=(tmp_path / "rest").as_uri(),
        resume_uri=(stopped / "checkpoint").as_uri(),
    )
    (tmp_path / "rest").mkdir()
    result = run(resumed, lambda _: None)
    assert result.ok, result.error_message
    first, second = (path_from_uri(one.adapter_uri) / "adapter_model.safetensors" for one in (whole, result))
    assert first.read_bytes() == second.read_bytes()
