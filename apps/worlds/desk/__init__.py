"""The ticket desk: a small world in which every attempt can be verified, and the built-in model that works there."""

from apps.worlds.desk.agent import BASE_MODEL, MAX_TOKENS, DeskAgent
from apps.worlds.desk.form import DeskForm
from apps.worlds.desk.world import DeskWorld
from tentalis.core.checked import Number
from tentalis.core.worlds import Agent, AgentKind, AgentSeat


def _make_agent(seat: AgentSeat) -> Agent:
    return DeskAgent(
        seat.client, base_model=seat.base_model, system_prompt=seat.system_prompt, top_k=seat.top_k, **seat.sampling
    )


WORLD = DeskWorld()
AGENT = AgentKind(
    name="desk",
    label="Desk (the built-in model and its ticket world)",
    about="The built-in model and its world of tickets: to see the whole loop without a model.",
    make=_make_agent,
    environment=WORLD.name,
    sampling={
        "temperature": Number(low=0, high=2, is_whole=False),
        "max_tokens": Number(low=8, high=128, is_whole=True),
    },
    longest_try=MAX_TOKENS,
    base_model=BASE_MODEL,
    recipe="desk",
    form=DeskForm(),
    finishes=True,
)
