# mypy: ignore-errors
"""OpenTelemetry's instrumentation of `openai`."""

from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from telling import tell

tell(OpenAIInstrumentor())
