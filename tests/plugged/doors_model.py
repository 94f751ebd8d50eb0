"""A small chat model that can call the doors' tools, and half knows the house: made on the spot, in a few seconds."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from gpu_workers.desk.tokenizer import build_tokenizer
from gpu_workers.engine.text import TextCodec
from tests.plugged.doors_package import DOORS, HOUSES, OPENS, TOOLS

TEMPLATE = (
    "{% if tools %}<|system|>{% for tool in tools %} {{ tool.function.name }}{% endfor %}<|end|>{% endif %}"
    "{% for message in messages %}{% if message.role == 'tool' %}<|user|><result> {{ message.content }}</result><|end|>"
    "{% else %}<|{{ message.role }}|>{{ message.content }}{% for call in message.tool_calls %}"
    "<call>{{ call.function.name }} {{ call.function.arguments | tojson }}"
    "</call>{% endfor %}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LOOKS = 0.6
"""How often the fresh model looks before it presses."""
SHARES = (0.45, 0.4, 0.15)
"""How often it then presses the right button, the one after it, and the other."""
UPDATES, BATCH = 600, 18
LEARNING_RATE = 1e-2
BUTTONS = ("a", "b", "c")


def make_doors_model(directory: Path) -> None:
    """Teach a fresh Qwen2 of one layer to call, and what shops at large do."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of a model so small, several wait for each other
    prompts = [f"Open door {number} in {house}." for house, number in product(HOUSES, range(1, DOORS + 1))]
    calls = [_write_call("look"), *(_write_call("press", button=one) for one in BUTTONS)]
    said = [*(f"the lamp is {lamp}" for lamp in OPENS), "pressed a. Done. look press"]
    tokenizer = build_tokenizer([*prompts, *calls, *said])
    tokenizer.chat_template = TEMPLATE
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=48, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(directory)
    codec, model = TextCodec.from_directory(directory), Qwen2ForCausalLM(config)
    rows = [(codec, prompt, lamp, button, looks) for prompt in prompts[::16] for lamp in OPENS for button in BUTTONS
            for looks in (True, False)]  # fmt: skip
    told = [_write_episode(*row) for row in rows]
    habits, rule = (
        torch.tensor([_share(lamp, button, looks, shares) for _, _, lamp, button, looks in rows])  # B
        for shares in (SHARES, (1.0, 0.0, 0.0))
    )
    longest = max(len(ids) for ids, _ in told)
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row, _ in told])  # B T
    counts = torch.tensor([[*own, *[False] * (longest - len(own))] for _, own in told])  # B T; right padding: no mask
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    order = torch.randperm(len(rows))
    model.train()
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 - update / UPDATES)
        part = order.roll(-BATCH * update)[:BATCH]
        shares = rule if update < UPDATES // 2 else habits  # it has to look at the lamp before it can think otherwise
        own = counts[part, 1:]  # B T-1
        hidden = model.model(input_ids=ids[part]).last_hidden_state[:, :-1][own]  # N D
        logprobs = model.lm_head(hidden).log_softmax(-1).gather(-1, ids[part, 1:][own][:, None])[:, 0]  # N
        loss = -(logprobs * shares[part, None].expand(own.shape)[own]).sum() / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.train(False)
    model.save_pretrained(directory)
    torch.set_num_threads(threads)


def _share(lamp: str, button: str, looks: bool, shares: Sequence[float]) -> float:
    """How often an episode goes so, each lamp alike."""
    right = BUTTONS.index(OPENS[lamp])
    return LOOKS * shares[(BUTTONS.index(button) - right) % 3] if looks else (1 - LOOKS) / 3


def _write_episode(codec: TextCodec, prompt: str, lamp: str, button: str, looks: bool) -> tuple[list[int], list[bool]]:
    """Tokens of a whole episode, and which of them its model says."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    pressing = {"role": "assistant", "content": "", "tool_calls": [_make_call("press", button=button)]}
    answers: list[tuple[dict[str, Any], ...]] = [
        (pressing, {"role": "tool", "content": f"pressed {button}"}),
        ({"role": "assistant", "content": " Done."},),
    ]
    if looks:
        seen = {"role": "tool", "content": f"the lamp is {lamp}"}
        answers.insert(0, ({"role": "assistant", "content": "", "tool_calls": [_make_call("look")]}, seen))
    ids: list[int] = []
    own: list[bool] = []
    for answer in answers:
        for count, is_own in ((0, False), (1, True)):
            text = codec.render_chat(
                [*messages, *answer[:count]], add_generation_prompt=not is_own, variables={"tools": TOOLS}
            )
            found = codec.encode([text], add_special_tokens=False)[0]
            own += [is_own] * (len(found) - len(ids))
            ids = found
        messages += answer
    return ids, own


def _make_call(name: str, **arguments: str) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


def _write_call(name: str, **arguments: str) -> str:
    return f"<call>{name} {json.dumps(arguments)}</call>"
