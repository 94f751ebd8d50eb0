# mypy: ignore-errors
"""Google's Agent Development Kit through its LiteLLM model, streamed."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part
from told import KEY, MODEL, QUESTION, V1, say, weather


async def main():
    model = LiteLlm(model=f"openai/{MODEL}", api_base=V1, api_key=KEY)
    runner = InMemoryRunner(LlmAgent(name="teller", model=model, tools=[weather]), app_name="teller")
    session = await runner.session_service.create_session(app_name="teller", user_id="carol")
    asked = Content(role="user", parts=[Part(text=QUESTION)])
    config = RunConfig(streaming_mode=StreamingMode.SSE)
    said = ""
    async for event in runner.run_async(user_id="carol", session_id=session.id, new_message=asked, run_config=config):
        if event.is_final_response() and event.content:
            said = "".join(part.text or "" for part in event.content.parts)
    say(said)


asyncio.run(main())
