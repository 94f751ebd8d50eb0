# mypy: ignore-errors
"""LangGraph's prebuilt agent on LangChain's OpenAI models, streamed token by token."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from told import KEY, MODEL, QUESTION, V1, say, weather

for is_responses in (False, True):
    model = ChatOpenAI(model=MODEL, base_url=V1, api_key=KEY, use_responses_api=is_responses, stream_usage=True)
    agent = create_agent(model, [tool(weather)], system_prompt=f"Responses: {is_responses}.")
    text = ""
    for piece, _ in agent.stream({"messages": [("user", QUESTION)]}, stream_mode="messages"):
        text += piece.text if piece.type == "AIMessageChunk" else ""
    say(text)
