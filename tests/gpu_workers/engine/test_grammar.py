"""Answers that keep to a JSON schema, whatever model writes them."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
import torch

from gpu_workers.engine import Engine, SamplingOptions
from gpu_workers.engine.errors import EngineError, InvalidRequestError
from gpu_workers.engine.grammar import write_grammar
from gpu_workers.engine.jobs import Job
from gpu_workers.engine.protocol import read_chat
from gpu_workers.engine.sampling import Knobs, sample_tokens

pytestmark = pytest.mark.torch

PROMPT = [3, 40, 50, 60, 1, 4]
ORDER = {
    "type": "object",
    "properties": {"size": {"enum": ["S", "M"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["size", "count"],
    "additionalProperties": False,
}


def draw_schema(source: random.Random, depth: int) -> dict[str, Any]:
    """A random schema whose values are short."""
    kinds = ["enum", "integer", "boolean", "string", "null", *(["object", "array", "anyOf"] if depth else [])]
    match source.choice(kinds):
        case "enum":
            return {"enum": source.sample(["a", "b c", 1, 2.5, None, True, "\u00e4"], 3)}
        case "integer":
            return {"type": "integer", "minimum": source.randint(-5, 0), "maximum": source.randint(1, 500)}
        case "string":
            return {"type": "string", "maxLength": source.randint(1, 6)}
        case "array":
            return {"type": "array", "items": draw_schema(source, depth - 1), "minItems": 1, "maxItems": 2}
        case "anyOf":
            return {"anyOf": [draw_schema(source, depth - 1) for _ in range(2)]}
        case "object":
            fields = {name: draw_schema(source, depth - 1) for name in source.sample("xyz", source.randint(1, 2))}
            return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
        case kind:
            return {"type": kind}


def drain(engine: Engine, jobs: list[Job]) -> None:
    for job in jobs:
        engine.submit(job)
    while engine.scheduler.has_work:
        engine.scheduler.step()


def test_every_answer_that_ends_keeps_to_its_schema(model_directory: Callable[[str], Path]) -> None:
    source = random.Random(4)
    schemas = [draw_schema(source, 2) for _ in range(200)]
    ended = 0
    for half, architecture in ((schemas[::2], "qwen2"), (schemas[1::2], "gemma3")):
        engine = Engine("tiny", model_directory(architecture))
        options = [
            SamplingOptions(max_tokens=60, seed=place, grammar=write_grammar(schema, param="schema"))
            for place, schema in enumerate(half)
        ]
        jobs = [Job(engine.base, [PROMPT], each) for each in options]
        drain(engine, jobs)
        for schema, job in zip(half, jobs, strict=True):
            (sample,) = job.finished_samples()
            if sample.finish_reason == "stop":
                ended += 1
                assert jsonschema_rs.is_valid(schema, json.loads(sample.text)), (schema, sample.text)
    assert ended >= 150


def test_rows_without_a_grammar_draw_what_they_draw_alone_and_logprobs_are_the_models(engine: Engine) -> None:
    free = SamplingOptions(max_tokens=12, seed=5)
    held = SamplingOptions(n=2, max_tokens=40, seed=5, grammar=write_grammar(ORDER, param="schema"))
    alone = engine.generate([PROMPT], options=free)[0][0]
    jobs = [Job(engine.base, [PROMPT], options) for options in (free, held)]
    drain(engine, jobs)
    assert jobs[0].finished_samples()[0].token_ids == alone.token_ids
    for sample in jobs[1].finished_samples():
        assert sample.finish_reason == "stop"
        assert set(json.loads(sample.text)) == {"size", "count"}
        own = engine.score([PROMPT], [sample.token_ids])[0]
        np.testing.assert_allclose(sample.logprobs, own, atol=1e-4)


def test_an_answer_is_drawn_out_of_what_its_grammar_leaves_in_proportion(engine: Engine) -> None:
    grammar = write_grammar({"enum": [1, 2]}, param="schema")
    samples = engine.generate([PROMPT], 500, options=SamplingOptions(max_tokens=3, seed=1, grammar=grammar))[0]
    ids = {engine.codec.decode([token]): token for token in {sample.token_ids[0] for sample in samples}}
    assert set(ids) == {"1", "2"}
    own = {text: float(np.exp(engine.score([PROMPT], [[token]])[0][0])) for text, token in ids.items()}
    share = sum(sample.text == "1" for sample in samples) / len(samples)
    wanted = own["1"] / (own["1"] + own["2"])
    assert abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / len(samples))


def test_a_large_vocabulary_draws_nothing_that_is_masked() -> None:
    logits = torch.full((1, 20_000), float("-inf"))
    logits[0, [7, 19_999]] = torch.tensor([0.0, 1.0])
    drawn = {
        int(sample_tokens(logits, torch.tensor([place / 50]), Knobs(None, None, None, None))[0]) for place in range(50)
    }
    assert drawn == {7, 19_999}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("json", "must be an object of type text"),
        ({"type": "xml"}, "must be an object of type text"),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, "with a schema that is an object"),
        ({"type": "json_schema", "json_schema": {"schema": {"not": {"type": "string"}}}}, "cannot be kept to"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "size"}}}, "Invalid type: size"),
    ],
)
def test_a_format_that_cannot_be_kept_to_is_refused(engine: Engine, wanted: object, words: str) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    with pytest.raises(InvalidRequestError, match=words):
        read_chat({**body, "response_format": wanted}, engine.models.find, engine.codec)


@pytest.mark.parametrize("wanted", [None, {"type": "text"}, {"type": "json_object"}])
def test_a_format_is_read(engine: Engine, wanted: object) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    asked = read_chat({**body, "response_format": wanted}, engine.models.find, engine.codec)
    assert bool(asked.options.grammar) == (wanted == {"type": "json_object"})


def test_a_format_that_the_model_cannot_keep_to_fails_its_own_request_only(
    model_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    endless = shutil.copytree(model_directory("qwen2"), tmp_path / "endless")
    for file in ("config.json", "generation_config.json"):
        (endless / file).write_text(json.dumps(json.loads((endless / file).read_text()) | {"eos_token_id": None}))
    engine = Engine("endless", endless)
    free = SamplingOptions(max_tokens=4, seed=5)
    held = SamplingOptions(max_tokens=4, seed=5, grammar=write_grammar(ORDER, param="schema"))
    jobs = [Job(engine.base, prompts, each) for prompts, each in (([PROMPT, PROMPT[1:]], held), ([PROMPT], free))]
    drain(engine, jobs)
    assert len(jobs[1].finished_samples()[0].token_ids) == 4
    with pytest.raises(EngineError, match="wants a model with an end token") as caught:
        jobs[0].finished_samples()
    assert caught.value.code == "grammar_failed"
    assert engine.scheduler.running_rows == engine.scheduler.waiting_prompts == 0
