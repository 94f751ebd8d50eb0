"""A served prompt is rendered again token by token, whatever was in it, and the hint is put into that."""

import contextlib
import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.replaying import Replayer, ReplayError
from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.engine.text import TextCodec
from gpu_workers.runner import run
from tentalis.core.contracts import RolloutRecord, TrainResult
from tentalis.core.hints import HintError, hinted_messages
from tests.gpu_workers.learning.training_factory import RECIPE, make_spec
from tests.gpu_workers.odd_conversations import make_odd_conversation
from tests.gpu_workers.templated import (
    CALL,
    CONVERSATIONS,
    FAMILIES,
    HINT,
    TOOLS,
    make_templated_model,
    make_templated_rollouts,
    serve_prompt,
)

pytestmark = pytest.mark.torch
BLOCK = f"---\nHint from the manager:\n{HINT}\n---"


def open_replayer(directory: Path) -> Replayer:
    return Replayer(TextCodec.from_directory(directory), directory.name)


def require_hint(replayer: Replayer, rollout: RolloutRecord) -> str:
    """The hinted prompt as text: what was served and the hint, and nothing else."""
    hinted = replayer.codec.decode(replayer.hint(rollout, rollout.hinted_messages or []), skip_special=False)
    served = replayer.codec.decode(rollout.prompt_token_ids, skip_special=False)
    assert BLOCK in hinted
    assert hinted.replace("\n\n" + BLOCK, "").replace("\n" + BLOCK, "").replace("\n", "") == served.replace("\n", "")
    return hinted


def make_one(directory: Path, messages: Any, prompt: Any, **fields: Any) -> RolloutRecord:
    (rollout,) = make_templated_rollouts(directory, messages, prompt, size=1, **fields)
    return rollout


@pytest.mark.parametrize(
    ("family", "kind"),
    [(family, kind) for family in FAMILIES for kind in CONVERSATIONS if family != "gemma" or "call" not in kind],
)
def test_the_template_of_each_family_replays_what_vllm_served(family: str, kind: str) -> None:
    directory, messages = make_templated_model(family), CONVERSATIONS[kind]
    tools = TOOLS if family != "gemma" and kind != "system" else None
    prompt = serve_prompt(directory, messages, tools=tools)
    rendering = {"tools": tools} if tools else {}
    require_hint(open_replayer(directory), make_one(directory, messages, prompt, rendering=rendering))


def test_the_arguments_of_a_template_are_part_of_the_prompt() -> None:
    directory, messages = make_templated_model("qwen3"), CONVERSATIONS["plain"]
    prompt = serve_prompt(directory, messages, enable_thinking=False)
    rollout = make_one(directory, messages, prompt, rendering={"chat_template_kwargs": {"enable_thinking": False}})
    assert require_hint(open_replayer(directory), rollout).endswith("<think>\n\n</think>\n\n")
    with pytest.raises(ReplayError, match=r"behind .* tokens its template writes '' where the server read '<think>"):
        open_replayer(directory).hint(dataclasses.replace(rollout, rendering={}), rollout.hinted_messages or [])


def test_two_conversations_that_differ_in_a_call_alone_are_two() -> None:
    replayer, before = open_replayer(make_templated_model("qwen2.5")), CONVERSATIONS["call without content"]
    other = {**CALL, "function": {"name": "look_up", "arguments": '{"item": "cup"}'}}
    after = [before[0], {"role": "assistant", "tool_calls": [other]}, before[2]]
    assert replayer.read(before, {}) != replayer.read(after, {})


@pytest.mark.parametrize(
    ("served_at", "day"),
    [
        ("2025-03-01T12:00:00+00:00", "01 Mar 2025"),
        ("2025-03-01T03:00:00+00:00", "28 Feb 2025"),  # a server west of Greenwich
        ("2025-03-01T20:00:00+00:00", "02 Mar 2025"),  # one east of it
    ],
)
def test_a_template_that_writes_the_date_replays_on_another_day(served_at: str, day: str) -> None:
    directory, messages = make_templated_model("llama3"), CONVERSATIONS["plain"]
    prompt = serve_prompt(directory, messages, day=day)
    rollout = make_one(directory, messages, prompt, rendering={"served_at": served_at})
    assert f"Today Date: {day}" in require_hint(open_replayer(directory), rollout)
    with pytest.raises(ReplayError, match="where the server read"):
        stale = dataclasses.replace(rollout, rendering={"served_at": "2025-04-01T12:00:00+00:00"})
        open_replayer(directory).hint(stale, rollout.hinted_messages or [])


def test_a_template_that_marks_what_the_assistant_wrote_is_read() -> None:
    template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}"
    codec = TextCodec.from_directory(make_templated_model("marked", template))
    assert codec.render_chat([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]) == "a;b;"


def test_a_template_that_is_none_is_named_with_its_line() -> None:
    directory = make_templated_model("broken", "{% for m in messages %}\n{% endif %}")
    with pytest.raises(ModelUnreadableError, match="chat template cannot be read: line 2"):
        TextCodec.from_directory(directory)


def train_hinted(tmp_path: Path, directory: Path, rollouts: list[RolloutRecord]) -> TrainResult:
    recipe = dataclasses.replace(RECIPE, minibatches=1)
    return run(make_spec(tmp_path, rollouts, recipe=recipe, base_model=str(directory)), lambda _: None)


@pytest.mark.parametrize("kind", ["call without content", "call with null"])
def test_a_hinted_rollout_that_calls_tools_trains_on_policy(tmp_path: Path, kind: str) -> None:
    directory, messages = make_templated_model("qwen2.5"), CONVERSATIONS[kind]
    prompt = serve_prompt(directory, messages, tools=TOOLS)
    result = train_hinted(
        tmp_path, directory, make_templated_rollouts(directory, messages, prompt, rendering={"tools": TOOLS})
    )
    assert result.ok, result.error_message
    assert result.summary["rollouts_hinted"] == result.summary["rollouts"] == 4
    assert result.summary["max_ratio"] == pytest.approx(1, abs=1e-4)
    assert result.metrics[0]["loss_opd"] != 0
    assert not result.notes


def test_a_hint_that_does_not_replay_is_told_in_words_and_the_run_goes_on(tmp_path: Path) -> None:
    directory, messages = make_templated_model("qwen2.5"), CONVERSATIONS["plain"]
    prompt = serve_prompt(directory, messages, tools=TOOLS)
    rollouts = make_templated_rollouts(directory, messages, prompt)
    rollouts[0] = dataclasses.replace(rollouts[0], hinted_messages=None, hint_fault="hint: wanted words, found none")
    result = train_hinted(tmp_path, directory, rollouts)
    assert result.ok, result.error_message
    assert result.summary["refused_hint_does_not_replay"] == 3
    assert result.summary["refused_hint_has_no_place"] == 1
    lost, parted = result.notes
    assert lost == "hint has no place: hint: wanted words, found none (first: rollout 0)"
    assert "where the server read" in parted
    assert parted.endswith("(first: rollout 1)")


def read_odd_ones(family: str, count: int, *, seed: int) -> int:
    """Read that many odd conversations with a hint; how many could be. None may raise anything of its own."""
    replayer, rng, read = open_replayer(make_templated_model(family)), random.Random(seed), 0
    for number in range(count):
        messages, rendering = make_odd_conversation(rng)
        try:
            hinted = hinted_messages(messages, HINT)
        except HintError:
            continue
        fields = json.loads(json.dumps({"messages": messages, "hinted_messages": hinted, "rendering": rendering}))
        try:
            prompt = replayer.read(messages, rendering)
        except ReplayError:
            prompt = (4, 5)
        rollout = RolloutRecord(
            rollout_id=number, group_id=number, adapter="", policy_version=0, prompt_token_ids=prompt, token_ids=[4],
            logprobs=[-1.0], sampled=[True], reward=1.0, **fields,
        )  # fmt: skip
        with contextlib.suppress(ReplayError):
            read += bool(replayer.hint(rollout, hinted))
    return read


@pytest.mark.parametrize("family", FAMILIES)
def test_no_odd_conversation_ends_a_run(family: str) -> None:
    assert read_odd_ones(family, 200, seed=1) > 4


def test_a_batch_of_odd_conversations_trains_with_what_can_be_read(tmp_path: Path) -> None:
    directory, rng = make_templated_model("qwen3"), random.Random(5)
    rollouts = make_templated_rollouts(
        directory, CONVERSATIONS["plain"], serve_prompt(directory, CONVERSATIONS["plain"])
    )
    for number in range(60):
        messages, rendering = make_odd_conversation(rng)
        odd: dict[str, Any] = {
            "rollout_id": 100 + number,
            "group_id": 100 + number,
            "messages": messages,
            "rendering": rendering,
        }
        try:
            odd["hinted_messages"] = hinted_messages(messages, HINT)
        except HintError as error:
            odd |= {"hinted_messages": None, "hint_fault": str(error)}
        rollouts.append(dataclasses.replace(rollouts[number % 4], **odd))
    result = train_hinted(tmp_path, directory, rollouts)
    assert result.ok, result.error_message
    assert result.summary["rollouts"] == 64
    assert result.summary["rollouts_hinted"] >= 4
    assert result.notes


def test_the_base_reads_what_the_engine_reads() -> None:
    base = load_base(str(make_templated_model("qwen2.5")))
    assert base.read_prompt(CONVERSATIONS["plain"]) == serve_prompt(base.directory, CONVERSATIONS["plain"])
