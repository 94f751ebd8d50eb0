"""A GPU repeats recorded steps on tensors that stay where they are; here the same steps run without a GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpu_workers.engine import Engine, SamplingOptions, sampling
from gpu_workers.engine.batch import Model
from gpu_workers.engine.caches import Work
from gpu_workers.engine.checkpoint import plain_shape, read_config, read_weights
from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.engine.jobs import Job
from gpu_workers.engine.models import LoadedModel
from gpu_workers.engine.plain_model import PlainModel, Turns
from gpu_workers.engine.products import Dense, LayOut, lay_out_plainly, lay_out_well

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]


class Recorder:
    """Repeats a step's work, as a CUDA graph does, into the tensor that the first time gave."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, work: Work) -> Work:
        self.recorded += 1
        found = work()

        def replay() -> torch.Tensor:
            self.replayed += 1
            return found.copy_(work())

        return replay


def open_recorded(directory: Path, recorder: Recorder, **settings: Any) -> Engine:
    """An engine whose model decodes as on a GPU."""
    engine = Engine("tiny", directory, **settings)
    shape = plain_shape(read_config(directory))
    assert shape is not None
    model: Model = PlainModel(shape, read_weights(directory), merges_adapters=False, record=recorder)
    engine.base.model = model
    return engine


def submit_crowd(engine: Engine, loaded: LoadedModel | None = None) -> list[Job]:
    """Answers of many lengths to prompts of many lengths, some of which come while others run."""
    jobs = [
        Job(
            loaded or engine.base,
            [[3, *range(40, 44 + 3 * index), 1, 4]],
            SamplingOptions(
                n=1 + index % 3,
                max_tokens=4 + 9 * (index % 5),
                seed=index,
                ignores_eos=index % 2 == 0,
                temperature=0.0 if index == 5 else 0.9,
                top_logprobs=2 if index == 3 else None,
            ),
        )
        for index in range(11)
    ]
    for index, job in enumerate(jobs):
        engine.submit(job)
        for _ in range(index % 4):
            engine.scheduler.step()
    while engine.scheduler.has_work:
        engine.scheduler.step()
    return jobs


def assert_same(found: list[Job], wanted: list[Job]) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        for one, other in zip(mine.finished_samples(), theirs.finished_samples(), strict=True):
            assert one.token_ids == other.token_ids
            assert (one.text, one.finish_reason) == (other.text, other.finish_reason)
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=5e-5)
            for ours, wanted_top in zip(one.top or [], other.top or [], strict=True):
                np.testing.assert_allclose([value for _, value in ours], [value for _, value in wanted_top], atol=5e-5)


@pytest.mark.parametrize("architecture", ["qwen2", "gemma3", "smollm3"])
def test_recorded_steps_say_what_steps_say(model_directory: Callable[[str], Path], architecture: str) -> None:
    recorder = Recorder()
    directory = model_directory(architecture)
    recorded = open_recorded(directory, recorder, prefix_bytes=1 << 20)
    wanted = submit_crowd(Engine("tiny", directory))
    assert_same(submit_crowd(recorded), wanted)
    first = recorder.recorded
    assert first > 1, "rows came and went: steps of several sizes"
    assert recorder.replayed > 3 * first
    assert_same(submit_crowd(recorded), wanted)  # the next batch decodes where the last one did
    assert recorder.recorded <= first + 2


def test_recorded_steps_go_on_when_rows_need_more_room(model_directory: Callable[[str], Path]) -> None:
    recorder = Recorder()
    recorded = open_recorded(model_directory("qwen2"), recorder)
    plain = Engine("tiny", model_directory("qwen2"))
    for count in (1, 3, 9, 40, 2):
        prompts = [[3, 40 + index, 1, 4] for index in range(count)]
        mine = recorded.generate(prompts, 2, max_tokens=100, seed=count, ignores_eos=True)
        theirs = plain.generate(prompts, 2, max_tokens=100, seed=count, ignores_eos=True)
        assert [[s.token_ids for s in group] for group in mine] == [[s.token_ids for s in group] for group in theirs]


def test_an_adapter_decodes_on_recorded_steps_of_its_own(
    model_directory: Callable[[str], Path], write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    folder = write_adapter(tmp_path / "a", seed=3)
    engines = [open_recorded(model_directory("qwen2"), Recorder()), Engine("tiny", model_directory("qwen2"))]
    found = [submit_crowd(engine, engine.load_adapter("a", folder)) for engine in engines]
    assert_same(*found)
    bases = [submit_crowd(engine) for engine in engines]
    assert_same(*bases)
    assert [j.finished_samples()[0].token_ids for j in bases[0]] != [
        j.finished_samples()[0].token_ids for j in found[0]
    ]


def test_an_answer_that_ends_with_its_context_does_not_end_those_beside_it(
    model_directory: Callable[[str], Path],
) -> None:
    """It stays in the batch until enough others have ended too."""
    for recorder in (None, Recorder()):
        directory = model_directory("qwen2")
        engine = open_recorded(directory, recorder) if recorder else Engine("tiny", directory)
        full = Job(engine.base, [[5] * 120], SamplingOptions(max_tokens=8, seed=1, ignores_eos=True))
        others = Job(engine.base, [[3, 4]], SamplingOptions(n=9, max_tokens=60, seed=1, ignores_eos=True))
        for job in (full, others):
            engine.submit(job)
        while engine.scheduler.has_work:
            engine.scheduler.step()
        assert len(full.finished_samples()[0].token_ids) == 8
        assert [len(sample.token_ids) for sample in others.finished_samples()] == [60] * 9


@pytest.mark.parametrize("size", [600, 20_011])
def test_all_rows_at_once_draw_what_each_draws_alone(size: int) -> None:
    torch.manual_seed(2)
    logits, uniforms = torch.randn(64, size) * 2, torch.linspace(0, 1 - 2**-23, 64)
    greedy = torch.arange(64) % 7 == 0
    plain = sampling.Knobs(None, None, None, is_greedy=greedy)
    few = plain._replace(top_k=torch.full((64,), 9), top_p=torch.full((64,), 0.8))
    filtered = [few] if size <= sampling.LARGE_VOCABULARY else []  # above, one row alone goes by likelihood, not by id
    for knobs in (plain, *filtered, plain._replace(temperature=torch.full((64,), 0.7))):
        tokens, scores, totals = sampling.sample_rows(logits, uniforms, knobs)
        wanted, other_scores, other_totals = sampling.sample_tokens(logits, uniforms, knobs)
        assert int((tokens - wanted).abs().max()) <= 1, "a neighbour at most, where sums round otherwise"
        assert int((tokens != wanted).sum()) <= 2
        torch.testing.assert_close(scores - totals[:, None], other_scores - other_totals[:, None], atol=2e-5, rtol=0)
        assert torch.equal(tokens[greedy], logits[greedy].argmax(-1))


@pytest.mark.parametrize("lay_out", [lay_out_well, lay_out_plainly(Dense)], ids=["as it is", "rounded"])
@pytest.mark.parametrize("architecture", ["qwen2", "gemma3"])
def test_in_bfloat16_what_is_told_is_what_was_drawn_from(
    model_directory: Callable[[str], Path], architecture: str, lay_out: LayOut
) -> None:
    """Within what bfloat16 rounds: the told numbers against those of the answer when it is read as a whole."""
    directory = model_directory(architecture)
    engine = Engine("tiny", directory)
    shape = plain_shape(read_config(directory))
    assert shape is not None
    engine.base.model = PlainModel(shape, read_weights(directory), precision=torch.bfloat16, lay_out=lay_out)
    prompts = [[3, 40, 50, 60, 1, 4], [3, 77, 1, 4]]
    groups = engine.generate(prompts, 3, max_tokens=20, seed=4, ignores_eos=True)
    samples = [sample for group in groups for sample in group]
    scored = engine.score([prompt for prompt in prompts for _ in range(3)], [sample.token_ids for sample in samples])
    difference = np.concatenate([own - sample.logprobs for own, sample in zip(scored, samples, strict=True)])
    assert float(np.abs(difference).mean()) < 0.03
    assert abs(float(np.exp(difference).mean()) - 1) < 0.02


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named_before_anything_starts(model_directory: Callable[[str], Path]) -> None:
    with pytest.raises(ModelUnreadableError, match="wanted a GPU"):
        Engine("tiny", model_directory("qwen2"), device="cuda")
    assert Engine("tiny", model_directory("qwen2"), device="auto").device == "cpu"


def test_a_row_that_overflowed_leaves_nothing_to_who_has_its_place_next(
    model_directory: Callable[[str], Path], write_overflowing_adapter: Callable[[Path], Path], tmp_path: Path
) -> None:
    huge = write_overflowing_adapter(tmp_path / "huge")
    prompt, options = [3, 40, 41, 1, 4], SamplingOptions(max_tokens=6, seed=1, ignores_eos=True)
    for recorder in (None, Recorder()):
        settings: dict[str, Any] = {"merges_adapters": False, "prefix_bytes": 0}
        directory = model_directory("qwen2")
        engine = open_recorded(directory, recorder, **settings) if recorder else Engine("tiny", directory, **settings)
        engine.load_adapter("huge@v1", huge)
        alone = engine.generate([prompt], options=options)[0][0]
        long = SamplingOptions(max_tokens=40, seed=2, ignores_eos=True)
        stays = Job(engine.base, [prompt * 10], long)
        overflows = Job(engine.models.find("huge@v1"), [prompt * 8], long)
        for job in (stays, overflows):
            engine.submit(job)
        for _ in range(3):
            engine.scheduler.step()
        assert "huge@v1 produced NaN" in str(overflows.error)
        late = Job(engine.base, [prompt], options)
        engine.submit(late)
        while engine.scheduler.has_work:
            engine.scheduler.step()
        assert late.finished_samples()[0].token_ids == alone.token_ids
        assert len(stays.finished_samples()[0].token_ids) == 40


def test_what_a_recorded_step_reads_of_turns_stays_whatever_length_is_asked_for(
    model_directory: Callable[[str], Path],
) -> None:
    shape = plain_shape(read_config(model_directory("gemma3")))
    assert shape is not None
    turns = Turns(shape, torch.device("cpu"))
    first = dict(turns.tables(shape.context_length))
    later = turns.tables(2 * shape.context_length)
    assert len(first) == 2
    assert all(later[rope] is tables for rope, tables in first.items())
