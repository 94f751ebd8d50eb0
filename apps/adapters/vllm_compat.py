"""Check what vLLM would refuse of an adapter, before it is asked, from the files alone and without torch."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apps.adapters.errors import AdapterNotServableError
from apps.adapters.weights import CONFIG, WEIGHTS, read_header
from apps.inference.lora_routes import VLLM_RANKS

_PREFIX = "base_model.model."
_HALVES = (".lora_A.weight", ".lora_B.weight")
_PLAIN_INITS = frozenset({"gaussian", "eva", "orthogonal", "mica", "lora_ga"})
_UNKNOWN = {
    "use_dora": "DoRA",
    "lora_bias": "biases of LoRA's own",
    "alora_invocation_tokens": "activated LoRA",
    "layer_replication": "layers said twice",
    "use_bdlora": "block-diagonal LoRA",
    "use_qalora": "QALoRA",
    "trainable_token_indices": "single tokens' embeddings",
}
_MAY_BE_SAVED = frozenset({"classifier", "score"})


def require_servable(directory: Path) -> None:
    """Refuse an adapter that vLLM cannot serve, with every reason.

    Source:
        `vllm/lora/peft_helper.py` and `vllm/config/lora.py` of 0.32. `rank_pattern`, `alpha_pattern` and rsLoRA are
        served. Whether the base has the modules is the server's to say, where the base's files are not ours to read.
    Raises:
        AdapterNotServableError: what is not served, and why.
        AdapterBrokenError: its files cannot be read.
    """
    config = _read_config(directory / CONFIG)
    reasons = [*_find_faults(config), *_find_odd_tensors(directory, config)]
    if reasons:
        raise AdapterNotServableError(f"vLLM cannot serve this adapter: {'; '.join(reasons)}")


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise AdapterNotServableError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise AdapterNotServableError(f"{path.name} must be a PEFT config of peft_type LORA")
    return config


def _find_faults(config: Mapping[str, Any]) -> Iterator[str]:
    rank = config.get("r")
    ranks = [rank, *(config.get("rank_pattern") or {}).values()]
    if any(isinstance(one, bool) or not isinstance(one, int) or one < 1 for one in ranks):
        yield f"a rank must be a whole number from 1, found {ranks}"
    elif (largest := max(ranks)) > VLLM_RANKS[-1]:
        yield f"its rank is {largest}, and {VLLM_RANKS[-1]} is the largest it can be started for"
    if (bias := config.get("bias", "none")) != "none":
        yield f"bias must be 'none', found {bias!r}"
    if saved := sorted(set(config.get("modules_to_save") or ()) - _MAY_BE_SAVED):
        yield f"it holds whole modules (modules_to_save: {', '.join(saved)}), which only a merged model can have"
    for name, words in _UNKNOWN.items():
        if config.get(name):
            yield f"{words} ({name}) is unknown to it"
    init = config.get("init_lora_weights", True)
    if isinstance(init, str) and init.lower() not in _PLAIN_INITS:
        yield f"its beginning (init_lora_weights: {init}) changed the base model's weights, which the server has not"


def _find_odd_tensors(directory: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Tensors that are no half of a LoRA, or of a module that the config does not name."""
    targets = config.get("target_modules")
    names = (
        [str(one) for one in targets] if isinstance(targets, list) else None
    )  # a text is a pattern: not ours to read
    odd = []
    for tensor in read_header(directory / WEIGHTS):
        module = next((tensor.removesuffix(half) for half in _HALVES if tensor.endswith(half)), "")
        is_named = names is None or any(module == one or module.endswith(f".{one}") for one in names)
        if not module.startswith(_PREFIX) or not is_named:
            odd.append(tensor)
    if odd:
        more = f" and {len(odd) - 3} more" if len(odd) > 3 else ""
        yield f"{', '.join(sorted(odd)[:3])}{more} in {WEIGHTS}: wanted LoRA halves of {names or targets} alone"
