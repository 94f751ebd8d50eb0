# mypy: ignore-errors
"""The same under its name until 2026."""

from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from telling import tell

tell(OpenAIInstrumentor())
