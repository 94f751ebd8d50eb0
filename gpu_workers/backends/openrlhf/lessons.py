"""What the batch holds, as OpenRLHF reads it: one JSON line a task, its label a JSON object of what a reward needs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_workers.artifacts import write_file
from gpu_workers.backends.base_models import locate_base
from gpu_workers.backends.errors import BaseModelError, NothingToLearnError
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.text import TextCodec
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError
from tentalis.core.learning.recipes import Recipe


def write_prompts(
    path: Path,
    rollouts: Sequence[RolloutRecord],
    *,
    base_model: str,
    recipe: Recipe,
    options: ClusterOptions,
) -> int:
    """Write the tasks of a batch as prompts; how many there are.

    A label holds `task`, `prompt_token_ids` exactly as the engine saw them, `stop_token_ids`, and where the recipe
    distils and the task has a hint, `hinted_prompt_token_ids` and `weight`, the trust in who gave it.

    Raises:
        NothingToLearnError: no task of the batch leaves room for an answer.
        BaseModelError: the tokenizer or the chat template cannot be used.
    """
    codec = load_codec(base_model)
    stop_ids = [_encode_stop(codec, text) for text in options.stops]
    by_task: dict[int, list[RolloutRecord]] = {}
    for rollout in rollouts:
        by_task.setdefault(rollout.group_id, []).append(rollout)
    lines = []
    for task, tries in sorted(by_task.items()):
        first = tries[0]
        if len(first.prompt_token_ids) + options.max_new_tokens > options.max_tokens:
            continue
        label: dict[str, Any] = {
            "task": task,
            "prompt_token_ids": list(first.prompt_token_ids),
            "stop_token_ids": stop_ids,
        }
        hinted = next((one for one in tries if one.hinted_messages), None) if recipe.uses_teacher else None
        if hinted is not None and hinted.hinted_messages:
            label["hinted_prompt_token_ids"] = _encode_chat(codec, hinted.hinted_messages)
            label["weight"] = hinted.weight
        prompt = codec.decode(first.prompt_token_ids, skip_special=False)
        lines.append(json.dumps({"prompt": prompt, "label": json.dumps(label)}))
    if not lines:
        raise NothingToLearnError(
            f"none of {len(by_task)} tasks leaves room for an answer of {options.max_new_tokens} tokens within "
            f"{options.max_tokens} (options.max_tokens)"
        )
    write_file(path, "".join(line + "\n" for line in lines).encode())
    return len(lines)


def _encode_chat(codec: TextCodec, messages: Sequence[Mapping[str, str]]) -> list[int]:
    try:
        return list(codec.encode([codec.render_chat(messages)], add_special_tokens=False)[0])
    except EngineError as error:
        raise BaseModelError(f"the chat template refuses a hinted conversation: {error}") from error


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
