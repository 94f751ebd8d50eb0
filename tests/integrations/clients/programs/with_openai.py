# mypy: ignore-errors
"""The `openai` package: both of its dialects, streamed, a tool and back."""

import json

from openai import OpenAI
from told import FUNCTION, KEY, MODEL, QUESTION, V1, say, weather


def chat(client):
    messages = [{"role": "user", "content": QUESTION}]
    while True:
        tools = [{"type": "function", "function": FUNCTION}]
        with client.chat.completions.stream(model=MODEL, messages=messages, tools=tools) as stream:
            message = stream.get_final_completion().choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            found = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})


def respond(client):
    given, previous = [{"role": "user", "content": QUESTION}], None
    while True:
        tools = [{"type": "function", **FUNCTION, "strict": False}]
        with client.responses.stream(model=MODEL, input=given, tools=tools, previous_response_id=previous) as stream:
            response = stream.get_final_response()
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            client.responses.retrieve(response.id)
            client.responses.delete(response.id)
            return response.output_text
        previous = response.id
        given = [
            {"type": "function_call_output", "call_id": call.call_id, "output": weather(**json.loads(call.arguments))}
            for call in calls
        ]


with OpenAI(base_url=V1, api_key=KEY) as openai:
    say(chat(openai))
    say(respond(openai))
    say([model.id for model in openai.models.list()])
