"""A reward model whose base stays as it is: its head alone is trained and saved, for any server of that base."""

from pathlib import Path
from typing import Any

HEAD_FILE = "reward_head.safetensors"
WEIGHT = "weight"


def train_head_alone(module: Any) -> None:
    """Let `openrlhf.models.model` make reward models whose base is frozen."""
    make = module.get_llm_for_sequence_regression

    def get_llm_for_sequence_regression(*args: Any, **kwargs: Any) -> Any:
        model = make(*args, **kwargs)
        head = f"{model.value_head_prefix}.{WEIGHT}"
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name == head

        def save_pretrained(directory: str, state_dict: Any = None, **_: Any) -> None:
            from safetensors.torch import save_file

            tensors = model.state_dict() if state_dict is None else state_dict
            save_file({WEIGHT: tensors[head].cpu().contiguous()}, Path(directory) / HEAD_FILE)

        model.save_pretrained = save_pretrained
        return model

    module.get_llm_for_sequence_regression = get_llm_for_sequence_regression
