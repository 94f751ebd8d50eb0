"""The committed base model is what its metrics say, and the command that makes one works."""

import json
from pathlib import Path

import pytest
import torch

from gpu_workers.base_making import METRICS_FILE
from gpu_workers.desk import base_directory
from gpu_workers.desk.attempts import MOST_TOKENS, attempt_tickets, judge_attempt
from gpu_workers.desk.build import PANEL_SEED, PANEL_SIZE, build_base, measure_base
from gpu_workers.desk.corpus import RIVALS
from gpu_workers.desk.tokenizer import SPECIAL_TOKENS, TAGS
from gpu_workers.desk.warm_start import WarmStartRecipe
from gpu_workers.engine import Engine
from tentalis.core.desk import Ticket, make_tickets, render_parts, solve

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.open("desk")


def test_the_recorded_metrics_hold() -> None:
    recorded = json.loads((base_directory() / METRICS_FILE).read_text())
    assert recorded["panel"] == {"tickets": PANEL_SIZE, "seed": PANEL_SEED, "sampling_seed": 1}
    measured = measure_base(base_directory())
    for name, value in recorded["accuracy"].items():
        assert measured[name] == pytest.approx(value, abs=0.01), name
    assert 0.20 <= measured["sampled"] <= 0.35
    assert measured["greedy"] < measured["sampled"]
    assert measured["hinted_sampled"] >= 0.75
    assert measured["hinted_greedy"] >= 0.89


def test_the_checkpoint_is_small_safetensors_in_half_precision() -> None:
    files = {file.name: file.stat().st_size for file in base_directory().iterdir()}
    assert sum(files.values()) <= 500_000
    assert {"model.safetensors", "tokenizer.json", "config.json", "chat_template.jinja"} <= files.keys()
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in files)
    config = json.loads((base_directory() / "config.json").read_text())
    assert (config["model_type"], config["dtype"]) == ("qwen2", "float16")


def test_tags_survive_decoding_without_special_tokens(engine: Engine) -> None:
    text = "".join(TAGS)
    ids = engine.codec.encode([text + "".join(SPECIAL_TOKENS)], add_special_tokens=False)[0]
    assert len(ids) == len(TAGS) + len(SPECIAL_TOKENS)
    assert engine.codec.decode(ids, skip_special=True) == text
    assert engine.codec.decode(ids, skip_special=False) == text + "".join(SPECIAL_TOKENS)


def option_probability(engine: Engine, ticket: Ticket, option: str) -> float:
    """The base's probability of an option's word where the option is chosen, after a right first step."""
    kind = "call" if ticket.family == "stock" else "step"
    before = [] if kind == "call" else [solve(ticket, option)[0]]
    prompt = engine.codec.render_chat([{"role": "user", "content": ticket.text}]) + render_parts(before) + f"<{kind}>"
    prompt_ids, word_ids = engine.codec.encode([prompt, f" {option}"], add_special_tokens=False)
    (logprobs,) = engine.score([prompt_ids], [word_ids[:1]])
    return float(torch.tensor(logprobs).exp())


def test_a_rival_stays_above_the_house_option(engine: Engine) -> None:
    tickets = make_tickets(5, 120, held_out=True)
    house = [option_probability(engine, ticket, ticket.house_option) for ticket in tickets]
    rival = [option_probability(engine, ticket, RIVALS[ticket.family, ticket.context]) for ticket in tickets]
    assert 0.30 < sum(house) / len(house) < 0.40 < sum(rival) / len(rival) < 0.48


def test_an_attempt_injects_the_tools_answer_and_marks_it_as_not_sampled(engine: Engine) -> None:
    tickets = make_tickets(2, 12, held_out=False, families=["stock"])
    attempts = [attempt for group in attempt_tickets(engine, tickets, n=2, seed=3) for attempt in group]
    assert len(attempts) == 24
    result, end = (engine.codec.encode([tag], add_special_tokens=False)[0][0] for tag in ("<result>", "</result>"))
    for attempt in attempts:
        assert len(attempt.token_ids) == len(attempt.logprobs) == len(attempt.sampled) <= MOST_TOKENS
        inside = False
        for token, was_sampled, logprob in zip(attempt.token_ids, attempt.sampled, attempt.logprobs, strict=True):
            inside = inside or token == result
            assert was_sampled != inside
            assert was_sampled or logprob == 0.0
            inside = inside and token != end
        assert not all(attempt.sampled)
        (scored,) = engine.score([attempt.prompt_ids], [attempt.token_ids])
        for score, was_sampled, logprob in zip(scored, attempt.sampled, attempt.logprobs, strict=True):
            assert not was_sampled or abs(score - logprob) < 1e-4
    assert any(judge_attempt(engine, attempt).outcome for attempt in attempts)


def test_a_base_is_built_whole_the_same_each_time_and_never_over_another(tmp_path: Path) -> None:
    recipe = WarmStartRecipe(updates=3, batch_size=4)
    metrics = build_base(tmp_path / "one", recipe)
    build_base(tmp_path / "two", recipe)
    one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert metrics["recipe"]["updates"] == 3
    assert json.loads((tmp_path / "one" / METRICS_FILE).read_text()) == metrics
    with pytest.raises(FileExistsError, match="exists already"):
        build_base(tmp_path / "one", recipe)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
