"""The built-in desk worker: a Qwen2-format model of 136,128 parameters, its tokenizer, and the command that makes both.

`python -m gpu_workers.desk build --out DIR` makes the checkpoint in `base/` again from nothing.
"""

from pathlib import Path


def base_directory() -> Path:
    """The directory of the committed base model: config, tokenizer, safetensors, metrics.json."""
    return Path(__file__).resolve().parent / "base"
