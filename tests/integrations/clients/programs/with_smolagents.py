# mypy: ignore-errors
"""smolagents' agent that calls tools, streamed."""

from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from told import KEY, MODEL, QUESTION, V1, say, weather

model = OpenAIServerModel(model_id=MODEL, api_base=V1, api_key=KEY)
agent = ToolCallingAgent(tools=[tool(weather)], model=model, max_steps=4, verbosity_level=0, stream_outputs=True)
say(agent.run(QUESTION))
