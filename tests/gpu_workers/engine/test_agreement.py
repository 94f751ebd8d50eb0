"""The engine's log-probs are those of Hugging Face and PEFT."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peft import PeftModel
from transformers import AutoModelForCausalLM

from gpu_workers.engine import Engine, Sample
from gpu_workers.engine.batch import Model
from gpu_workers.engine.checkpoint import plain_shape, read_config, read_weights
from gpu_workers.engine.plain_model import PlainModel
from gpu_workers.engine.products import InParts, LayOut, Packed, Product, find_kernel, lay_out_plainly
from gpu_workers.engine.reward_heads import AnsweredSteps
from gpu_workers.engine.scheduler import score_prompt
from tests.gpu_workers.engine.conftest import FAMILIES

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]

TOLERANCE = 1e-4
PROMPTS = [[3, 40, 50, 60, 1, 4], [3, 77, 1, 4], [3, 90, 91, 92, 93, 94, 95, 96, 1, 4]]


def reference_logprobs(model: torch.nn.Module, prompt: Sequence[int], completion: Sequence[int]) -> NDArray[np.float32]:
    """(T,) log-probs of a completion by a Hugging Face model."""
    ids = torch.tensor([[*prompt, *completion]])
    with torch.no_grad():
        spread = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    found: NDArray[np.float32] = spread.gather(-1, torch.tensor(completion)[:, None])[:, 0].numpy()
    return found


def assert_agrees(model: torch.nn.Module, groups: list[list[Sample]]) -> None:
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for sample in group:
            assert len(sample.token_ids) > 0
            np.testing.assert_allclose(
                sample.logprobs, reference_logprobs(model, prompt, sample.token_ids), atol=TOLERANCE
            )


@pytest.mark.parametrize(
    ("architecture", "uses_plain_path"), [*((name, True) for name in FAMILIES), ("qwen2", False), ("gpt2", True)]
)
def test_behaviour_logprobs_agree_with_hugging_face(
    model_directory: Callable[[str], Path], architecture: str, uses_plain_path: bool
) -> None:
    directory = model_directory(architecture)
    engine = Engine("tiny", directory, uses_plain_path=uses_plain_path)
    assert isinstance(engine.base.model, PlainModel) == (uses_plain_path and architecture != "gpt2")
    groups = engine.generate(PROMPTS, 3, max_tokens=20, seed=4)
    reference = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    assert_agrees(reference, groups)
    scored = engine.score(
        [prompt for prompt, group in zip(PROMPTS, groups, strict=True) for _ in group],
        [sample.token_ids for group in groups for sample in group],
    )
    for score, sample in zip(scored, [sample for group in groups for sample in group], strict=True):
        np.testing.assert_allclose(score, sample.logprobs, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("architecture", "settings", "extra"),
    [
        ("qwen2", {"merges_adapters": True}, {}),
        ("qwen2", {"merges_adapters": False}, {}),
        (
            "qwen2",
            {"merges_adapters": False},
            {"target_modules": ["q_proj", "v_proj", "down_proj"], "use_rslora": True},
        ),
        ("qwen2", {"uses_plain_path": False}, {}),
        ("llama", {}, {}),
        ("gemma3", {"merges_adapters": False}, {}),
    ],
)
def test_adapters_agree_with_peft_and_leave_the_base_alone(
    model_directory: Callable[[str], Path],
    write_adapter: Callable[..., Path],
    tmp_path: Path,
    architecture: str,
    settings: dict[str, Any],
    extra: dict[str, object],
) -> None:
    directory = model_directory(architecture)
    engine = Engine("tiny", directory, **settings)
    before = engine.generate(PROMPTS, 2, max_tokens=12, seed=1)
    for seed in (1, 2):
        engine.load_adapter(f"a@v{seed}", write_adapter(tmp_path / str(seed), architecture, seed, **extra))
    for seed in (1, 2):
        base = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        reference = PeftModel.from_pretrained(base, tmp_path / str(seed)).eval()
        assert_agrees(reference, engine.generate(PROMPTS, 2, adapter=f"a@v{seed}", max_tokens=12, seed=1))
    after = engine.generate(PROMPTS, 2, max_tokens=12, seed=1)
    assert [[s.token_ids for s in group] for group in before] == [[s.token_ids for s in group] for group in after]


def test_both_forwards_read_the_same_hidden_states_whatever_the_padding(
    model_directory: Callable[[str], Path],
) -> None:
    asked = [AnsweredSteps(range(2, 9), range(10, 24), [(0, 5), (5, 14)]), AnsweredSteps([3, 4], [5, 6, 7], [(1, 3)])]
    plain = Engine("tiny", model_directory("qwen2")).read_features(asked)
    whole = Engine("tiny", model_directory("qwen2"), uses_plain_path=False)
    alone = [whole.read_features([one])[0] for one in asked]
    assert whole.base.model.width == 48
    for found, together, by_itself in zip(plain, whole.read_features(asked), alone, strict=True):
        assert found.shape[1] == 3 * 48
        torch.testing.assert_close(found, together, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(together, by_itself, atol=1e-4, rtol=1e-4)


def test_a_config_written_before_layer_types_reads_as_the_one_that_has_them(
    model_directory: Callable[[str], Path],
) -> None:
    now = read_config(model_directory("gemma3"))
    old = {name: value for name, value in now.items() if name not in ("layer_types", "rope_parameters")}
    old |= {"num_hidden_layers": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 3}
    shape = plain_shape(old)
    assert shape is not None
    assert shape.windows == (5, 5, None, 5, 5, None)
    assert [rope.theta for rope in shape.ropes if rope] == [1e4, 1e4, 1e6, 1e4, 1e4, 1e6]
    assert plain_shape({**now, "final_logit_softcapping": 30.0}) is None
    assert plain_shape({**old, "model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 2.0}}) is None


def test_log_probs_of_a_large_vocabulary_keep_its_long_tail() -> None:
    """A sum of 262,144 weights in float32 loses so much of it that each log-prob comes out too high."""
    logits = torch.randn(12, 262_144, generator=torch.Generator().manual_seed(3)) * 4
    prompt = list(range(13))
    exact = logits.double().log_softmax(-1)[torch.arange(12), torch.tensor(prompt[1:])].numpy()

    class Told:
        vocabulary_size = logits.shape[-1]

        def project(self, hidden: torch.Tensor) -> torch.Tensor:
            return logits[hidden[:, 0].long()]

    places = torch.arange(13).float()[:, None]
    told = score_prompt(cast("Model", Told()), places, prompt, 0).logprobs
    np.testing.assert_allclose(told, exact, atol=5e-6)
    assert (
        float(np.abs(logits.log_softmax(-1)[torch.arange(12), torch.tensor(prompt[1:])].numpy() - exact).max()) > 1e-5
    )


def lay_out_in_parts(weight: torch.Tensor, bias: torch.Tensor | None, _: torch.dtype) -> Product:
    if (kernel := find_kernel()) is None:
        pytest.skip("this torch has no product of bfloat16 numbers whose sums stay float32, or not for this processor")
    assert weight.dtype == torch.bfloat16
    return InParts(weight, bias, kernel)


@pytest.mark.parametrize("lay_out", [lay_out_plainly(Packed), lay_out_in_parts], ids=["packed", "in parts"])
@pytest.mark.parametrize("architecture", ["qwen2", "gemma3"])
def test_weights_laid_out_for_another_kernel_say_the_same(
    model_directory: Callable[[str], Path],
    write_adapter: Callable[..., Path],
    tmp_path: Path,
    architecture: str,
    lay_out: LayOut,
) -> None:
    directory = model_directory(architecture)
    engine = Engine("tiny", directory)
    shape = plain_shape(read_config(directory))
    assert shape is not None
    stored = {name: weight.bfloat16() for name, weight in read_weights(directory, None).items()}
    engine.base.model = PlainModel(shape, stored, merges_adapters=False, lay_out=lay_out)
    reference = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    reference.load_state_dict(stored, strict=False)
    assert_agrees(reference, engine.generate(PROMPTS, 3, max_tokens=20, seed=4))
    engine.load_adapter("a", write_adapter(tmp_path / "a", architecture, 1))
    assert_agrees(
        PeftModel.from_pretrained(reference, tmp_path / "a").eval(),
        engine.generate(PROMPTS, 3, adapter="a", max_tokens=20, seed=4),
    )


def test_what_prompts_begin_with_alike_is_scored_once() -> None:
    logits = torch.randn(9, 50, generator=torch.Generator().manual_seed(3))
    asked: list[int] = []

    class Told:
        vocabulary_size = 50

        def project(self, hidden: torch.Tensor) -> torch.Tensor:
            asked.append(len(hidden))
            return logits[hidden[:, 0].long()]

    model, places = cast("Model", Told()), torch.arange(9).float()[:, None]
    first = [4, 8, 15, 16, 23, 42, 3]
    known = score_prompt(model, places[:7], first, 2)
    assert sum(asked) == 6
    for other, left in (([4, 8, 15, 16, 7, 7], 2), (first, 0), ([5, 8, 15], 2), ([*first, 9, 9], 2)):
        asked.clear()
        alone = score_prompt(model, places[: len(other)], other, 2)
        asked.clear()
        found = score_prompt(model, places[: len(other)], other, 2, before=(first, known))
        assert sum(asked) == left
        assert found.ranks is not None
        assert alone.ranks is not None
        assert (found.logprobs.tolist(), found.ranks.tolist(), found.top) == (
            alone.logprobs.tolist(),
            alone.ranks.tolist(),
            alone.top,
        )
