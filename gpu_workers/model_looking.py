"""What a model directory holds, and how fast this machine writes with it: read as the engine does, and tried out."""

import math
import os
import time
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer

from gpu_workers.engine import Engine
from gpu_workers.engine.bases import count_bytes
from gpu_workers.engine.checkpoint import plain_shape, read_config, read_heads, weight_files
from gpu_workers.engine.errors import EngineError, InvalidRequestError, ModelUnreadableError
from gpu_workers.engine.jobs import SamplingOptions
from gpu_workers.engine.text import TextCodec
from tentalis.core.model_facts import ModelFacts

AT_ONCE = 8
TRIED_TOKENS = 24
FREE_SHARE = 0.7
"""Of the free memory that weights may take: keys, values and logits take some too."""
COPIED_BYTES = 2**28
"""Read from memory to see how fast that goes."""
TEXT = "A reply to a customer says what happens next, and by when."
TURNS = ({"role": "user", "content": TEXT},)


def look_at(directory: Path, *, most_bytes: int | None = None) -> ModelFacts:
    """Read a model directory and have it write.

    Args:
        most_bytes: that its weights may take in memory; where they want more, how fast it writes is computed. None:
            most of what is free.
    Raises:
        EngineError: it cannot be served, in the engine's words.
    """
    config = read_config(directory)
    codec = TextCodec.from_directory(directory)
    kinds: Counter[str] = Counter()
    for one in read_heads(weight_files(directory)).values():
        kinds[one.dtype] += one.numbers
    memory_bytes = count_bytes(directory)
    text = config.get("text_config")
    inner = text if isinstance(text, dict) else config
    context = inner.get("max_position_embeddings")
    _require_known(directory, codec, inner.get("vocab_size"))
    is_measured = memory_bytes <= (count_free() * FREE_SHARE if most_bytes is None else most_bytes)
    rate = _measure_rate(directory) if is_measured else AT_ONCE * _measure_bandwidth() / memory_bytes
    return ModelFacts(
        family=str(config["model_type"]),
        parameters=kinds.total(),
        context_tokens=context if isinstance(context, int) else None,
        dtype=kinds.most_common(1)[0][0],
        is_fast=plain_shape(config) is not None,
        memory_bytes=memory_bytes,
        tokens_per_s=round(rate, 1),
        is_measured=is_measured,
    )


def _require_known(directory: Path, codec: TextCodec, vocabulary: object) -> None:
    """See that the model knows what its tokenizer writes. Tokens that were added for nobody's text may lie beyond.

    Raises:
        EngineError: it does not, or its chat template cannot write a conversation.
    """
    if not isinstance(vocabulary, int):
        raise ModelUnreadableError(f"config.json names no vocab_size: found {vocabulary!r}")
    words = Tokenizer.from_file(str(directory / "tokenizer.json")).get_vocab_size(with_added_tokens=False)
    if words > vocabulary:
        raise ModelUnreadableError(f"the tokenizer writes {words:,} tokens, the model knows {vocabulary:,}")
    try:
        (written,) = codec.encode([codec.render_chat(TURNS)], add_special_tokens=False)
    except InvalidRequestError as error:
        if "no chat template" in str(error):
            return
        raise
    if beyond := [token for token in written if token >= vocabulary]:
        raise ModelUnreadableError(
            f"the chat template writes token {beyond[0]:,}, the model knows {vocabulary:,}: it is another model's"
        )


def count_free() -> int:
    """Bytes of memory that can be had without swapping; half of the machine's where the system does not say."""
    try:
        told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(told["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _measure_rate(directory: Path) -> float:
    """Tokens a second of `AT_ONCE` answers together, the prompt's reading among it."""
    try:
        engine = Engine.open(str(directory))
        prompts = engine.codec.encode([TEXT])
        options = SamplingOptions(seed=1, ignores_eos=True)
        engine.generate(prompts, n=AT_ONCE, options=options, max_tokens=2)
        started = time.perf_counter()
        answers = engine.generate(prompts, n=AT_ONCE, options=options, max_tokens=TRIED_TOKENS)[0]
    except EngineError:
        raise
    except Exception as error:  # torch and the readers raise anything for weights that do not fit their config
        raise ModelUnreadableError(f"it does not write: {type(error).__name__}: {error}") from error
    if not all(math.isfinite(value) for one in answers for value in one.logprobs):
        raise ModelUnreadableError("what it writes has log-probs that are no numbers: its weights are broken")
    return sum(len(one.token_ids) for one in answers) / (time.perf_counter() - started)


def _measure_bandwidth() -> float:
    """Bytes of memory that are read in a second."""
    values = torch.ones(COPIED_BYTES // 4)
    values.sum()
    started = time.perf_counter()
    values.sum()
    return COPIED_BYTES / (time.perf_counter() - started)
