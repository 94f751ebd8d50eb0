"""GRPO with on-policy distillation: the hinted teacher's word added to each token's advantage.

OpenRLHF 0.11.2 distils nothing. Its clipped loss takes any advantage a token has, so that
`w_rl * A + w_opd * clip(log p_teacher(token | hint) - log p_student(token))` is all there is to add. Its mean is over
all tokens of an update, ours of a hint's loss over those of hinted answers, or of the share that the recipe wants at
least: the gaps are scaled up by what share of the rollouts' tokens those are.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from .told import Told

AT_ONCE = 16
TIMEOUT_S = 120
TRIES = 5


def score_under_hint(told: Told, prompt: Sequence[int], answer: Sequence[int]) -> list[float]:
    """Log-probs, in nats, that the teacher gives each token of `answer` after the hinted `prompt`.

    Raises:
        RuntimeError: the teacher could not be asked, or its answer lacks a token.
    """
    body = {
        "model": told.teacher_model,
        "prompt": [*prompt, *answer],
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": 0,
        "logprob_start_len": len(prompt),  # the Tentalis engine leaves out what stands before; vLLM tells all
    }
    request = urllib.request.Request(  # noqa: S310  # the address is the operator's
        told.teacher_url.rstrip("/") + "/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    said = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(min(2.0**attempt, 10.0))
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answered:  # noqa: S310
                choice = json.load(answered)["choices"][0]
            found = choice["prompt_logprobs"][len(prompt) :][: len(answer)]
            return [float(entry[str(token)]["logprob"]) for entry, token in zip(found, answer, strict=True)]
        except urllib.error.HTTPError as error:
            said = f"{error.code} {error.read(300)!r}"
            if error.code < 500 and error.code != 429:
                break
        except (OSError, KeyError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
    raise RuntimeError(f"the teacher at {told.teacher_url} did not score an answer: {said}")


def weigh_advantages(module: ModuleType, told: Told) -> None:
    """Let the experience maker of `openrlhf.trainer.ppo_trainer` add the teacher's word."""
    import torch

    if not told.teacher_url and told.w_rl == 1.0:
        return
    base = module.RemoteExperienceMaker

    class DistillingExperienceMaker(base):  # type: ignore[misc, valid-type]
        @torch.no_grad()
        def compute_advantages_and_returns(self, experiences: list[Any]) -> list[Any]:
            experiences = super().compute_advantages_and_returns(experiences)
            for experience in experiences:
                experience.advantages = told.w_rl * experience.advantages
            if told.teacher_url:
                add_gaps(experiences, told)
            return experiences

    module.RemoteExperienceMaker = DistillingExperienceMaker  # type: ignore[attr-defined]


def add_gaps(experiences: Sequence[Any], told: Told) -> None:
    """Add each hinted answer's gaps to its advantages, and the mean gap to what is logged.

    Fields of an experience: sequences (B, T), attention_mask (B, T), action_mask and action_log_probs and advantages
    (B, T - 1), whose entry i is about token i + 1; labels (B,) JSON with `hinted_prompt_token_ids` where there is a
    hint, and `weight`, the rollout's.
    """
    import torch

    asked: list[tuple[Any, int, int, int, float, list[int], list[int]]] = []
    for experience in experiences:
        rows = len(experience.sequences)
        experience.info["opd_gap"] = torch.zeros(rows)
        experience.info["opd_hinted"] = torch.zeros(rows)
        for row in range(rows):
            label = json.loads(experience.labels[row])
            hinted = label.get("hinted_prompt_token_ids")
            acted = torch.where(experience.action_mask[row] > 0)[0]
            if not hinted or not len(acted):
                continue
            first, end = int(acted[0]), int(acted[-1]) + 1
            answer = experience.sequences[row, first + 1 : end + 1].tolist()
            asked.append((experience, row, first, end, float(label.get("weight", 1.0)), hinted, answer))
    with ThreadPoolExecutor(AT_ONCE) as asking:
        found = list(asking.map(lambda one: score_under_hint(told, one[5], one[6]), asked))
    acts = float(sum(experience.action_mask.sum() for experience in experiences))
    hinted = sum(float(each.action_mask[row].sum()) for each, row, *_ in asked)
    share = max(told.opd_least_share, hinted / max(1.0, acts))
    for (experience, row, first, end, weight, _, _), logprobs in zip(asked, found, strict=True):
        part = slice(first, end)
        counts = experience.action_mask[row, part].float()
        student = experience.action_log_probs[row, part].float()
        gap = (torch.tensor(logprobs) - student).clamp(-told.opd_clip, told.opd_clip) * counts * weight
        experience.advantages[row, part] += (told.w_opd / share * gap).to(experience.advantages.dtype)
        experience.info["opd_gap"][row] = gap.sum() / counts.sum()
        experience.info["opd_hinted"][row] = 1.0
