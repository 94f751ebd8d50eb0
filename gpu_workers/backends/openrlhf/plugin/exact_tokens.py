"""Exact tokens for OpenRLHF's stock trainers, which would write and read them as text and count every one of an answer.

A record's prompt is a JSON list of token ids, an answer `{"ids": […], "counts": […]}`: tools wrote what does not count.
"""

import json
from types import ModuleType
from typing import Any


def read_demonstrations(module: ModuleType) -> None:
    """Let `openrlhf.datasets.sft_dataset` take tokens as they are."""
    dataset = module.SFTDataset
    dataset.process_data = _keep_demonstration
    dataset.__getitem__ = _take_demonstration


def read_pairs(module: ModuleType) -> None:
    """Let `openrlhf.datasets.reward_dataset` take tokens as they are; a pair's `extra` is what counts of both sides."""
    dataset = module.RewardDataset
    dataset.process_data = _keep_pair
    dataset.__getitem__ = _take_pair


def count_some(module: ModuleType) -> None:
    """Let `openrlhf.trainer.dpo_trainer` sum the log-probs of the tokens that count."""
    trainer = module.DPOTrainer
    join = trainer.concatenated_inputs

    def concatenated_inputs(
        self: Any, chosen: Any, chosen_mask: Any, rejected: Any, rejected_mask: Any, counts: Any
    ) -> Any:
        ids, masks, _ = join(self, chosen, chosen_mask, rejected, rejected_mask, [])
        return ids, masks, [pair[0] for pair in counts] + [pair[1] for pair in counts]

    trainer.concatenated_inputs = concatenated_inputs
    trainer._get_batch_logps = _sum_counted


def _keep_demonstration(self: Any, data: Any) -> dict[str, Any]:
    prompt, answer = data[self.input_key], data[self.output_key]
    return {
        "prompt": prompt,
        "response": answer,
        "prompt_ids_len": len(json.loads(prompt)),
        "response_ranges": None,
    }


def _take_demonstration(self: Any, index: int) -> Any:
    """(ids, attention mask, loss mask), (1, T) each; the loss mask is of the next token, as its own is."""
    import torch

    ids, counts = _join(self.prompts[index], self.responses[index])
    counted = torch.tensor([[*counts[1:], False]], dtype=torch.float32)
    tokens = torch.tensor([ids])
    return tokens, torch.ones_like(tokens), counted


def _keep_pair(self: Any, data: Any) -> dict[str, Any]:
    return {
        "prompt": data[self.prompt_key],
        "chosen": data[self.chosen_key],
        "reject": data[self.rejected_key],
        "extra": 0,
    }


def _take_pair(self: Any, index: int) -> Any:
    """(chosen ids, mask, rejected ids, mask, what counts of each), (1, T) each but the last."""
    import torch

    sides = [_join(self.prompts[index], answers[index]) for answers in (self.chosens, self.rejects)]
    chosen, rejected = (torch.tensor([ids]) for ids, _ in sides)
    return chosen, torch.ones_like(chosen), rejected, torch.ones_like(rejected), [counts for _, counts in sides]


def _join(prompt: str, answer: str) -> tuple[list[int], list[bool]]:
    """Ids of prompt and answer, and which of them count."""
    before, after = json.loads(prompt), json.loads(answer)
    return [*before, *after["ids"]], [False] * len(before) + after["counts"]


def _sum_counted(self: Any, per_token_logps: Any, attention_mask: Any, counts: Any) -> Any:
    """Sums and means of the counted tokens' log-probs, (B,) each.

    Args:
        per_token_logps: (B, T-1), of token i+1 at i. counts: B lists, each as long as its row without padding.
    """
    import torch

    counted = torch.zeros_like(per_token_logps)
    for row, each in zip(counted, counts, strict=True):
        row[: len(each) - 1] = torch.tensor(each[1:], dtype=row.dtype)
    sums = (per_token_logps * counted).sum(-1)
    return sums, sums / counted.sum(-1)
