# mypy: ignore-errors
"""LangChain's agent on its Anthropic model, streamed token by token."""

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from told import KEY, MODEL, QUESTION, ROOT, say, weather

model = ChatAnthropic(model=MODEL, base_url=ROOT, api_key=KEY, max_tokens=99)
text = ""
for piece, _ in create_agent(model, [tool(weather)]).stream({"messages": [("user", QUESTION)]}, stream_mode="messages"):
    text += piece.text if piece.type == "AIMessageChunk" else ""
say(text)
