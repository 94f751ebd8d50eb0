"""The apprentice's tokenizer and chat template: tools' names alone, calls in our own tags."""

from collections.abc import Sequence
from typing import Final

from transformers import PreTrainedTokenizerFast

from gpu_workers.apprentice.lessons import Lesson
from gpu_workers.desk.tokenizer import build_tokenizer

TAGS: Final = (
    "<call>", "</call>", "<result>", "</result>", "[exit 0]", ' {"command": "', ' {"path": "', '", "line": ',
    ', "text": "', '"}', "    ",
    ' {"query": "', ' {"tool": "', '", "args": {"', '": "', '", "', '":', '"}}', "}}",
)  # fmt: skip
"""Ordinary tokens: what marks calls and results, and what stands in most of them."""
CHAT_TEMPLATE: Final = (
    "{% if tools %}<|system|>{% for tool in tools %} {{ tool.function.name }}{% endfor %}<|end|>{% endif %}"
    "{% for message in messages %}{% if message.role == 'tool' %}<|user|><result>{{ message.content }}</result><|end|>"
    "{% else %}<|{{ message.role }}|>{{ message.content or '' }}{% for call in message.tool_calls or [] %}"
    "<call>{{ call.function.name }} {{ call.function.arguments | tojson }}</call>{% endfor %}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MOST_TOKENS: Final = 1_400
CONTEXT_TOKENS: Final = 2_048


def make_tokenizer(lessons: Sequence[Lesson]) -> PreTrainedTokenizerFast:
    """Train it on lessons; the same lessons give the same ids."""
    texts = [_spell(lesson) for lesson in lessons]
    return build_tokenizer(texts, tags=TAGS, template=CHAT_TEMPLATE, most_tokens=MOST_TOKENS, context=CONTEXT_TOKENS)


def _spell(lesson: Lesson) -> str:
    """All its words, without the template's marks."""
    parts = []
    for message in lesson.messages:
        parts.append(str(message.get("content") or ""))
        for call in message.get("tool_calls", ()):
            function = call["function"]
            parts += [str(function["name"]), *(str(value) for value in function["arguments"].values())]
    parts += [f" {tool['function']['name']}" for tool in lesson.tools]
    return "\n".join(parts)
