# mypy: ignore-errors
"""OpenInference, as Phoenix has it."""

from openinference.instrumentation.openai import OpenAIInstrumentor
from telling import tell

tell(OpenAIInstrumentor())
