"""The peer of `tests.bench.oracle`: what TRL's own trainer and loss functions say of the same batches, apart from ours.

`python oracle_peer.py work.json` prints one JSON line: for each batch its numbers by name. It imports nothing of ours;
the model and the adapter are read in float64. TRL samples nothing here: the answers and their rewards are those of the
batch, everything after them is TRL's (`GRPOTrainer._generate_and_score_completions` and `_compute_loss`).
"""

import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.experimental.sdpo.loss_utils import compute_sampled_token_self_distillation_loss

TRL_STD_FLOOR = 1e-4
"""What TRL adds to a std; it has no setting."""


class GivenAnswers(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with answers and rewards that are there already."""

    given: dict[str, Any]

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        rows = self.given["rows"]
        told = [row["completion"] for row in rows]
        return (
            [row["prompt"] for row in rows],
            told,
            [[int(flag) for flag in row["sampled"]] for row in rows],
            ["" for _ in prompts],
            [row["logprobs"] for row in rows],
            {},
            None,
            None,
        )

    def _calculate_rewards(self, *_: Any, **__: Any) -> torch.Tensor:
        return torch.tensor([[row["reward"]] for row in self.given["rows"]], dtype=torch.float64)


def open_model(work: dict[str, Any]) -> Any:
    base: Any = Qwen2ForCausalLM.from_pretrained(work["model"], dtype=torch.float64)
    return PeftModel.from_pretrained(base, work["adapter"], is_trainable=True).double()


def convert(advantages: torch.Tensor, rewards: torch.Tensor, size: int, case: dict[str, Any]) -> torch.Tensor:
    """TRL's advantages with the std that the batch's recipe asks for: the population's instead of the sample's, and of
    group-centred rewards where it is taken over the batch; with the recipe's floor instead of TRL's."""
    scaled = case["trl"]["scale_rewards"]
    if scaled == "none":
        return advantages
    groups = rewards.view(-1, size)
    if scaled == "group":
        theirs, ours = groups.std(1), groups.std(1, correction=0)
        theirs, ours = theirs.repeat_interleave(size), ours.repeat_interleave(size)
    else:
        theirs = rewards.std()
        ours = (groups - groups.mean(1, keepdim=True)).std(correction=0)
    found: torch.Tensor = advantages * (theirs + TRL_STD_FLOOR) / (ours + case["std_floor"])
    return found


def measure_policy(work: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Advantages, loss and the norm of the adapter's gradient, as GRPOTrainer computes them."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(work["model"])
    size, rows = case["group"], case["rows"]
    with tempfile.TemporaryDirectory() as directory:
        config: Any = GRPOConfig(
            output_dir=directory,
            per_device_train_batch_size=len(rows),
            num_generations=size,
            max_completion_length=case["answer_tokens"],
            temperature=case["temperature"],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            log_level="error",
            disable_tqdm=True,
            **case["trl"],
        )
        trainer = GivenAnswers(
            model=open_model(work),
            reward_funcs=lambda **_: [],
            args=config,
            train_dataset=Dataset.from_list([{"prompt": "-"}] * len(rows)),
            processing_class=tokenizer,
        )
    trainer.given = case
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    if case["cap"] is not None:
        trainer.use_vllm, trainer.vllm_importance_sampling_correction = True, True
        trainer.vllm_importance_sampling_mode = "token_truncate"
        trainer.vllm_importance_sampling_clip_min = None
        trainer.vllm_importance_sampling_clip_max = case["cap"]
    batch = trainer._generate_and_score_completions([{"prompt": "-"}] * len(rows))
    rewards = torch.tensor([row["reward"] for row in rows], dtype=torch.float64)
    batch["advantages"] = convert(batch["advantages"].double(), rewards, size, case)
    counted = batch["completion_mask"] * batch["tool_mask"]
    batch["num_items_in_batch"] = counted.sum()
    if case["cap"] is None:
        batch["old_per_token_logps"] = spread([row["logprobs"] for row in rows], batch["completion_ids"].shape)
    if config.beta:  # TRL takes a loaded adapter for the reference; ours is the model without one
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        seen = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        with torch.no_grad(), trainer.model.disable_adapter():
            batch["ref_per_token_logps"], _, _ = trainer._get_per_token_logps_and_entropies(
                trainer.model, ids, seen, batch["completion_ids"].shape[1]
            )
    loss = trainer._compute_loss(trainer.model, batch)
    told = {name: values[-1] for name, values in trainer._metrics["train"].items() if values}
    return {
        "advantages": batch["advantages"].tolist(),
        "loss": float(loss.detach()),
        "grad_norm": measure_gradient(trainer.model, loss),
        **({"kl_base": told["kl"]} if config.beta else {}),
        **({"entropy": told["entropy"]} if config.entropy_coef else {}),
    }


def measure_distillation(work: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """SDPO's loss on sampled tokens, or GKD's reverse KL over all words, each as a mean over tokens.

    SDPO's is the policy's log-prob times its gap to the teacher; what is told of it as the loss is the gap alone.
    """
    model = open_model(work)
    losses: list[torch.Tensor] = []
    gaps: list[torch.Tensor] = []
    for row in case["rows"]:
        told = torch.tensor([row["completion"]])
        student = read_logits(model, row["prompt"], row["completion"])
        with torch.no_grad(), model.disable_adapter():
            teacher = read_logits(model, row["hinted_prompt"], row["completion"])
        if case["kind"] == "sampled":
            lost = compute_sampled_token_self_distillation_loss(student, teacher, told, distillation_alpha=1.0)[0]
            losses.append(lost)
            gaps.append((lost / student.log_softmax(-1).gather(-1, told[..., None])[0, :, 0]).detach())
        else:
            tokens = zip(torch.split(student[0], 1), torch.split(teacher[0], 1), strict=True)
            losses.extend(GKDTrainer.generalized_jsd_loss(one, other, beta=1.0)[None] for one, other in tokens)
    loss = torch.cat(losses).mean()
    found = {"grad_norm": measure_gradient(model, loss)}
    return {**found, "loss": float(torch.cat(gaps).mean() if gaps else loss.detach())}


def read_logits(model: Any, prompt: list[int], completion: list[int]) -> torch.Tensor:
    """(1, T, V) what predicts each token of the completion."""
    logits: torch.Tensor = model(input_ids=torch.tensor([[*prompt, *completion]])).logits
    return logits[:, len(prompt) - 1 : -1]


def spread(values: list[list[float]], shape: torch.Size) -> torch.Tensor:
    padded = torch.zeros(shape, dtype=torch.float64)
    for row, told in zip(padded, values, strict=True):
        row[: len(told)] = torch.tensor(told, dtype=torch.float64)
    return padded


def measure_gradient(model: Any, loss: torch.Tensor) -> float:
    """Global L2 norm by the adapter's trained tensors."""
    weights = [weight for name, weight in model.named_parameters() if weight.requires_grad and ".ref." not in name]
    gradients: Sequence[torch.Tensor | None] = torch.autograd.grad(loss, weights, allow_unused=True)
    return math.sqrt(sum(float((one**2).sum()) for one in gradients if one is not None))


def main() -> None:
    torch.set_num_threads(1)
    work = json.loads(Path(sys.argv[1]).read_bytes())
    found = {
        case["name"]: (measure_policy if case["kind"] == "policy" else measure_distillation)(work, case)
        for case in work["cases"]
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
