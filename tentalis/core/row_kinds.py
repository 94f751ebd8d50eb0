"""What of an exported row is its content, and the hash of that: the same wherever the rows are.

Ids, times and names of who did what are a project's own; what is learned from, or asked, is not.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from tentalis.core.canon import canonical_json

CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "tasks": ("prompt", "reference", "metadata", "group_size", "seed"),
    "preferences": ("prompt", "chosen", "rejected"),
    "stepwise": ("prompt", "completions", "labels"),
    "kto": ("prompt", "completion", "label"),
    "sft": ("messages",),
    "rollouts": ("prompt_token_ids", "token_ids", "logprobs", "sampled", "reward", "messages"),
}
"""Kind of rows -> the columns that are its content."""


class ContentHash:
    """SHA-256 over the content of rows of one kind, a canonical JSON line each, in their order; absent is null."""

    def __init__(self, kind: str) -> None:
        self._names = CONTENT[kind]
        self._hash = hashlib.sha256()

    def add(self, row: Mapping[str, Any]) -> None:
        self._hash.update(canonical_json({name: row.get(name) for name in self._names}) + b"\n")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
