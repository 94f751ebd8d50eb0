# mypy: ignore-errors
"""Strands' agent on its OpenAI and Anthropic models; it always streams."""

from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.models.openai import OpenAIModel
from told import KEY, MODEL, QUESTION, ROOT, V1, say, weather

for model in (
    OpenAIModel(client_args={"base_url": V1, "api_key": KEY}, model_id=MODEL),
    AnthropicModel(client_args={"base_url": ROOT, "api_key": KEY}, model_id=MODEL, max_tokens=99),
):
    agent = Agent(model, tools=[tool(weather)], system_prompt=type(model).__name__, callback_handler=None)
    say(agent(QUESTION))
