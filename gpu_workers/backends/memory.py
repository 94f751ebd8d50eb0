"""What a training needs of the machine's memory, computed from shapes before anything is computed from weights."""

from typing import Any

import torch

ROOM_BYTES = 2**33
"""For what a micro-batch keeps until its backward pass, in main memory."""
ROOM_SHARE = 0.5
"""The same of a GPU, as a share of its memory."""


def find_room(device: torch.device) -> float:
    """Bytes for what a micro-batch keeps until its backward pass."""
    if device.type != "cuda":
        return ROOM_BYTES
    return ROOM_SHARE * torch.cuda.get_device_properties(device).total_memory


def count_layer_numbers(config: Any) -> int:
    """Numbers that a token keeps of each layer until the backward pass.

    What goes into each norm and comes out of it, queries, keys, values and what attention makes of them, gate and up,
    the activation of the gate and its product with up.

    Args:
        config: Hugging Face's, of a decoder.
    """
    width, heads = config.hidden_size, config.num_attention_heads
    inner = getattr(config, "intermediate_size", None) or 4 * width
    head_width = getattr(config, "head_dim", None) or width // heads
    attention = (2 * heads + 2 * (getattr(config, "num_key_value_heads", None) or heads)) * head_width
    outputs = 2 * width if getattr(config, "model_type", "") == "gemma3_text" else 0
    return int(4 * width + outputs + attention + 4 * inner)
