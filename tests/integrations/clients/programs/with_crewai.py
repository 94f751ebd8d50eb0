# mypy: ignore-errors
"""CrewAI: a crew of one with a tool, streamed."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from told import KEY, MODEL, QUESTION, V1, say, weather

llm = LLM(model=f"openai/{MODEL}", base_url=V1, api_key=KEY, stream=True)
teller = Agent(role="Teller", goal="Tell the weather", backstory="Born outdoors.", llm=llm, tools=[tool(weather)])
task = Task(description=QUESTION, expected_output="A sentence.", agent=teller)
say(Crew(agents=[teller], tasks=[task], verbose=False).kickoff())
