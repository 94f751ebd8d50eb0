"""How an answer comes about: token by token as vLLM gave them, with the task's own tools, and rewarded by the platform.

OpenRLHF loads this file by its path (`--train.agent_func_path`), so that it imports none of its neighbours.
"""

import asyncio
import json
import os
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import aiohttp
from openrlhf.utils.agent import AgentExecutorBase

URL_VARIABLE = "TENTALIS_REWARD_URL"
TIMEOUT_S = 180.0
TRIES = 8
MAX_TURNS = 16


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc]
    """One answer to one prompt. A tool's result is part of the tokens, and no action."""

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """See OpenRLHF's `AgentExecutorBase`. Raises RuntimeError where no reward is to be had: it ends the run."""
        told = json.loads(label)
        ids: list[int] = list(told["prompt_token_ids"])
        end = min(max_length, len(ids) + (sampling_params.max_tokens or max_length))
        logprobs: list[float] | None = None if sampling_params.logprobs is None else [0.0] * len(ids)
        actions: list[tuple[int, int]] = []
        parts: list[dict[str, Any]] = []
        if len(ids) >= end:
            raise RuntimeError(f"a prompt of {len(ids)} tokens leaves no room for an answer within {max_length}")
        for _ in range(MAX_TURNS):
            params = deepcopy(sampling_params)
            params.max_tokens = end - len(ids)
            params.stop_token_ids = list(told.get("stop_token_ids", ()))
            output = (await llm_engine.generate(ids, params)).outputs[0]
            made = list(output.token_ids)
            actions.append((len(ids), len(ids) + len(made)))
            ids = ids + made
            if logprobs is not None:
                logprobs += [step[token].logprob for step, token in zip(output.logprobs, made, strict=True)]
            is_cut = output.finish_reason == "length"
            parts.append({"text": hf_tokenizer.decode(made, skip_special_tokens=False), "sampled": True})
            found = await _ask(prompt, label, hf_tokenizer, ids, parts, is_cut=is_cut)
            if "feedback" not in found:
                break
            result = hf_tokenizer(found["feedback"], add_special_tokens=False)["input_ids"]
            if len(ids) + len(result) >= end:
                is_cut = True
                found = await _ask(prompt, label, hf_tokenizer, ids, parts, is_cut=True)
                break
            ids = ids + list(result)
            if logprobs is not None:
                logprobs += [0.0] * len(result)
            parts.append({"text": found["feedback"], "sampled": False})
        if "rewards" not in found:
            raise RuntimeError(f"the answer called tools more than {MAX_TURNS} times and was never rewarded")
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "mm_train_inputs": None,
            "observation_tokens": ids,
            "action_ranges": actions,
            "rollout_log_probs": logprobs,
            "truncated": is_cut,
            "reward": float(found["rewards"]),
            "scores": float(found.get("scores", found["rewards"])),
            "extra_logs": {name: float(value) for name, value in found.get("extra_logs", {}).items()},
        }


async def _ask(
    prompt: str, label: str, tokenizer: Any, ids: Sequence[int], parts: Sequence[dict[str, Any]], *, is_cut: bool
) -> dict[str, Any]:
    """The platform's word on the answer so far: its reward, or what the tool it called says."""
    body = {
        "query": [tokenizer.decode(ids, skip_special_tokens=False)],
        "prompts": [prompt],
        "labels": [label],
        "parts": parts,
        "is_cut": is_cut,
    }
    said = ""
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(min(2.0**attempt, 30.0))
        try:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(os.environ[URL_VARIABLE], json=body) as response,
            ):
                if response.status == 200:
                    found: dict[str, Any] = json.loads(await response.text())
                    return found
                said = f"{response.status} {(await response.text())[:300]}"
                if response.status < 500 and response.status not in {408, 425, 429}:
                    break
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
    raise RuntimeError(f"no reward for an answer: {said}")
