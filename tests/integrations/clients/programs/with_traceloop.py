# mypy: ignore-errors
"""OpenLLMetry, as Traceloop has it."""

from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from telling import tell

tell(OpenAIInstrumentor())
