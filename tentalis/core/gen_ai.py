"""Names of OpenTelemetry's semantic conventions for generative AI, as we write and read them.

They are "in development" and change from release to release: this is the one place that says them.

Source:
    github.com/open-telemetry/semantic-conventions-genai at v0.1.0 (the conventions' home since v1.41.0); the older
    names that are still sent stand beside those that took their place.
"""

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
SYSTEM: Final = "gen_ai.system"  # the provider until v1.36
AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK_S: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
OLD_INPUT_TOKENS: Final = "gen_ai.usage.prompt_tokens"
OLD_OUTPUT_TOKENS: Final = "gen_ai.usage.completion_tokens"
INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
TOOLS: Final = "gen_ai.tool.definitions"
TOOL_NAME: Final = "gen_ai.tool.name"
EVALUATION: Final = "gen_ai.evaluation.name"
SCORE: Final = "gen_ai.evaluation.score.value"
SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
ERROR_TYPE: Final = "error.type"
USER: Final = "user.id"
SESSION: Final = "session.id"

ASKS_MODEL: Final = frozenset({"chat", "text_completion", "generate_content"})
"""Operations whose span is one request to a model."""
SAMPLING: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "n": "gen_ai.request.choice.count",
}
"""Fields of a chat request, and what says them."""

# ours
TASK: Final = "tentalis.task.id"
STEP: Final = "tentalis.step.index"
WORKER: Final = "tentalis.worker"
PROJECT: Final = "tentalis.project"
ADAPTER: Final = "tentalis.adapter"
