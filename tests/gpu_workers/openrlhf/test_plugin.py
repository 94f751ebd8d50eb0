"""The plug-in on real classes: merged weights, the teacher's word in the advantages, and what runs after an import."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from gpu_workers.backends.openrlhf.plugin import distillation, lora
from gpu_workers.backends.openrlhf.plugin.post_import import when_imported
from gpu_workers.backends.openrlhf.plugin.told import VARIABLE, Told, read_told
from tests.gpu_workers.openrlhf.real_classes import import_openrlhf, make_maker
from tests.local_server import LocalHandler, LocalServer

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")


def make_model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def adapt(model: Any, *, seed: int = 1) -> Any:
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], bias="none", task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config)
    torch.manual_seed(seed)
    for name, parameter in adapted.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return adapted


@pytest.fixture(scope="module")
def openrlhf() -> Iterator[SimpleNamespace]:
    with import_openrlhf() as modules:
        yield modules


def test_merged_weights_have_the_bases_names_and_the_adapters_function() -> None:
    adapted, plain = adapt(make_model()), make_model()
    plain.load_state_dict(dict(lora.merged_parameters(adapted)), strict=False)
    assert {name for name, _ in lora.merged_parameters(adapted)} == {name for name, _ in plain.named_parameters()}
    ids = torch.arange(8)[None]
    torch.testing.assert_close(plain(ids).logits, adapted(ids).logits, rtol=1e-4, atol=1e-5)


def test_sending_leaves_the_frozen_base_as_it_was_bit_by_bit() -> None:
    """Merging in place and back would round: after a thousand updates the base would be another."""
    adapted = adapt(make_model().to(torch.bfloat16))
    before = {name: parameter.detach().clone() for name, parameter in adapted.named_parameters()}
    sent: dict[str, Any] = {}

    class Trainer:
        def __init__(self) -> None:
            self.actor = SimpleNamespace(model=SimpleNamespace(module=adapted))
            self.strategy = SimpleNamespace(
                args=SimpleNamespace(ds=SimpleNamespace(zero_stage=2, tensor_parallel_size=1))
            )

        def broadcast_to_vllm(self) -> None:
            sent.update(self.actor.model.module.named_parameters())

    module: Any = ModuleType("ppo_actor")
    module.ActorPPOTrainer = Trainer
    lora.send_merged_weights(module)
    trainer = Trainer()
    trainer.broadcast_to_vllm()
    assert not [name for name in sent if "lora" in name or "base_layer" in name or name.startswith("base_model")]
    assert {parameter.dtype for parameter in sent.values()} == {torch.bfloat16}
    changed = "model.layers.0.self_attn.q_proj.weight"
    assert not torch.equal(sent[changed], before[f"base_model.model.{changed[:-7]}.base_layer.weight"])
    after = dict(adapted.named_parameters())
    assert all(torch.equal(after[name], value) for name, value in before.items())
    trainer.strategy.args.ds.zero_stage = 3
    with pytest.raises(NotImplementedError, match="ZeRO 0 to 2"):
        trainer.broadcast_to_vllm()


def test_a_model_starts_from_its_parent_and_refuses_another_shape(tmp_path: Path) -> None:
    parent = adapt(make_model(), seed=7)
    parent.save_pretrained(tmp_path)

    class Actor(torch.nn.Module):
        def __init__(self, rank: int) -> None:
            super().__init__()
            config = LoraConfig(r=rank, lora_alpha=8, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
            self.model = get_peft_model(make_model(), config)

    module: Any = ModuleType("actor")
    module.Actor = Actor
    lora.continue_parent(module, Told(parent=str(tmp_path)))
    ids = torch.arange(8)[None]
    torch.testing.assert_close(Actor(4).model(ids).logits, parent(ids).logits)
    with pytest.raises((ValueError, RuntimeError)):
        Actor(2)


def test_vllm_gets_the_parents_policy_before_it_samples() -> None:
    told: list[str] = []

    class Trainer:
        def __init__(self, engines: list[str]) -> None:
            self.vllm_engines = engines
            self.strategy = SimpleNamespace(args=SimpleNamespace(vllm=SimpleNamespace(enable_sleep=False)))

        def broadcast_to_vllm(self) -> None:
            told.extend(self.vllm_engines)

    module: Any = ModuleType("ppo_actor")
    module.ActorPPOTrainer = Trainer
    lora.start_from_the_parent(module)
    Trainer([])
    assert told == []
    Trainer(["engine"])
    assert told == ["engine"]


class Teacher:
    """A server in vLLM's dialect that gives every token the same log-prob; the first answer of each is 503."""

    def __init__(self, logprob: float) -> None:
        self.asked: list[dict[str, Any]] = []
        self.refusals = 1
        owner = self

        class Handler(LocalHandler):
            def do_POST(self) -> None:
                body = json.loads(self.read())
                if owner.refusals:
                    owner.refusals -= 1
                    self.send_error(503)
                    return
                owner.asked.append(body)
                scored = [None, *({str(token): {"logprob": logprob}} for token in body["prompt"][1:])]
                self.answer(200, json.dumps({"choices": [{"prompt_logprobs": scored}]}).encode())

        self.server = LocalServer(Handler)
        self.url = self.server.url


@pytest.fixture
def teacher() -> Iterator[Teacher]:
    made = Teacher(-1.0)
    with made.server:
        yield made


def make_experiences(openrlhf: Any, *, hinted: bool) -> list[Any]:
    """Two answers to a task: 2 tokens of prompt, then 5, the third a tool's; the student's log-prob is -2."""
    label = {"task": 1, **({"hinted_prompt_token_ids": [7, 8, 9], "weight": 0.5} if hinted else {})}
    counts = torch.tensor([[0, 1, 1, 0, 1, 1]])  # about tokens 1 … 6
    return [
        openrlhf.experience.Experience(
            sequences=torch.tensor([[1, 2, 10, 11, 12, 13, 14]]), attention_mask=torch.ones(1, 7), action_mask=counts,
            action_log_probs=torch.full((1, 6), -2.0), rewards=torch.tensor([reward]), kl=torch.zeros(1, 6),
            index=[index], labels=[json.dumps(label)], info={"reward": torch.tensor([reward])},
        )
        for index, reward in enumerate((1.0, 0.0))
    ]  # fmt: skip


def test_the_teachers_word_is_added_to_the_advantages_of_what_the_policy_chose(openrlhf: Any, teacher: Teacher) -> None:
    told = Told(teacher_url=teacher.url, teacher_model="base", w_rl=0.7, w_opd=0.3, opd_clip=0.8)
    maker = make_maker(openrlhf, told)
    first, second = maker.compute_advantages_and_returns(make_experiences(openrlhf, hinted=True))
    gap = 0.3 * 0.5 * 0.8  # w_opd * trust * the gap of 1 nat, clipped
    plus, minus = 0.7 * 2**-0.5 + gap, -0.7 * 2**-0.5 + gap
    torch.testing.assert_close(first.advantages, torch.tensor([[0.7 * 2**-0.5, plus, plus, 0.7 * 2**-0.5, plus, plus]]))
    torch.testing.assert_close(second.advantages[0, [1, 2, 4, 5]], torch.full((4,), minus))
    torch.testing.assert_close(first.info["opd_gap"], torch.tensor([0.5 * 0.8]))
    assert {tuple(asked["prompt"]) for asked in teacher.asked} == {(7, 8, 9, 10, 11, 12, 13, 14)}


def test_a_hints_loss_is_a_mean_over_hinted_answers_however_few_they_are(openrlhf: Any, teacher: Teacher) -> None:
    """Beside as many tokens without a hint, each gap weighs twice in OpenRLHF's mean over all of them."""
    told = Told(teacher_url=teacher.url, teacher_model="base", w_rl=0.7, w_opd=0.3, opd_clip=0.8)
    hinted, other = make_experiences(openrlhf, hinted=True)[0], make_experiences(openrlhf, hinted=False)[1]
    first, second = make_maker(openrlhf, told).compute_advantages_and_returns([hinted, other])
    gap = 0.3 * 0.5 * 0.8
    torch.testing.assert_close(first.advantages[0, [1, 2, 4, 5]], torch.full((4,), 0.7 * 2**-0.5 + 2 * gap))
    torch.testing.assert_close(second.advantages[0, [1, 2, 4, 5]], torch.full((4,), -0.7 * 2**-0.5))
    torch.testing.assert_close(first.info["opd_gap"], torch.tensor([0.5 * 0.8]))


def test_without_a_hint_only_the_reward_counts(openrlhf: Any, teacher: Teacher) -> None:
    told = Told(teacher_url=teacher.url, teacher_model="base", w_rl=0.5, w_opd=0.3)
    first, _ = make_maker(openrlhf, told).compute_advantages_and_returns(make_experiences(openrlhf, hinted=False))
    torch.testing.assert_close(first.advantages[0, 1], torch.tensor(0.5 * 2**-0.5))
    assert first.info["opd_hinted"].tolist() == [0.0]
    assert teacher.asked == []


def test_a_teacher_that_is_away_ends_the_run_in_words() -> None:
    told = Told(teacher_url="http://127.0.0.1:1", teacher_model="base")
    distillation.TRIES, tries = 1, distillation.TRIES
    try:
        with pytest.raises(RuntimeError, match="did not score an answer"):
            distillation.score_under_hint(told, [1], [2])
    finally:
        distillation.TRIES = tries


def test_a_callback_runs_once_its_module_is_imported_and_not_when_it_is_looked_for(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "late_module.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[int] = []
    when_imported("late_module", lambda module: seen.append(module.VALUE))
    import importlib.util

    assert importlib.util.find_spec("late_module") is not None
    assert seen == []
    importlib.import_module("late_module")
    assert seen == [1]
    when_imported("late_module", lambda module: seen.append(2))
    assert seen == [1, 2]
    del sys.modules["late_module"]


def test_what_a_run_tells_its_processes_is_read_back() -> None:
    assert read_told({VARIABLE: json.dumps({"w_opd": 0.3})}) == Told(w_opd=0.3)
    assert read_told({}) == Told()
    with pytest.raises(ValueError, match="has no nonsense"):
        read_told({VARIABLE: '{"nonsense": 1}'})
