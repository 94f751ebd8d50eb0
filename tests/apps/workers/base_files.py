"""A base model's files, small enough to write in a test: what is read of them, and nothing that could be run."""

import json
from pathlib import Path

WORDS = ("alpha", "beta", "gamma", "delta", "ham", "egg", "tea", "rye")


def write_base(directory: Path, *, width: int = 64, words: tuple[str, ...] = WORDS) -> Path:
    """Config, tokenizer and the head of a weights file with one tensor of width x width numbers."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "llama", "hidden_size": width, "max_position_embeddings": 512}
    (directory / "config.json").write_text(json.dumps(config))
    vocabulary = {word: number for number, word in enumerate(words)}
    (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    head = json.dumps({"w": {"dtype": "F32", "shape": [width, width], "data_offsets": [0, 4 * width * width]}}).encode()
    (directory / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    return directory
