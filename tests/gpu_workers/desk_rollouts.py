"""Rollouts of the desk's own model, with a hint each, for tests that ask a server about their tokens."""

from functools import cache

import torch

from gpu_workers.backends.base_models import load_base
from tentalis.core.contracts import RolloutRecord
from tests.gpu_workers.hugging_face import module_of

TICKETS = (
    "refund for order 4417 please",
    "my parcel is late, where is it",
    "change the address of order 93",
    "the invoice is wrong",
)
HINT = "house rule: say sorry first, then the step"


@cache
def make_desk_rollouts(*, size: int = 4, seed: int = 0) -> tuple[RolloutRecord, ...]:
    """`size` answers drawn from the desk's model to each ticket, even ones right, with its own log-probs."""
    base, rollouts = load_base("desk"), []
    module = module_of(base)
    random = torch.Generator().manual_seed(seed)
    for group, ticket in enumerate(TICKETS):
        messages = [{"role": "user", "content": ticket}]
        hinted = [{"role": "user", "content": f"{ticket} {HINT}"}]
        prompt = list(base.read_prompt(messages))
        for index in range(size):
            tokens: list[int] = []
            logprobs: list[float] = []
            with torch.no_grad():
                while len(tokens) < 8 + 3 * index:
                    spread = module(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, -1].log_softmax(-1)
                    tokens.append(int(torch.multinomial(spread.exp(), 1, generator=random)))
                    logprobs.append(float(spread[tokens[-1]]))
            rollouts.append(
                RolloutRecord(
                    rollout_id=group * size + index,
                    group_id=group,
                    adapter="",
                    policy_version=0,
                    messages=messages,
                    hinted_messages=hinted,
                    prompt_token_ids=prompt,
                    token_ids=tokens,
                    logprobs=logprobs,
                    sampled=[True] * len(tokens),
                    reward=float(index % 2 == 0),
                )
            )
    return tuple(rollouts)
