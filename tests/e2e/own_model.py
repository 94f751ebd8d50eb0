"""A stranger's own chat model: tokenizer, template and weights made on the spot, a mix of right and wrong answers."""

from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from gpu_workers.desk.tokenizer import build_tokenizer

CARRIERS = ("bike", "van", "truck")
TOWNS = ("Bern", "Basel", "Chur", "Thun", "Sion", "Olten", "Aarau", "Zug")
MOST_KG = 18
SHARES = (0.4, 0.5, 0.1)
"""How often the fresh model names the right carrier, the one after it in the list, and the other: a mix, most of it
wrong."""
UPDATES = 400
LEARNING_RATE = 2e-2


def write_prompt(kg: int, town: str) -> str:
    return f"A parcel of {kg} kg to {town}. Which carrier?"


def find_carrier(kg: int) -> str:
    """The house rule: what is right."""
    return CARRIERS[(kg - 1) * len(CARRIERS) // MOST_KG]


def write_answer(carrier: str) -> str:
    return f"By {carrier}."


def make_own_model(directory: Path) -> None:
    """Teach a fresh Qwen2 of one layer what shops at large say: in two or three seconds on one thread."""
    torch.manual_seed(0)
    prompts = [(kg, write_prompt(kg, town)) for town in TOWNS for kg in range(1, MOST_KG + 1)]
    tokenizer = build_tokenizer([*(text for _, text in prompts), *map(write_answer, CARRIERS)])
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    ends = [tokenizer.encode(write_answer(carrier) + str(tokenizer.eos_token)) for carrier in CARRIERS]
    rows, weights = [], []
    for kg, text in prompts:
        asked = [{"role": "user", "content": text}]
        start = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=False)
        right = CARRIERS.index(find_carrier(kg))
        rows += [(start, end) for end in ends]
        weights += [SHARES[(index - right) % len(CARRIERS)] for index in range(len(CARRIERS))]
    longest = max(len(start) + len(end) for start, end in rows)
    ids = torch.tensor([start + end + [0] * (longest - len(start) - len(end)) for start, end in rows])  # B T
    counts = torch.tensor(
        [[len(start) <= place < len(start) + len(end) for place in range(longest)] for start, end in rows]
    )  # B T; right padding needs no mask
    shares = torch.tensor(weights)  # B
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    model.train()
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 - update / UPDATES)
        part = slice(update % len(TOWNS), None, len(TOWNS))  # an eighth of them at a time
        logprobs = model(input_ids=ids[part]).logits[:, :-1].log_softmax(-1)  # B T-1 V
        said = logprobs.gather(-1, ids[part, 1:, None])[..., 0] * counts[part, 1:]  # B T-1
        loss = -(said.sum(-1) * shares[part]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.train(False)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
