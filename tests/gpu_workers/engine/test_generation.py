"""Batching, seeds, stops and adapters of the in-process engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_workers.engine import Engine, SamplingOptions, plain_model, sampling
from gpu_workers.engine.errors import EngineError, InvalidRequestError, QueueFullError, UnknownModelError
from gpu_workers.engine.jobs import Delta, Job
from gpu_workers.engine.plain_model import PlainModel
from gpu_workers.engine.prefixes import PrefixStore

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]

PROMPT = [3, 40, 50, 60, 1, 4]


def drain(engine: Engine) -> None:
    while engine.scheduler.has_work:
        engine.scheduler.step()


def test_the_same_seed_gives_the_same_tokens_whatever_else_runs(engine: Engine) -> None:
    alone = [sample.token_ids for sample in engine.generate([PROMPT], 4, max_tokens=30, seed=9)[0]]
    crowd = [
        Job(engine.base, [[3, 70 + index, 1, 4]], SamplingOptions(n=3, max_tokens=5 + 3 * index, seed=index))
        for index in range(8)
    ]
    mine = Job(engine.base, [PROMPT], SamplingOptions(n=4, max_tokens=30, seed=9))
    for index, job in enumerate([*crowd[:4], mine, *crowd[4:]]):
        engine.submit(job)
        if index % 2:
            engine.scheduler.step()
    drain(engine)
    assert [sample.token_ids for sample in mine.finished_samples()] == alone
    assert len({tuple(tokens) for tokens in alone}) > 1
    other = [sample.token_ids for sample in engine.generate([PROMPT], 4, max_tokens=30, seed=10)[0]]
    assert other != alone


def test_an_answer_continued_from_its_middle_draws_what_it_would_have_drawn(engine: Engine) -> None:
    whole = engine.generate([PROMPT], max_tokens=20, seed=3, ignores_eos=True)[0][0].token_ids
    start = engine.generate([PROMPT], max_tokens=8, seed=3, ignores_eos=True)[0][0].token_ids
    rest = engine.generate([PROMPT + start], max_tokens=12, seed=3, ignores_eos=True)[0][0].token_ids
    assert start + rest == whole


def test_samples_of_one_prompt_share_its_reading(engine: Engine) -> None:
    engine.generate([PROMPT, [3, 99, 1, 4], PROMPT], 8, max_tokens=4, seed=1)
    assert engine.scheduler.tally.prompt_tokens == len(PROMPT) + 4


def test_greedy_takes_the_most_likely_token_and_filters_narrow_the_choice(engine: Engine) -> None:
    greedy = engine.generate([PROMPT], 2, temperature=0.0, max_tokens=10, seed=1)[0]
    assert greedy[0].token_ids == greedy[1].token_ids
    for changes in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        assert engine.generate([PROMPT], max_tokens=10, seed=2, **changes)[0][0].token_ids == greedy[0].token_ids
    few = engine.generate([PROMPT], 64, max_tokens=1, seed=1, top_k=3, top_logprobs=3)[0]
    assert {sample.token_ids[0] for sample in few} <= {token for token, _ in (few[0].top or [[]])[0]}


def test_penalties_change_the_logits_of_what_was_said(engine: Engine) -> None:
    """As told: after each token the distribution is recomputed from plain scores and compared."""
    knobs: dict[str, Any] = {"presence_penalty": 0.7, "frequency_penalty": 0.4, "repetition_penalty": 1.3}
    alone = engine.generate([PROMPT], max_tokens=12, seed=5, ignores_eos=True)[0][0]
    penalised = Job(engine.base, [PROMPT], SamplingOptions(n=2, max_tokens=12, seed=5, ignores_eos=True, **knobs))
    plain = Job(engine.base, [PROMPT], SamplingOptions(max_tokens=12, seed=5, ignores_eos=True))
    for job in (penalised, plain):
        engine.submit(job)
    drain(engine)
    assert plain.finished_samples()[0].token_ids == alone.token_ids, "its neighbours are not changed"
    whole = penalised.finished_samples()[0]
    everything = SamplingOptions(max_tokens=1, seed=1, top_logprobs=600)
    for place, token in enumerate(whole.token_ids):
        said = whole.token_ids[:place]
        top = engine.generate([PROMPT + said], options=everything)[0][0].top or [[]]
        logits = np.zeros(600)
        logits[[index for index, _ in top[0]]] = [value for _, value in top[0]]
        shift = project_sum(engine, PROMPT + said)  # log-probs are logits less their sum: divided they need it back
        logits += shift
        for index in {*PROMPT, *said}:
            logits[index] = logits[index] / 1.3 if logits[index] > 0 else logits[index] * 1.3
        for index in set(said):
            logits[index] -= 0.7 + 0.4 * said.count(index)
        wanted = logits[token] - np.log(np.exp(logits).sum())
        assert abs(float(whole.logprobs[place]) - wanted) < 1e-4


def project_sum(engine: Engine, prompt: list[int]) -> float:
    """The logarithm of the sum of a prompt's weights."""
    hidden, _ = engine.base.model.prefill([prompt])
    return float(engine.base.model.project(hidden[0, -1]).logsumexp(-1))


def test_rows_with_different_knobs_do_not_disturb_each_other(engine: Engine) -> None:
    plain = Job(engine.base, [PROMPT], SamplingOptions(max_tokens=12, seed=5))
    greedy = Job(engine.base, [PROMPT], SamplingOptions(max_tokens=12, seed=5, temperature=0.0))
    narrow = Job(engine.base, [PROMPT], SamplingOptions(max_tokens=12, seed=5, top_k=2, temperature=0.7))
    alone = [engine.generate(job.prompts, options=job.options)[0][0].token_ids for job in (plain, greedy, narrow)]
    for job in (plain, greedy, narrow):
        engine.submit(job)
    drain(engine)
    assert [job.finished_samples()[0].token_ids for job in (plain, greedy, narrow)] == alone


def test_sampling_follows_the_models_distribution(engine: Engine) -> None:
    samples = engine.generate([PROMPT] * 8, 500, max_tokens=1, seed=1, top_logprobs=5)
    drawn = [sample.token_ids[0] for group in samples for sample in group]
    for token, logprob in (samples[0][0].top or [[]])[0]:
        expected = np.exp(logprob)
        spread = np.sqrt(expected * (1 - expected) / len(drawn))
        assert abs(drawn.count(token) / len(drawn) - expected) < 5 * spread + 1e-3


def test_a_stop_token_ends_the_answer_and_stays_in_the_token_ids_only(engine: Engine) -> None:
    whole = engine.generate([PROMPT], max_tokens=20, seed=3, ignores_eos=True)[0][0]
    stop = whole.token_ids[6]
    first = whole.token_ids.index(stop)
    cut = engine.generate([PROMPT], max_tokens=20, seed=3, ignores_eos=True, stop_token_ids=frozenset({stop}))[0][0]
    assert cut.token_ids == whole.token_ids[: first + 1]
    assert (cut.finish_reason, cut.stop_reason) == ("stop", stop)
    assert cut.text == engine.codec.decode(whole.token_ids[:first])
    assert whole.finish_reason == "length"


def test_a_stop_string_across_tokens_cuts_the_text_before_it(engine: Engine) -> None:
    whole = engine.generate([PROMPT], max_tokens=30, seed=8, ignores_eos=True)[0][0]
    start = len(whole.text) // 2
    stop = whole.text[start : start + 5]
    cut = engine.generate([PROMPT], max_tokens=30, seed=8, ignores_eos=True, stops=(stop, "never there"))[0][0]
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert (cut.finish_reason, cut.stop_reason) == ("stop", stop)
    assert stop in engine.codec.decode(cut.token_ids)
    assert stop not in engine.codec.decode(cut.token_ids[:-1])
    kept = engine.generate([PROMPT], max_tokens=30, seed=8, ignores_eos=True, stops=(stop,), keeps_stop=True)[0][0]
    assert kept.text == cut.text + stop


def test_unloading_refuses_new_requests_and_lets_running_ones_end_on_their_weights(
    engine: Engine, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    loaded = engine.load_adapter("w@v1", write_adapter(tmp_path / "1", seed=1))
    expected = engine.generate([PROMPT], 2, adapter="w@v1", max_tokens=15, seed=2)[0]
    job = Job(engine.models.find("w@v1"), [PROMPT], SamplingOptions(n=2, max_tokens=15, seed=2))
    engine.submit(job)
    engine.scheduler.step()
    engine.unload_adapter("w@v1")
    with pytest.raises(UnknownModelError, match="w@v1"):
        engine.models.find("w@v1")
    again = engine.load_adapter("w@v1", write_adapter(tmp_path / "2", seed=2))
    assert again.fingerprint != loaded.fingerprint
    drain(engine)
    assert [sample.token_ids for sample in job.finished_samples()] == [sample.token_ids for sample in expected]


@pytest.mark.parametrize(("is_merged", "most_ranks"), [(True, 128), (False, 128), (False, 8)])
def test_rows_of_several_adapters_keep_apart_and_where_none_is_merged_they_decode_in_one_batch(
    model_directory: Callable[[str], Path],
    write_adapter: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_merged: bool,
    most_ranks: int,
) -> None:
    monkeypatch.setattr(plain_model, "_STACKED", most_ranks)
    engine = Engine("tiny", model_directory("qwen2"), merges_adapters=is_merged)
    lengths = {"tiny": 9, "w@v1": 14, "w@v2": 6, "w@v3": 14}
    shapes: dict[str, dict[str, Any]] = {
        "w@v1": {},
        "w@v2": {"r": 3},
        "w@v3": {"target_modules": ["v_proj", "up_proj"]},
    }
    for seed, (name, shape) in enumerate(shapes.items(), start=1):
        engine.load_adapter(name, write_adapter(tmp_path / name, seed=seed, **shape))
    options = {name: SamplingOptions(n=2, max_tokens=most, seed=2, ignores_eos=True) for name, most in lengths.items()}
    alone = {name: engine.generate([PROMPT], 2, adapter=name, options=options[name])[0] for name in lengths}
    assert len({tuple(sample.token_ids[:6]) for samples in alone.values() for sample in samples}) == 8

    steps = list[int]()
    decode = PlainModel.decode

    def count(model: PlainModel, cache: Any, tokens: torch.Tensor) -> torch.Tensor:
        steps.append(len(tokens))
        return decode(model, cache, tokens)

    monkeypatch.setattr(PlainModel, "decode", count)
    jobs = {name: Job(engine.models.find(name), [PROMPT], options[name]) for name in lengths}
    for job in jobs.values():
        engine.submit(job)
        engine.scheduler.step()  # each comes in while the others are at work
    drain(engine)
    for name, job in jobs.items():
        for together, sample in zip(job.finished_samples(), alone[name], strict=True):
            assert together.token_ids == sample.token_ids
            np.testing.assert_allclose(together.logprobs, sample.logprobs, atol=1e-5)
    assert max(steps) == (2 if is_merged else 8)
    if not is_merged:
        assert len(steps) < sum(lengths.values()) / 2


@pytest.mark.parametrize("is_merged", [True, False])
def test_prompts_of_several_adapters_are_read_at_once_where_none_is_merged(
    model_directory: Callable[[str], Path],
    write_adapter: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_merged: bool,
) -> None:
    engine = Engine("tiny", model_directory("qwen2"), merges_adapters=is_merged)
    engine.load_adapter("w@v1", write_adapter(tmp_path / "1", seed=1))
    engine.load_adapter("w@v2", write_adapter(tmp_path / "2", seed=2, r=3, target_modules=["k_proj", "down_proj"]))
    options = SamplingOptions(max_tokens=6, seed=2, ignores_eos=True, prompt_logprobs=2)
    asked = [("w@v1", PROMPT[1:]), ("w@v1", PROMPT), ("tiny", PROMPT), ("w@v2", PROMPT[2:]), ("w@v2", PROMPT)]
    jobs = [Job(engine.models.find(name), [prompt], options) for name, prompt in asked]
    alone = list[Job]()
    for name, prompt in asked:
        alone.append(Job(engine.models.find(name), [prompt], options))
        engine.submit(alone[-1])
        drain(engine)
    read, prefill = list[int](), PlainModel.prefill

    def count(model: PlainModel, prompts: Any, *more: Any) -> Any:
        read.append(len(prompts))
        return prefill(model, prompts, *more)

    monkeypatch.setattr(PlainModel, "prefill", count)
    for job in jobs:
        engine.submit(job)
    drain(engine)
    assert sorted(read) == ([1, 2, 2] if is_merged else [5])
    for job, same in zip(jobs, alone, strict=True):
        (found,), (expected,) = job.finished_samples(), same.finished_samples()
        assert found.token_ids == expected.token_ids
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-5)
        told, wanted = job.prompt_scores[0], same.prompt_scores[0]
        assert told is not None
        assert wanted is not None
        np.testing.assert_allclose(told.logprobs, wanted.logprobs, atol=1e-5)


def test_a_cancelled_job_frees_its_rows(engine: Engine) -> None:
    job = Job(engine.base, [PROMPT], SamplingOptions(n=16, max_tokens=100, seed=1, ignores_eos=True))
    other = Job(engine.base, [PROMPT], SamplingOptions(max_tokens=3, seed=1, ignores_eos=True))
    engine.submit(job)
    engine.submit(other)
    engine.scheduler.step()
    assert engine.scheduler.running_rows == 17
    job.is_cancelled = True
    engine.scheduler.step()
    assert engine.scheduler.running_rows == 1
    drain(engine)
    assert other.finished_samples()[0].finish_reason == "length"


def test_more_rows_than_fit_wait_their_turn(model_directory: Callable[[str], Path]) -> None:
    engine = Engine("tiny", model_directory("qwen2"), max_rows=4)
    groups = engine.generate([[3, 40 + index, 1, 4] for index in range(9)], 3, max_tokens=6, seed=1)
    wide = Engine("tiny", model_directory("qwen2"))
    same = wide.generate([[3, 40 + index, 1, 4] for index in range(9)], 3, max_tokens=6, seed=1)
    assert [[s.token_ids for s in group] for group in groups] == [[s.token_ids for s in group] for group in same]
    with pytest.raises(InvalidRequestError, match="at most 4, found 5"):
        engine.generate([PROMPT], 5)


@pytest.mark.parametrize("prefix_bytes", [0, 1 << 24])
def test_a_long_prompt_is_read_in_parts_while_others_go_on_and_shorter_ones_pass_by(
    model_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, prefix_bytes: int
) -> None:
    engine = Engine("tiny", model_directory("qwen2"), prefix_bytes=prefix_bytes)
    long = [1 + (7 * place) % 500 for place in range(90)]
    asked = {"talks": (PROMPT, 100), "long": (long, 8), "longer": ([2, *long], 8), "short": (PROMPT[1:], 8)}
    options = {
        name: SamplingOptions(n=2, max_tokens=most, seed=2, ignores_eos=True) for name, (_, most) in asked.items()
    }
    alone = {name: engine.generate([prompt], options=options[name], n=2)[0] for name, (prompt, _) in asked.items()}
    engine = Engine("tiny", model_directory("qwen2"), prefix_bytes=prefix_bytes)  # that has read nothing yet
    monkeypatch.setattr(engine.base.model, "part_tokens", 16)
    read, prefill = list[int](), PlainModel.prefill

    def count(model: PlainModel, prompts: Any, known: Any = (), *more: Any) -> Any:
        starts = [0 if one is None else one.shape[2] for one in known] or [0] * len(prompts)
        read.append(sum(map(len, prompts)) - sum(starts))
        return prefill(model, prompts, known, *more)

    monkeypatch.setattr(PlainModel, "prefill", count)
    jobs = {name: Job(engine.base, [prompt], options[name]) for name, (prompt, _) in asked.items()}
    engine.submit(jobs["talks"])
    engine.scheduler.step()
    for name in ("long", "longer", "short"):
        engine.submit(jobs[name])
    ended, before = list[str](), 0
    while engine.scheduler.has_work:
        engine.scheduler.step()
        ended += [name for name, job in jobs.items() if job.is_over and name not in ended]
        before += not jobs["short"].is_over
    assert max(read) <= 16 + len(PROMPT), "a part of the long one, and the short one"
    assert ended == ["short", "long", "longer", "talks"]
    assert before <= 12, "the short one waited for no long one"
    for name, job in jobs.items():
        for found, sample in zip(job.finished_samples(), alone[name], strict=True):
            assert found.token_ids == sample.token_ids, name
            np.testing.assert_allclose(found.logprobs, sample.logprobs, atol=1e-5)
    assert engine.scheduler.waiting_prompts == 0


def test_a_long_prompt_that_is_cancelled_or_fails_half_way_leaves_room_for_the_next(
    model_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine("tiny", model_directory("qwen2"))
    monkeypatch.setattr(engine.base.model, "part_tokens", 16)
    long, options = [1 + (7 * place) % 500 for place in range(90)], SamplingOptions(max_tokens=4, seed=2)
    alone = engine.generate([long], options=options)[0][0]
    jobs = [Job(engine.base, [[3 + number, *long]], options) for number in range(3)]
    prefill = PlainModel.prefill

    def fail(model: PlainModel, prompts: Any, known: Any = (), *more: Any) -> Any:
        if prompts[0][0] == 4 and len(prompts[0]) > 40:
            raise RuntimeError("no memory left")
        return prefill(model, prompts, known, *more)

    monkeypatch.setattr(PlainModel, "prefill", fail)
    for job in jobs:
        engine.submit(job)
    engine.scheduler.step()
    engine.scheduler.step()
    jobs[0].is_cancelled = True
    drain(engine)
    assert jobs[0].unfinished == 1
    with pytest.raises(EngineError, match="no memory left"):
        jobs[1].finished_samples()
    assert len(jobs[2].finished_samples()[0].token_ids) == 4
    assert engine.generate([long], options=options)[0][0].token_ids == alone.token_ids
    assert engine.scheduler.waiting_prompts == 0


def test_a_long_prompt_whose_known_beginning_has_no_room_fails_alone(
    model_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine("tiny", model_directory("qwen2"), prefix_bytes=1 << 24)
    monkeypatch.setattr(engine.base.model, "part_tokens", 16)
    long, options = [1 + (7 * place) % 500 for place in range(90)], SamplingOptions(max_tokens=4, seed=2)
    jobs = [Job(engine.base, [prompt], options) for prompt in (long, PROMPT, [2, *long])]
    find, left = PrefixStore.find, [1]

    def fail_once(store: PrefixStore, names: Any) -> Any:
        if left:
            left.clear()
            raise RuntimeError("no memory left")
        return find(store, names)

    monkeypatch.setattr(PrefixStore, "find", fail_once)
    for job in jobs:
        engine.submit(job)
    drain(engine)
    with pytest.raises(EngineError, match="no memory left"):
        jobs[0].finished_samples()
    assert [len(job.finished_samples()[0].token_ids) for job in jobs[1:]] == [4, 4]
    assert engine.scheduler.waiting_prompts == 0


def test_a_full_queue_says_when_to_come_back(model_directory: Callable[[str], Path]) -> None:
    engine = Engine("tiny", model_directory("qwen2"), max_rows=1, max_waiting=2)
    options = SamplingOptions(max_tokens=50, seed=1, ignores_eos=True)
    engine.submit(Job(engine.base, [PROMPT, PROMPT], options))
    engine.scheduler.step()
    engine.submit(Job(engine.base, [PROMPT], options))
    assert (engine.scheduler.running_rows, engine.scheduler.waiting_prompts) == (1, 2)
    with pytest.raises(QueueFullError) as caught:
        engine.submit(Job(engine.base, [PROMPT], options))
    assert caught.value.retry_after_s == 1


def test_a_prompt_that_cannot_fit_is_refused_with_the_numbers(engine: Engine) -> None:
    with pytest.raises(
        InvalidRequestError, match="context is 128 tokens; the prompt has 6 and max_tokens asks for 123"
    ):
        engine.generate([PROMPT], max_tokens=123)
    assert len(engine.generate([PROMPT], max_tokens=122, ignores_eos=True)[0][0].token_ids) == 122
    with pytest.raises(InvalidRequestError, match=r"0\.\.599, found 3\.\.600"):
        engine.generate([[3, 600]])
    with pytest.raises(InvalidRequestError, match="at least one token"):
        engine.generate([[]])


def test_a_model_that_overflows_fails_its_own_job_only(
    engine: Engine, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    directory = write_adapter(tmp_path / "huge", seed=1)
    tensors = {name: tensor * 1e25 for name, tensor in load_file(directory / "adapter_model.safetensors").items()}
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    save_file(tensors, directory / "adapter_model.safetensors", metadata={"format": "pt"})
    engine.load_adapter("huge@v1", directory)
    with pytest.raises(EngineError, match="huge@v1 produced NaN"):
        engine.generate([PROMPT], adapter="huge@v1", max_tokens=5)
    assert engine.generate([PROMPT], max_tokens=5)[0][0].token_ids


def test_an_adapter_that_overflows_does_not_reach_the_rows_beside_it(
    model_directory: Callable[[str], Path],
    write_adapter: Callable[..., Path],
    write_overflowing_adapter: Callable[[Path], Path],
    tmp_path: Path,
) -> None:
    engine = Engine("tiny", model_directory("qwen2"), merges_adapters=False)
    engine.load_adapter("w@v1", write_adapter(tmp_path / "w", seed=1))
    engine.load_adapter("huge@v1", write_overflowing_adapter(tmp_path / "huge"))
    options = SamplingOptions(max_tokens=8, seed=2, ignores_eos=True)
    alone = engine.generate([PROMPT], adapter="w@v1", options=options)[0][0]
    jobs = [Job(engine.models.find(name), [PROMPT], options) for name in ("huge@v1", "w@v1")]
    for job in jobs:
        engine.submit(job)
    drain(engine)
    (found,) = jobs[1].finished_samples()
    assert found.token_ids == alone.token_ids
    np.testing.assert_allclose(found.logprobs, alone.logprobs, atol=1e-5)


@pytest.mark.parametrize("large_from", [100, sampling.LARGE_VOCABULARY])
@pytest.mark.parametrize(
    ("edge", "same"),
    [({"top_p": 1e-50}, {"temperature": 0.0}), ({"top_k": 2**31, "top_p": 0.99}, {"top_p": 0.99})],
    ids=["top_p", "top_k"],
)
def test_a_filter_that_keeps_next_to_nothing_or_all_disturbs_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, large_from: int, edge: dict[str, Any], same: dict[str, Any]
) -> None:
    monkeypatch.setattr(sampling, "LARGE_VOCABULARY", large_from)
    hot: dict[str, Any] = {"temperature": 30.0, "max_tokens": 8, "seed": 1, "ignores_eos": True}
    options = [SamplingOptions(**hot, top_k=20), SamplingOptions(**(hot | edge)), SamplingOptions(**(hot | same))]
    wanted = [engine.generate([PROMPT], options=options[place])[0][0].token_ids for place in (0, 2)]
    jobs = [Job(engine.base, [PROMPT], each) for each in options[:2]]
    for job in jobs:
        engine.submit(job)
        engine.scheduler.step()
    drain(engine)
    assert [job.finished_samples()[0].token_ids for job in jobs] == wanted


def test_stop_tokens_that_no_vocabulary_has_end_nothing_and_disturb_nobody(engine: Engine) -> None:
    options = SamplingOptions(max_tokens=4, seed=1, ignores_eos=True)
    odd = SamplingOptions(max_tokens=4, seed=1, ignores_eos=True, stop_token_ids=frozenset({-100_000, -1, 600, 10**9}))
    jobs = [Job(engine.base, [PROMPT], each) for each in (options, odd)]
    for job in jobs:
        engine.submit(job)
    drain(engine)
    assert jobs[0].finished_samples()[0].token_ids == jobs[1].finished_samples()[0].token_ids


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("owner", "method"), [(PlainModel, "decode"), (PrefixStore, "keep")])
def test_an_answer_that_ends_in_a_step_that_fails_is_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, streams: bool
) -> None:
    options = [
        SamplingOptions(max_tokens=most, seed=1, ignores_eos=True, streams=streams, n=n) for most, n in ((3, 1), (9, 2))
    ]
    short, long = (Job(engine.base, [PROMPT], each) for each in options)
    real = getattr(owner, method)

    def fail(*told: Any, **more: Any) -> Any:
        if short.unfinished == 0:
            raise RuntimeError("no memory left")
        return real(*told, **more)

    monkeypatch.setattr(owner, method, fail)
    for job in (short, long):
        engine.submit(job)
    told: dict[Job, list[Delta]] = {}
    last: set[Job] = set()
    while engine.scheduler.has_work:
        news = engine.scheduler.step()
        last = set(news)
        for job, deltas in news.items():
            told.setdefault(job, []).extend(deltas)
    assert last == {short, long}, "both are over, and both are told so"
    (sample,) = short.finished_samples()
    if streams:
        assert [token for delta in told[short] for token in delta.token_ids] == sample.token_ids
        assert told[short][-1].finish_reason == "length"
    with pytest.raises(EngineError, match="no memory left"):
        long.finished_samples()
