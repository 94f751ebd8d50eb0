"""What was read once is not read again: conversations, shared beginnings, and whose keys and values they are."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_workers.engine import Engine
from gpu_workers.engine.prefixes import BLOCK_TOKENS, PrefixStore, hash_blocks

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]

SHARED = [3 + (7 * place) % 500 for place in range(3 * BLOCK_TOKENS)]


def say(engine: Engine, prompts: list[list[int]], adapter: str | None = None) -> list[tuple[list[int], list[float]]]:
    """Each answer's tokens and log-probs."""
    groups = engine.generate(prompts, 2, seed=7, adapter=adapter, max_tokens=12, ignores_eos=True)
    return [(sample.token_ids, sample.logprobs.tolist()) for group in groups for sample in group]


def assert_same(found: list[tuple[list[int], list[float]]], wanted: list[tuple[list[int], list[float]]]) -> None:
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in wanted]
    np.testing.assert_allclose([own for _, own in found], [own for _, own in wanted], atol=1e-5)


@pytest.mark.parametrize("architecture", ["qwen2", "gemma3", "mistral", "smollm3"])
def test_a_conversation_reads_only_what_is_new_and_says_the_same(
    model_directory: Callable[[str], Path], architecture: str
) -> None:
    keeping = Engine("tiny", model_directory(architecture))
    forgetful = Engine("tiny", model_directory(architecture), prefix_bytes=0)
    said = SHARED[: BLOCK_TOKENS + 5]
    for turn in range(4):
        read = keeping.scheduler.tally.prompt_tokens
        answers = say(keeping, [said])
        assert_same(answers, say(forgetful, [said]))
        newly = keeping.scheduler.tally.prompt_tokens - read
        assert newly == len(said) if turn == 0 else newly <= BLOCK_TOKENS + 4, "the answer's own blocks are known too"
        said = [*said, *answers[0][0], 5 + turn, 9, 9]
    tally = keeping.scheduler.tally
    assert tally.prompt_tokens + tally.reused_tokens == forgetful.scheduler.tally.prompt_tokens
    assert forgetful.scheduler.tally.reused_tokens == 0


def test_what_several_prompts_of_one_request_begin_with_is_read_once(model_directory: Callable[[str], Path]) -> None:
    keeping = Engine("tiny", model_directory("gemma3"))
    prompts = [[*SHARED[:70], 40 + place, *range(50, 50 + 3 * place)] for place in range(4)]
    answers = say(keeping, prompts)
    assert keeping.scheduler.tally.reused_tokens == 3 * 2 * BLOCK_TOKENS
    assert_same(answers, say(Engine("tiny", model_directory("gemma3"), prefix_bytes=0), prompts))


def test_no_weights_go_on_from_what_others_read(
    model_directory: Callable[[str], Path], write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    keeping = Engine("tiny", model_directory("qwen2"))
    forgetful = Engine("tiny", model_directory("qwen2"), prefix_bytes=0)
    prompt = SHARED[:90]
    for seed, name in ((1, "a"), (2, "b"), (3, "a")):  # the last swaps other weights in under a name that was used
        folder = write_adapter(tmp_path / f"{name}{seed}", seed=seed)
        for engine in (keeping, forgetful):
            if name in engine.models.now():
                engine.unload_adapter(name)
            engine.load_adapter(name, folder)
        assert_same(say(keeping, [prompt], name), say(forgetful, [prompt], name))
        assert_same(say(keeping, [prompt]), say(forgetful, [prompt]))
    assert keeping.scheduler.tally.reused_tokens == 2 * 2 * BLOCK_TOKENS, "the base's own, asked again twice"


def test_tokens_that_are_scored_are_read_and_what_stands_before_them_is_known(engine: Engine) -> None:
    """An answer is scored behind its prompt: of that no logits are computed, and its blocks are known from before."""
    asked: list[int] = []
    project = engine.base.model.project
    engine.base.model.project = lambda hidden: asked.append(len(hidden)) or project(hidden)  # type: ignore
    wanted = engine.score([SHARED[:1]], [SHARED[1:]])[0]
    assert engine.scheduler.tally.reused_tokens == 0
    again = engine.score([SHARED[:1]], [SHARED[1:]])[0]
    np.testing.assert_array_equal(again, wanted)
    assert engine.scheduler.tally.reused_tokens == 0, "all states were wanted"
    asked.clear()
    found = engine.score([SHARED[:80]], [SHARED[80:]])[0]
    np.testing.assert_allclose(found, wanted[79:], atol=1e-5)
    assert engine.scheduler.tally.reused_tokens == 79 // BLOCK_TOKENS * BLOCK_TOKENS
    assert sum(asked) == len(SHARED) - 80
    assert [len(scores) for scores in engine.score([SHARED[:80], SHARED[:80]], [[], [7]])] == [0, 1]


def test_requests_run_where_there_is_room_for_no_block(model_directory: Callable[[str], Path]) -> None:
    tight = Engine("tiny", model_directory("qwen2"), prefix_bytes=1)
    prompts = [[*SHARED[:70], 40 + place] for place in range(3)]
    assert_same(say(tight, prompts), say(Engine("tiny", model_directory("qwen2"), prefix_bytes=0), prompts))
    assert tight.scheduler.tally.reused_tokens == 0


def test_the_store_releases_what_was_used_longest_ago_and_ends_before_beginnings() -> None:
    layer = torch.randn(3, 2, 4 * BLOCK_TOKENS, 8)
    size = layer[0, :, :BLOCK_TOKENS].nbytes
    store = PrefixStore(3 * size)
    tokens = list(range(2 * BLOCK_TOKENS + 1))
    first, second = (hash_blocks(who, tokens) for who in (b"one", b"two"))
    store.keep(first, [layer], 0)
    found = store.find(first)
    assert found is not None
    assert torch.equal(found, layer[:1, :, : 2 * BLOCK_TOKENS])
    store.keep(second, [layer], 1)
    assert store.size_bytes == 3 * size
    assert [store.count(names) for names in (first, second)] == [BLOCK_TOKENS, 2 * BLOCK_TOKENS]
    store.find(first)  # used now: the end of the second is the oldest
    store.keep(hash_blocks(b"three", tokens[: BLOCK_TOKENS + 1]), [layer], 2)
    assert [store.count(names) for names in (first, second)] == [BLOCK_TOKENS, BLOCK_TOKENS]


def test_a_block_is_named_by_all_that_stands_before_it_and_the_last_token_is_in_none() -> None:
    tokens = list(range(3 * BLOCK_TOKENS))
    names = hash_blocks(b"weights", tokens)
    assert len(names) == 2
    assert hash_blocks(b"weights", [*tokens, 1])[:2] == names
    assert hash_blocks(b"others", tokens)[0] != names[0]
    assert hash_blocks(b"weights", [9, *tokens[1:]])[1] != names[1]
