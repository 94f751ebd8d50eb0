"""The built-in apprentice: a small Qwen2-format model that calls tools, and the command that makes it.

`python -m gpu_workers.apprentice build --out DIR` makes the checkpoint in `base/` again from nothing.
"""

from pathlib import Path


def base_directory() -> Path:
    """The directory of the committed model: config, tokenizer, safetensors, metrics.json."""
    return Path(__file__).resolve().parent / "base"
