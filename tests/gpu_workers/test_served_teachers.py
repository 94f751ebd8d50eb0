"""A teacher asked by address: the local one's numbers from a real engine, and every way it can fail, in words."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.micro_batches import score_frozen
from gpu_workers.backends.served_teachers import open_teacher
from gpu_workers.runner import run
from tentalis.core.contracts import TrainResult
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.desk_rollouts import make_desk_rollouts
from tests.gpu_workers.learning.training_factory import make_spec
from tests.local_server import LocalHandler, LocalServer

pytestmark = pytest.mark.torch
RECIPE = Recipe(lora_rank=4, lora_alpha=8.0, w_rl=0.3, w_opd=0.7, teacher="served:desk")
CLOSE_NATS = 1e-4


def train(directory: Path, recipe: Recipe, **options: Any) -> TrainResult:
    spec = make_spec(directory, make_desk_rollouts(), recipe=recipe, base_model="desk", options=options)
    return run(spec, lambda _: None)


def test_a_served_teacher_says_what_the_local_one_says(desk_engine: str) -> None:
    base, rollouts = load_base("desk"), make_desk_rollouts()
    items = [(base.read_prompt(rollout.hinted_messages or []), rollout) for rollout in rollouts]
    ours = score_frozen(base, items)
    with open_teacher("served:desk", {"teacher_url": f"{desk_engine}/v1"}) as teacher:
        assert teacher.context_length == base.context_length - 1
        teacher.require_same_tokens(range(4, 500), base.codec)
        theirs = teacher.score(items)
    assert [len(row) for row in theirs] == [len(rollout.token_ids) for rollout in rollouts]
    gap = max(abs(a - b) for mine, yours in zip(ours, theirs, strict=True) for a, b in zip(mine, yours, strict=True))
    print(f"largest gap between the local teacher and the served one: {gap:.2e} nats")  # noqa: T201
    assert gap < CLOSE_NATS
    assert max(abs(a - b) for a, b in zip(ours[0], rollouts[0].logprobs, strict=True)) > 0.01, "the hint says something"


def test_a_run_under_a_served_teacher_is_the_run_under_the_base(desk_engine: str, tmp_path: Path) -> None:
    here = train(tmp_path / "here", replace(RECIPE, teacher="base"))
    there = train(tmp_path / "there", RECIPE, teacher_url=desk_engine)
    weights = []
    for result in (here, there):
        assert result.ok, f"{result.error_type}: {result.error_message}"
        weights.append(load_file(path_from_uri(result.adapter_uri) / "adapter_model.safetensors"))
    assert here.summary["rollouts_hinted"] == there.summary["rollouts_hinted"] == 16
    for mine, yours in zip(here.metrics, there.metrics, strict=True):
        assert yours["loss_opd"] == pytest.approx(mine["loss_opd"], abs=CLOSE_NATS)
    moved = max(float(tensor.abs().max()) for name, tensor in weights[0].items() if "lora_B" in name)
    assert max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0]) < 0.01 * moved


def test_an_answer_that_fills_the_teachers_context_is_scored_up_to_its_last_token_or_counted(
    desk_engine: str, tmp_path: Path
) -> None:
    """A server wants to add a token of its own: one answer less is scored, and no run fails for it."""
    base, (rollout, *others) = load_base("desk"), make_desk_rollouts()
    room = base.context_length - len(base.read_prompt(rollout.hinted_messages or []))
    found = []
    for size in (room - 1, room):
        tokens = [rollout.token_ids[0]] * size
        long = replace(rollout, token_ids=tokens, logprobs=[-1.0] * size, sampled=[True] * size, steps=())
        spec = make_spec(
            tmp_path / str(size), [long, *others], recipe=RECIPE, base_model="desk",
            options={"teacher_url": desk_engine},
            policy_version=1,  # one after theirs: what nobody sampled has no log-probs to be held against
        )  # fmt: skip
        result = run(spec, lambda _: None)
        assert result.ok, result.error_message
        found.append((result.summary["rollouts_hinted"], result.summary.get("refused_hint_longer_than_the_context")))
    assert found == [(16, None), (15, 1)]


@pytest.mark.parametrize(
    ("recipe", "wants_url", "words"),
    [
        (RECIPE, False, "options.teacher_url names none; TENTALIS_TEACHER_URL sets it"),
        (replace(RECIPE, teacher="served:large"), True, "the teacher large at http://127.0.0.1:"),
        (replace(RECIPE, opd_mode="top_k"), True, "recipe.opd_mode must be logprobs with a served teacher"),
    ],
)
def test_a_teacher_that_cannot_be_asked_fails_the_run_in_words(
    desk_engine: str, tmp_path: Path, recipe: Recipe, wants_url: bool, words: str
) -> None:
    result = train(tmp_path, recipe, **({"teacher_url": desk_engine} if wants_url else {}))
    assert (result.ok, result.error_type) == (False, "TeacherError")
    assert words in result.error_message
    assert result.adapter_uri == ""


Answer = Callable[[str, dict[str, Any]], tuple[int, Any]]


@contextmanager
def serve_answers(answer: Answer) -> Iterator[str]:
    """A model server that answers as it is told; its address."""

    class Handler(LocalHandler):
        def do_POST(self) -> None:
            body = json.loads(self.read())
            status, value = answer(self.path, body | {"key": self.headers.get("Authorization")})
            self.answer(status, json.dumps(value).encode())

    with LocalServer(Handler) as server:
        yield server.url


def answer_well(path: str, body: dict[str, Any]) -> tuple[int, Any]:
    """As a vLLM server with the desk's tokenizer would, all tokens equally likely."""
    base = load_base("desk")
    if path == "/tokenize":
        return 200, {"tokens": [4], "max_model_len": base.context_length}
    if path == "/detokenize":
        return 200, {"prompt": base.codec.decode(body["tokens"], skip_special=False)}
    rows = body["prompt"]
    choices = [
        {
            "index": index,
            "prompt_token_ids": row,
            "prompt_logprobs": [None, *({str(token): {"logprob": -1.0}} for token in row[1:])],
        }
        for index, row in enumerate(rows)
    ]
    return 200, {"model": body["model"], "choices": choices[::-1]}


def spoil(field: str, change: Callable[[Any], Any]) -> Answer:
    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        status, value = answer_well(path, body)
        if path == "/v1/completions":
            value["choices"][0][field] = change(value["choices"][0][field])
        return status, value

    return answer


def other_text(path: str, body: dict[str, Any]) -> tuple[int, Any]:
    return (200, {"prompt": "another tokenizer's words"}) if path == "/detokenize" else answer_well(path, body)


def other_model(path: str, body: dict[str, Any]) -> tuple[int, Any]:
    status, value = answer_well(path, body)
    return status, value | {"model": "desk@v7"} if path == "/v1/completions" else value


def out_of_memory(path: str, body: dict[str, Any]) -> tuple[int, Any]:
    return (500, {"error": "out of memory"}) if path == "/v1/completions" else answer_well(path, body)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (other_text, "must have the base's tokenizer"),
        (other_model, "wanted 16 answers, found 16 of desk@v7"),
        (out_of_memory, "refuses /v1/completions: HTTP 500"),
        (spoil("prompt_token_ids", lambda ids: [*ids[:-1], ids[-1] + 1]), "read other tokens than the"),
        (spoil("prompt_token_ids", lambda ids: None), "read other tokens than the"),
        (spoil("prompt_logprobs", lambda found: found[:-1]), "read other tokens than the"),
        (spoil("prompt_logprobs", lambda found: [*found[:-1], {"0": {"logprob": -1.0}}]), "a log-prob of each token"),
        (spoil("prompt_logprobs", lambda found: [*found[:-1], None]), "a log-prob of each token"),
    ],
)
def test_what_is_not_about_the_very_tokens_fails_the_run(tmp_path: Path, answer: Answer, words: str) -> None:
    with serve_answers(answer) as url:
        result = train(tmp_path, RECIPE, teacher_url=url)
    assert (result.ok, result.error_type, result.adapter_uri) == (False, "TeacherError", "")
    assert words in result.error_message


def test_answers_in_any_order_are_put_in_order_and_the_key_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENTALIS_TEACHER_API_KEY", "only-the-box-knows-it")
    keys = set()

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        keys.add(body["key"])
        return answer_well(path, body)

    with serve_answers(answer) as url:
        result = train(tmp_path, RECIPE, teacher_url=url)
    assert result.ok, result.error_message
    assert keys == {"Bearer only-the-box-knows-it"}
    assert b"only-the-box" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_nobody_at_the_address_is_said(tmp_path: Path) -> None:
    result = train(tmp_path, RECIPE, teacher_url="http://127.0.0.1:9")
    assert (result.ok, result.error_type) == (False, "TeacherError")
    assert result.error_message.startswith("the teacher desk at http://127.0.0.1:9 cannot be asked: ConnectError")
