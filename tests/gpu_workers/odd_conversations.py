"""Conversations as no client ought to send them, and what they were rendered with: drawn, never the same twice."""

import random
from collections.abc import Callable
from typing import Any

from tests.gpu_workers.templated import CALL, TOOLS

ODD: list[Callable[[random.Random], Any]] = [
    lambda rng: "words",
    lambda rng: "",
    lambda rng: None,
    lambda rng: 7,
    lambda rng: {"text": "an object"},
    lambda rng: ["a bare string"],
    lambda rng: [{"type": "text", "text": "a part"}] * rng.randrange(3),
    lambda rng: [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}],
    lambda rng: [{"type": "text"}, None, 3],
    lambda rng: "{" * rng.randrange(1, 50) + '{"a": ' * rng.randrange(50),
    lambda rng: "{% raw %}{{ messages }}\x00\u2028",
]
ODD_CALLS: list[Any] = [
    None, [], {}, "call", [None], [{}], [CALL], [CALL, CALL], [{"function": {"name": "x"}}],
    [{"function": {"name": "x", "arguments": "no JSON"}}], [{"function": {"name": "x", "arguments": {"a": [1]}}}],
    [{"function": "x"}], [{"type": "custom", "custom": {"name": "y", "input": "z"}}],
]  # fmt: skip
ODD_RENDERINGS: list[Any] = [
    {}, {"tools": TOOLS}, {"tools": "none"}, {"tools": [None, 1]}, {"tools": [{}]}, {"served_at": "yesterday"},
    {"chat_template_kwargs": {"messages": []}}, {"chat_template_kwargs": [1]}, {"served_at": 7},
    {"tool_choice": "none", "tools": TOOLS}, {"add_generation_prompt": "?"}, {"documents": [{"text": "x"}]},
    {"chat_template_kwargs": {"tools": 3, "enable_thinking": 1}},
]  # fmt: skip


def make_odd_conversation(rng: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """A conversation as some client sent it, and what it was rendered with."""
    messages = []
    for _ in range(rng.randrange(1, 6)):
        message: dict[str, Any] = {"role": rng.choice(["user", "assistant", "tool", "system", "developer", "model"])}
        if rng.random() < 0.9:
            message["content"] = rng.choice(ODD)(rng)
        if rng.random() < 0.3:
            message["tool_calls"] = rng.choice(ODD_CALLS)
        if rng.random() < 0.1:
            message["reasoning_content"] = rng.choice(["because", None, 3])
        messages.append(message)
    return messages, rng.choice(ODD_RENDERINGS)
