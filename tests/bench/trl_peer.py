"""The peer of `tests.bench.trainer`: TRL's GRPO and SDPO trainers and Hugging Face's generate, apart from ours.

`python trl_peer.py work.json` reads what both sides do and prints one JSON line: seconds a step, and tokens a second.
It imports nothing of ours: rewards arrive as a table of what each ticket's right answer looks like.
"""

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen2ForCausalLM,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.sdpo import SDPOConfig, SDPOTrainer


class Clock(TrainerCallback):  # type: ignore[misc]
    """Wall and CPU seconds at the start of each step and at the end."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.marks.append((time.perf_counter(), time.process_time()))

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.marks.append((time.perf_counter(), time.process_time()))


def load(work: dict[str, Any]) -> Any:
    model: Any = Qwen2ForCausalLM.from_pretrained(work["model"], dtype=torch.float32)
    return model


def train(work: dict[str, Any], tokenizer: PreTrainedTokenizerFast, *, hinted: bool) -> dict[str, float]:
    """Steps as TRL runs them; the first one warms up and is not counted.

    Args:
        hinted: SDPO instead of GRPO: the base without the adapter reads each answer under the ticket's hint.
    """
    answers = dict(zip(work["prompts"], work["answers"], strict=True))
    clock = Clock()
    lengths: list[int] = []

    def reward(prompts: list[Any], completion_ids: list[list[int]], **_: Any) -> list[float]:
        lengths.extend(map(len, completion_ids))
        return [
            float(answers[prompt[-1]["content"]] in tokenizer.decode(ids))
            for prompt, ids in zip(prompts, completion_ids, strict=True)
        ]

    with tempfile.TemporaryDirectory() as directory:
        shared: dict[str, Any] = {
            "output_dir": directory,
            "per_device_train_batch_size": work["tasks"] * work["group"],
            "num_generations": work["group"],
            "max_completion_length": work["max_tokens"],
            "max_steps": work["steps"] + 1,
            "learning_rate": work["learning_rate"],
            "epsilon": 0.2,
            "epsilon_high": 0.28,
            "beta": 0.0,
            "temperature": 1.0,
            "top_k": 0,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "save_strategy": "no",
            "report_to": [],
            "log_level": "error",
            "disable_tqdm": True,
            "shuffle_dataset": False,
        }
        config: Any = GRPOConfig(loss_type="dapo", **shared)
        if hinted:
            config = SDPOConfig(
                distillation_weight=work["distillation_weight"],
                teacher_model_kind="base",
                use_successful_as_teacher=False,
                include_environment_feedback=True,
                reprompt_template="{prompt}{feedback}",
                feedback_template=" Hint: {feedback_raw}.",
                **shared,
            )
        rows = zip(work["prompts"], work["hints"], strict=True)
        trainer = (SDPOTrainer if hinted else GRPOTrainer)(
            model=load(work),
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_list(
                [{"prompt": [{"role": "user", "content": prompt}], "privileged_context": hint} for prompt, hint in rows]
            ),
            processing_class=tokenizer,
            peft_config=LoraConfig(
                r=work["rank"], lora_alpha=work["alpha"], target_modules=work["modules"], task_type="CAUSAL_LM"
            ),
            callbacks=[clock],
        )
        trainer.train()
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(clock.marks, clock.marks[1:], strict=False)][1:]
    walls, cpus = sorted(wall for wall, _ in steps), sorted(cpu for _, cpu in steps)
    return {
        "step_s": walls[len(walls) // 2],
        "step_cpu_s": cpus[len(cpus) // 2],
        "mean_length_tokens": sum(lengths) / len(lengths),
    }


def generate(work: dict[str, Any], tokenizer: PreTrainedTokenizerFast) -> dict[str, float]:
    """Hugging Face's generate on the first step's prompts, all samples in one batch."""
    model = load(work)
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True)
        for prompt in work["prompts"][: work["tasks"]]
        for _ in range(work["group"])
    ]
    batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    end = tokenizer.eos_token_id
    rounds = []
    for number in range(work["steps"] + 1):
        torch.manual_seed(number)
        wall, cpu = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            drawn = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                do_sample=True,
                temperature=1.0,
                top_k=0,
                max_new_tokens=work["max_tokens"],
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=end,
            )[:, batch["input_ids"].shape[1] :]
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        before_end = (drawn == end).long().cumsum(1) - (drawn == end).long() == 0
        tokens = int(before_end.sum())
        rounds.append((tokens / wall, tokens / cpu))
    middle = len(rounds[1:]) // 2
    return {
        "tokens_per_s": sorted(rate for rate, _ in rounds[1:])[middle],
        "tokens_per_cpu_s": sorted(rate for _, rate in rounds[1:])[middle],
    }


def train_model(work: dict[str, Any]) -> dict[str, float]:
    """Steps of GRPO on a pretrained model, as TRL runs them; the first one warms up and is not counted where there are
    more. The most memory that this process ever held."""
    tokenizer = AutoTokenizer.from_pretrained(work["model"])
    clock = Clock()
    lengths: list[int] = []

    def reward(prompts: list[Any], completion_ids: list[list[int]], **_: Any) -> list[float]:
        lengths.extend(map(len, completion_ids))
        return [float(sum(ids) % 2 == 0) for ids in completion_ids]

    with tempfile.TemporaryDirectory() as directory:
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(work["model"], dtype=torch.float32),
            reward_funcs=reward,
            args=GRPOConfig(
                output_dir=directory,
                per_device_train_batch_size=work["tasks"] * work["group"],
                num_generations=work["group"],
                max_completion_length=work["max_tokens"],
                max_steps=work["steps"] + 1,
                learning_rate=work["learning_rate"],
                loss_type="dapo",
                beta=0.0,
                temperature=1.0,
                top_k=0,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                save_strategy="no",
                report_to=[],
                log_level="error",
                disable_tqdm=True,
                shuffle_dataset=False,
            ),
            train_dataset=Dataset.from_list(
                [{"prompt": [{"role": "user", "content": prompt}]} for prompt in work["prompts"]]
            ),
            processing_class=tokenizer,
            peft_config=LoraConfig(
                r=work["rank"], lora_alpha=work["alpha"], target_modules=work["modules"], task_type="CAUSAL_LM"
            ),
            callbacks=[clock],
        )
        trainer.train()
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(clock.marks, clock.marks[1:], strict=False)]
    counted = steps[1:] or steps
    walls, cpus = sorted(wall for wall, _ in counted), sorted(cpu for _, cpu in counted)
    status = Path("/proc/self/status").read_text()
    return {
        "step_s": walls[len(walls) // 2],
        "step_cpu_s": cpus[len(cpus) // 2],
        "mean_length_tokens": sum(lengths) / len(lengths),
        "peak_mib": int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024,
    }


def main() -> None:
    work = json.loads(Path(sys.argv[1]).read_bytes())
    if work.get("kind") == "model":
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        sys.stdout.write(json.dumps(train_model(work)) + "\n")
        return
    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(work["model"])
    found = {
        "grpo": train(work, tokenizer, hinted=False),
        "sdpo": train(work, tokenizer, hinted=True),
        "generate": generate(work, tokenizer),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
