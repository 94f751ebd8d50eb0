"""The gates G1 to G13: what passes, what does not, and what could not be asked."""

import math

import pytest

from tentalis.core.learning.preflight_rules import (
    GateAnswer,
    ask_base,
    ask_environment,
    ask_finishing,
    ask_finite,
    ask_leak,
    ask_learning_rate,
    ask_losses,
    ask_quantised,
    ask_replay,
    ask_skills,
    ask_solved,
    ask_split,
    ask_worlds,
    find_refusal,
)

CASES: list[tuple[GateAnswer, str, bool | None, str]] = [
    (ask_solved("grpo", 0), "G1", True, "imitates nothing"),
    (ask_solved("dpo", 99), "G1", False, "99 distinct tasks are solved, dpo wants 100"),
    (ask_solved("sft", 100), "G1", True, "100 distinct tasks"),
    (ask_replay(4, 4), "G2", True, "4 of 4 prompts"),
    (ask_replay(4, 3), "G2", False, "3 of 4 prompts"),
    (ask_replay(0, 0), "G2", False, "0 of 0"),
    (ask_replay(0, 0, why_not="the model server tells no tokens"), "G2", None, "not asked"),
    (ask_split(0), "G3", True, "no task is split"),
    (ask_split(2), "G3", False, "2 tasks are in another batch too"),
    (ask_losses({"val_loss": 0.6, "train_loss": 0.1}), "G4", False, "6.0 times, 5 are allowed"),
    (ask_losses({"val_loss": 0.4, "train_loss": 0.1}), "G4", True, "4.0 times"),
    (ask_losses({}), "G4", None, "told no validation loss"),
    (ask_finishing(20.0, 9.0), "G5", False, "answers of 9.0 tokens where 20.0 were: 45%, 50% are wanted"),
    (ask_finishing(20.0, 19.0), "G5", True, "95%"),
    (ask_finishing(None, 19.0), "G5", None, "not asked"),
    (ask_environment({}, is_stateless=True), "G6", True, "keep nothing"),
    (ask_environment({"1": ["a", "a"], "2": ["b"]}, is_stateless=False), "G6", True, "the same place"),
    (ask_environment({"1": ["a", "b"]}, is_stateless=False), "G6", False, "started from different places"),
    (ask_environment({"1": ["a", ""]}, is_stateless=False), "G6", False, "do not say"),
    (ask_finite([{"loss": 0.1, "grad_norm": 2.0}]), "G7", True, "the largest norm is 2"),
    (ask_finite([{"loss": 0.1}, {"loss": math.nan}]), "G7", False, "loss of update 2 is nan"),
    (ask_finite([{"grad_norm": math.inf}]), "G7", False, "grad_norm of update 1 is inf"),
    (ask_finite([{"grad_norm": 5_000.0}]), "G7", False, "1000 is allowed"),
    (ask_finite([]), "G7", None, "told no update"),
    (ask_leak(0, 0, 96), "G8", True, "none of 96 attempts"),
    (ask_leak(3, 0, 96), "G8", False, "3 of 96 attempts are on held-out tasks"),
    (ask_leak(0, 5, 96), "G8", False, "0 of 96 attempts are on held-out tasks, 5 hold one that is measured on"),
    (ask_leak(0, 1, 96, tasks=[7]), "G8", False, "1 hold one that is measured on (task 7)"),
    (ask_leak(0, 7, 96, tasks=range(1, 8)), "G8", False, "(tasks 1, 2, 3, 4, 5 and 2 more)"),
    (ask_skills(-0.01, 0.02), "G9", True, "−1.0 points on what the base model could do"),
    (ask_skills(-0.12, -0.05), "G9", False, "at best −5.0"),
    (ask_skills(None, None), "G9", None, "nobody measured what"),
    (ask_quantised(None), "G10", True, "not quantised"),
    (ask_quantised({"quantization_config": {"quant_method": "awq"}}), "G10", False, "quantised (awq)"),
    (ask_base("", "the built-in model"), "G11", True, "the built-in model"),
    (ask_base("adder has no base weights", ""), "G11", False, "no base weights"),
    (ask_learning_rate(4e-3, 136_000), "G12", True, "takes large steps"),
    (ask_learning_rate(1e-5, 7_000_000_000), "G12", True, "7,000,000,000 parameters"),
    (ask_learning_rate(4e-3, 7_000_000_000), "G12", False, "at most 0.001"),
    (ask_learning_rate(4e-3, None), "G12", False, "of unknown size"),
    (ask_worlds([], ["desk passed"]), "G13", True, "desk passed"),
    (ask_worlds(["moon was never examined"], ["moon was never examined"]), "G13", False, "never examined"),
    (ask_worlds([], []), "G13", True, "it has no attempts"),
]


@pytest.mark.parametrize(("answer", "gate", "passed", "words"), CASES, ids=lambda value: str(value)[:40])
def test_a_gate_answers_in_words(answer: GateAnswer, gate: str, passed: bool | None, words: str) -> None:
    assert (answer.gate, answer.passed) == (gate, passed)
    assert words in answer.words
    assert answer.to_json()["gate"] == gate


def test_what_does_not_pass_refuses_and_what_was_not_asked_does_not() -> None:
    answers = [ask_leak(3, 0, 96), ask_losses({}), ask_split(0), ask_split(1)]
    assert find_refusal(answers) == (
        "G8: 3 of 96 attempts are on held-out tasks, 0 hold one that is measured on; "
        "G3: 1 tasks are in another batch too"
    )
    assert find_refusal(answers[1:3]) == ""
