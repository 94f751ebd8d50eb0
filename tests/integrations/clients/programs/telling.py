# mypy: ignore-errors
"""An `openai` client whose instrumentation tells of its calls by OTLP, as the environment says; its models are
elsewhere. One conversation stands alone, the other in an agent's span."""

import json
import os

from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from told import FUNCTION, QUESTION, say, weather


def chat(client):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    while True:
        with client.chat.completions.stream(
            model="base",
            messages=messages,
            tools=[{"type": "function", "function": FUNCTION}],
            temperature=0.5,
            stream_options={"include_usage": True},
        ) as stream:
            message = stream.get_final_completion().choices[0].message
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            found = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})


def tell(instrumentor):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    instrumentor.instrument(tracer_provider=provider)
    with OpenAI(base_url=os.environ["CLIENT_ELSEWHERE"], api_key="elsewhere") as client:
        say(chat(client))
        with provider.get_tracer("an.agent").start_as_current_span("invoke_agent clerk"):
            say(chat(client))
    provider.shutdown()
