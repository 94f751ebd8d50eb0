# mypy: ignore-errors
"""The `anthropic` package: its own loop over tools, streamed."""

from anthropic import Anthropic, beta_tool
from told import KEY, MODEL, QUESTION, ROOT, say, weather

with Anthropic(base_url=ROOT, api_key=KEY) as client:
    asked = [{"role": "user", "content": QUESTION}]
    runner = client.beta.messages.tool_runner(
        model=MODEL, max_tokens=99, tools=[beta_tool(weather)], messages=asked, stream=True
    )
    for stream in runner:
        message = stream.get_final_message()
    say(message.content[-1].text)
    say(client.messages.count_tokens(model=MODEL, messages=asked).input_tokens)
    say([model.id for model in client.models.list()])
