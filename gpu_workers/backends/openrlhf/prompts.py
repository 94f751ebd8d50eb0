"""What the batch holds, as OpenRLHF reads it: one JSON line a task, its label a JSON object of what a reward needs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpu_workers.artifacts import write_file
from gpu_workers.backends.base_models import locate_base
from gpu_workers.backends.errors import BaseModelError, NothingToLearnError
from gpu_workers.backends.held_out import find_tasks
from gpu_workers.backends.replaying import Prompt, Replayer, ReplayError
from gpu_workers.backends.training_example import Refused, name_record
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.text import TextCodec
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError
from tentalis.core.learning.recipes import Recipe


class Prompts(NamedTuple):
    """What was written.

    Args:
        tasks: how many; hints: how many of them have one that counts; refused: why others have none.
    """

    tasks: int
    hints: int
    refused: Refused


class _Hinted(NamedTuple):
    token_ids: Prompt
    weight: float


def write_prompts(
    path: Path,
    rollouts: Sequence[RolloutRecord],
    *,
    base_model: str,
    recipe: Recipe,
    options: ClusterOptions,
) -> Prompts:
    """Write the tasks of a batch as prompts.

    A task's prompt is that of its first record: of an attempt in several sequences, how it began. A hint counts for a
    task where the prompt that was served is rendered again token for token. A label holds `task`, `prompt_token_ids`
    exactly as the engine saw them, `stop_token_ids`, and where the recipe distils and a hint counts,
    `hinted_prompt_token_ids` and `weight`, the trust in who gave it.

    Raises:
        NothingToLearnError: no task of the batch leaves room for an answer.
        BaseModelError: the tokenizer cannot be used.
    """
    codec = load_codec(base_model)
    stop_ids = [_encode_stop(codec, text) for text in options.stops]
    by_task: dict[int, list[RolloutRecord]] = {}
    tasks = find_tasks(rollouts)
    for rollout in rollouts:
        by_task.setdefault(tasks[rollout.rollout_id], []).append(rollout)
    lines, hints, refused = [], 0, Refused()
    replayer = Replayer(codec, base_model)
    for task, tries in sorted(by_task.items()):
        first = tries[0]
        if len(first.prompt_token_ids) + options.max_new_tokens > options.max_tokens:
            continue
        label: dict[str, Any] = {
            "task": task,
            "prompt_token_ids": list(first.prompt_token_ids),
            "stop_token_ids": stop_ids,
        }
        if recipe.uses_teacher and (hinted := _read_hinted(tries, replayer, refused)) is not None:
            hints += 1
            label["hinted_prompt_token_ids"], label["weight"] = list(hinted.token_ids), hinted.weight
        prompt = codec.decode(first.prompt_token_ids, skip_special=False)
        lines.append(json.dumps({"prompt": prompt, "label": json.dumps(label)}))
    if not lines:
        raise NothingToLearnError(
            f"none of {len(by_task)} tasks leaves room for an answer of {options.max_new_tokens} tokens within "
            f"{options.max_tokens} (options.max_tokens)"
        )
    write_file(path, "".join(line + "\n" for line in lines).encode())
    return Prompts(len(lines), hints, refused)


def _read_hinted(tries: Sequence[RolloutRecord], replayer: Replayer, refused: Refused) -> _Hinted | None:
    """The task's own prompt with a hint in it, of the first try at that very prompt whose hint has a place."""
    asked = tuple(tries[0].prompt_token_ids)
    hinted = next((one for one in tries if one.hinted_messages and tuple(one.prompt_token_ids) == asked), None)
    if hinted is None or not hinted.hinted_messages:
        for one in tries:
            if one.hint_fault:
                refused.note("hint_has_no_place", one.hint_fault, record=name_record(one))
                break
        return None
    try:
        return _Hinted(replayer.hint(hinted, hinted.hinted_messages), hinted.trust_in_hint)
    except ReplayError as error:
        refused.note(f"hint_{error.reason}", str(error), record=name_record(hinted))
        return None


def _encode_stop(codec: TextCodec, text: str) -> int:
    ids = codec.encode([text], add_special_tokens=False)[0]
    if len(ids) != 1:
        raise ClusterOptionsError(f"options.stops must be one token each, found {text!r} of {len(ids)}")
    return ids[0]


def load_codec(base_model: str) -> TextCodec:
    """A base model's tokenizer. Raises BaseModelError where it cannot be read."""
    try:
        return TextCodec.from_directory(locate_base(base_model))
    except (OSError, ValueError, EngineError) as error:
        raise BaseModelError(f"the tokenizer of {base_model} cannot be read: {error}") from error
