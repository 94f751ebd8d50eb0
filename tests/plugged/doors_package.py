"""A package as a stranger would write it: a world with two tools and a state. It is installed by its entry point alone.

A door has a lamp that only `look` tells of, and three buttons, of which the lamp's colour says which opens it.
"""

from random import Random
from typing import Any

from tentalis.core.worlds import EpisodeLimits, Observation, PanelItem, Solution, ToolCall, Verification, World

OPENS = {"red": "a", "green": "c", "blue": "b"}
HOUSES = ("Bern", "Basel", "Chur", "Thun", "Sion", "Olten", "Aarau", "Zug")
DOORS = 24


def write_tool(name: str, about: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


TOOLS = (
    write_tool("look", "What colour the lamp has."),
    write_tool("press", "Press a button, once.", button={"enum": ["a", "b", "c"]}),
)


class DoorsWorld(World):
    name = "doors"
    label = "Doors"
    noun = "door"
    profile = {"outcome": 1.0}
    version = "1"
    limits = EpisodeLimits(turns=6, tokens=400)
    idempotent = True
    chance = 1 / 3

    def check_prompt(self, prompt: str) -> None:
        if not prompt.startswith("Open door "):
            raise ValueError(f"wanted Open door N in HOUSE, found {prompt!r:.40}")

    def draw_prompt(self, rng: Random) -> str:
        while self.is_held_out(prompt := f"Open door {rng.randint(1, DOORS)} in {rng.choice(HOUSES)}."):
            pass
        return prompt

    def is_held_out(self, prompt: str) -> bool:
        return prompt.endswith((" Sion.", " Zug."))

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        rng = Random(seed)
        doors = [f"Open door {number} in {house}." for number in range(1, DOORS + 1) for house in ("Sion", "Zug")]
        return [PanelItem(prompt=rng.choice(doors), seed=rng.randrange(2**31)) for _ in range(size)]

    def tools(self, prompt: str) -> Any:
        return TOOLS

    def reset(self, prompt: str, seed: int | None) -> dict[str, str]:
        return {"lamp": Random(f"{prompt}/{seed}").choice(sorted(OPENS)), "pressed": ""}

    def act(self, state: dict[str, str], call: ToolCall, key: str) -> Observation:
        if call.name == "look":
            return Observation(text=f"the lamp is {state['lamp']}")
        state["pressed"] = state["pressed"] or call.arguments.split('"')[-2]
        return Observation(text=f"pressed {state['pressed']}")

    def verify_state(self, prompt: str, reference: Any, state: dict[str, str], draft: Any) -> Verification:
        is_open = state["pressed"] == OPENS[state["lamp"]]
        return Verification(outcome=float(is_open), step_scores=[None] * len(draft.steps))

    def solve(self, prompt: str, seed: int | None) -> Solution:
        button = OPENS[self.reset(prompt, seed)["lamp"]]
        return Solution(calls=[ToolCall(id="0", name="press", arguments=f'{{"button": "{button}"}}')])
