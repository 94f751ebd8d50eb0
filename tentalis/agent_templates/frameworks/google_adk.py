"""An agent of Google's Agent Development Kit, whose model LiteLLM asks."""

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # before it is imported: it would ask the network

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from .tools import TOOLS

APP = "agent"


class Agent:
    """ADK's agent with its tools."""

    label = "Google ADK"

    async def arun(self, task, config) -> None:
        more = {} if config.seed is None else {"seed": config.seed}
        model = LiteLlm(
            model=f"openai/{config.model}",
            api_base=config.base_url,
            api_key=config.api_key,
            timeout=config.timeout_s,
            **more,
        )
        sampling = types.GenerateContentConfig(
            temperature=config.temperature, top_p=config.top_p, max_output_tokens=config.max_tokens
        )
        agent = LlmAgent(
            name=APP, model=model, instruction=task.system_prompt, tools=list(TOOLS), generate_content_config=sampling
        )
        runner = InMemoryRunner(agent, app_name=APP)
        session = await runner.session_service.create_session(app_name=APP, user_id="task")
        mode = StreamingMode.SSE if config.stream else StreamingMode.NONE
        said = types.Content(role="user", parts=[types.Part(text=task.prompt)])
        async for _ in runner.run_async(
            user_id="task", session_id=session.id, new_message=said, run_config=RunConfig(streaming_mode=mode)
        ):
            pass
