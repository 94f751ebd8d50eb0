"""OpenEnv's protocol from both sides: our worlds behind it, and a server's world among ours."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
import uvicorn
from django.core.management import CommandError, call_command
from websockets.http11 import Request, Response
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, serve

from apps.worlds.elsewhere.openenv import OpenEnvWorld, ServerFaultError
from apps.worlds.episodes import Episode
from apps.worlds.identity import name_world
from apps.worlds.openenv import make_app
from apps.worlds.playing import play
from apps.worlds.registry import WORLDS, get_world
from apps.worlds.trials import follow, try_task
from tentalis.core.desk import make_tickets
from tentalis.core.world_servers import WorldServer
from tentalis.core.worlds import (
    AttemptDraft,
    Observation,
    PanelItem,
    Solution,
    ToolCall,
    TurnAsked,
    TurnDraft,
    World,
)
from tentalis.env import EnvironmentVariableError, read_variable
from tests.plugged.doors_package import OPENS, DoorsWorld


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Doors(DoorsWorld):
    closed = 0

    def close(self, state: Any) -> None:
        type(self).closed += 1


class FaultyDoors(DoorsWorld):
    name = "faulty"

    def act(self, state: Any, call: ToolCall, key: str) -> Observation:
        raise OSError("the lamp is out")


class ActingDoors(DoorsWorld):
    """Whose button is pressed by a tool that is called as a server's one action is here."""

    name = "acting"

    def tools(self, prompt: str) -> Any:
        look, press = super().tools(prompt)
        return [look, {**press, "function": {**press["function"], "name": "act"}}]


class HallDoors(DoorsWorld):
    """Whose agent is told more than the task's name, and may press only what it has looked at."""

    name = "hall"

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        return super().messages_for(f"{prompt} Its lamp says which button.", system_prompt)

    def tools(self, prompt: str) -> Any:
        return super().tools(prompt)[:1]

    def tools_now(self, prompt: str, state: dict[str, str]) -> Any:
        return super().tools(prompt)[: 1 + ("looked" in state)]

    def act(self, state: dict[str, str], call: ToolCall, key: str) -> Observation:
        state["looked"] = "yes"
        return super().act(state, call, key)


@pytest.fixture(autouse=True)
def worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {"doors": Doors(), "faulty": FaultyDoors(), "acting": ActingDoors(), "hall": HallDoors()}
    monkeypatch.setitem(vars(WORLDS), "_loaded", ({**WORLDS._things, **mine}, ()))
    Doors.closed = 0


class Player:
    """Who speaks the protocol, message by message."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def ask(self, kind: str, data: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.connection.send(json.dumps({"type": kind, "data": dict(data or {})}))
        told = json.loads(self.connection.recv(timeout=30))
        return told["type"], told["data"]

    def see(self, kind: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer, told = self.ask(kind, data)
        assert answer == "observation", told
        return told

    def refused(self, kind: str, data: Mapping[str, Any] | None = None) -> tuple[str, str]:
        answer, told = self.ask(kind, data)
        assert answer == "error"
        return told["code"], told["message"]


@contextmanager
def playing(name: str) -> Iterator[Player]:
    url = "ws" + name.removeprefix("http")
    with connect(f"{url}/ws", proxy=None) as connection:
        yield Player(connection)


@pytest.fixture
def doors() -> Iterator[Player]:
    with serving(make_app(get_world("doors"))) as url, playing(url) as player:
        yield player


def press(button: str) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": "press", "arguments": {"button": button}}


LOOK = {"type": "call_tool", "tool_name": "look", "arguments": {}}


def test_an_episode_is_played_and_its_end_says_what_it_is_worth(doors: Player) -> None:
    begun = doors.see("reset", {"seed": 4})
    assert (begun["reward"], begun["done"]) == (None, False)
    assert begun["observation"]["text"] == get_world("doors").draw_prompt(Random(4))
    assert [one["function"]["name"] for one in begun["observation"]["metadata"]["tools"]] == ["look", "press"]
    seen = doors.see("step", LOOK)
    lamp = seen["observation"]["result"].removeprefix("the lamp is ")
    assert (seen["reward"], seen["done"], seen["observation"]["tool_name"]) == (None, False, "look")
    doors.see("step", press(OPENS[lamp]))
    over = doors.see("step", {"answer": "Done."})
    assert (over["reward"], over["done"]) == (1.0, True)
    assert over["observation"]["metadata"]["verification"]["details"]["turns"] == 3
    kind, state = doors.ask("state")
    assert (kind, state["step_count"], state["world"]) == ("state", 3, name_world(get_world("doors")))
    assert Doors.closed == 1


def test_the_same_seed_is_the_same_episode_and_a_wrong_button_is_worth_nothing(doors: Player) -> None:
    for _ in range(2):
        doors.see("reset", {"seed": 9})
        seen = doors.see("step", LOOK)["observation"]["result"]
        wrong = next(button for lamp, button in OPENS.items() if lamp not in seen)
        doors.see("step", press(wrong))
        assert doors.see("step", {"answer": ""})["reward"] == 0.0


def test_tools_are_listed_as_openenv_lists_them(doors: Player) -> None:
    doors.see("reset", {"seed": 1})
    tools = doors.see("step", {"type": "list_tools"})["observation"]["tools"]
    assert [one["name"] for one in tools] == ["look", "press"]
    assert tools[1]["input_schema"]["properties"] == {"button": {"enum": ["a", "b", "c"]}}


def test_who_plays_is_told_what_an_agent_of_ours_is_and_which_tools_there_are_by_now() -> None:
    def list_tools(player: Player) -> list[str]:
        return [one["name"] for one in player.see("step", {"type": "list_tools"})["observation"]["tools"]]

    with serving(make_app(get_world("hall"))) as url, playing(url) as player:
        begun = player.see("reset", {"seed": 4})["observation"]
        assert begun["text"].endswith(". Its lamp says which button.")
        assert begun["text"] == begun["metadata"]["messages"][-1]["content"]
        assert list_tools(player) == ["look"]
        seen = player.see("step", LOOK)["observation"]
        assert [one["function"]["name"] for one in seen["metadata"]["tools"]] == ["look", "press"]
        assert list_tools(player) == ["look", "press"]
        lamp = seen["result"].removeprefix("the lamp is ")
        assert "tools" not in player.see("step", press(OPENS[lamp]))["observation"]["metadata"]
        assert player.see("step", {"answer": "Done."})["reward"] == 1.0


def test_what_the_model_would_be_told_of_a_bad_call_is_told(doors: Player) -> None:
    doors.see("reset", {"seed": 1})
    unknown = doors.see("step", {"tool_name": "kick", "arguments": {}})
    assert unknown["observation"]["result"].startswith("error: there is no tool 'kick'")
    wrong = doors.see("step", press("z"))
    assert "the arguments are not as its schema says" in wrong["observation"]["result"]
    third = doors.see("step", press("z"))  # three in a row end it, as they end an episode of our own
    assert (third["done"], third["reward"]) == (True, 0.0)
    assert third["observation"]["metadata"]["verification"]["details"]["ended_by"] == "bad_calls"


@pytest.mark.parametrize(
    ("kind", "data", "code", "words"),
    [
        ("step", LOOK, "EXECUTION_ERROR", "none was begun"),
        ("reset", {"seed": -1}, "VALIDATION_ERROR", "seed: wanted a whole number from 0, found -1"),
        ("reset", {"prompt": "Sing."}, "VALIDATION_ERROR", "wanted Open door N in HOUSE"),
        ("reset", {"prompt": "Open door 1 in Sion."}, "VALIDATION_ERROR", "this task is held out"),
        ("reset", {"split": "all"}, "VALIDATION_ERROR", "split: wanted train or held_out"),
        ("reset", {"level": 3}, "VALIDATION_ERROR", "found level"),
        ("fly", {}, "UNKNOWN_TYPE", "type: wanted reset, step, state or close"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_words(doors: Player, kind: str, data: dict[str, Any], code: str, words: str) -> None:
    found, message = doors.refused(kind, data)
    assert found == code
    assert words in message


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"type": "jump"}, "type: wanted call_tool, list_tools or answer"),
        ({"tool_name": "", "arguments": {}}, "tool_name: wanted a name"),
        ({"tool_name": "look", "arguments": []}, "arguments: wanted an object, found list"),
        ({"answer": 3}, "answer: wanted a text, found int"),
        ({"answer": "x", "reward": 1}, "answer: wanted answer, found reward"),
    ],
)
def test_an_action_that_is_none_is_refused_and_the_episode_goes_on(
    doors: Player, action: dict[str, Any], words: str
) -> None:
    doors.see("reset", {"seed": 1})
    code, message = doors.refused("step", action)
    assert (code, words in message) == ("VALIDATION_ERROR", True)
    assert doors.see("step", LOOK)["done"] is False


def test_text_that_is_no_json_is_refused(doors: Player) -> None:
    doors.connection.send("{")
    told = json.loads(doors.connection.recv(timeout=30))
    assert (told["type"], told["data"]["code"]) == ("error", "INVALID_JSON")
    doors.connection.send("[]")
    assert json.loads(doors.connection.recv(timeout=30))["data"]["code"] == "VALIDATION_ERROR"


def test_held_out_tasks_are_asked_for_by_name(doors: Player) -> None:
    begun = doors.see("reset", {"seed": 3, "split": "held_out"})
    assert get_world("doors").is_held_out(begun["observation"]["text"])


def test_who_leaves_in_the_middle_leaves_nothing_behind() -> None:
    with serving(make_app(get_world("doors"))) as url, playing(url) as player:
        player.see("reset", {"seed": 1})
        player.see("step", LOOK)
        player.see("reset", {"seed": 2})  # the first is given back
        assert Doors.closed == 1
    assert Doors.closed == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("episode-")]


def test_a_worlds_fault_is_no_reward() -> None:
    with serving(make_app(get_world("faulty"))) as url, playing(url) as player:
        player.see("reset", {"seed": 1})
        code, words = player.refused("step", LOOK)
        assert (code, words) == (
            "EXECUTION_ERROR",
            "the episode is lost, and nothing is said of it: OSError: the lamp is out",
        )
        assert player.see("reset", {"seed": 1})["done"] is False


def test_no_more_sessions_than_are_allowed() -> None:
    with serving(make_app(get_world("doors"), most_sessions=1)) as url, playing(url) as first:
        first.see("reset", {"seed": 1})
        with playing(url) as second:
            assert json.loads(second.connection.recv(timeout=30))["data"]["code"] == "CAPACITY_REACHED"
        assert first.see("step", LOOK)["done"] is False


def test_a_ticket_of_the_desk_is_worked_in_its_own_form() -> None:
    stock = next(ticket for ticket in make_tickets(1, 200, held_out=False) if ticket.family == "stock")
    with serving(make_app(get_world("desk"))) as url, playing(url) as player:
        player.see("reset", {"prompt": stock.text, "seed": 1})
        asked = player.see("step", {"answer": "<call>room lamp</call>"})
        assert (asked["done"], asked["observation"]["text"].startswith("<result>")) == (False, True)
        over = player.see("step", {"answer": "<answer> 0</answer>"})
        assert (over["done"], over["reward"]) == (True, 0.0)


def test_a_world_that_makes_up_no_task_wants_one() -> None:
    with serving(make_app(get_world("chat"))) as url, playing(url) as player:
        assert "makes up no task" in player.refused("reset", {"seed": 1})[1]
        player.see("reset", {"prompt": "Say hello."})
        over = player.see("step", {"answer": "Hello."})
        assert (over["done"], over["reward"]) == (True, None)


def test_a_world_nobody_knows_is_not_served() -> None:
    with pytest.raises(CommandError, match="wanted one of chat, bfcl, desk"):
        call_command("serve_world", "casino")


# --- a server's world ------------------------------------------------------------------------------------------------


class Opening:
    """An agent that looks and presses what the lamp says, or what it is told to."""

    def __init__(self, choose: Callable[[str], str] = OPENS.__getitem__, press: str = "press") -> None:
        self.choose, self.press = choose, press

    def take_turns(self, asked: Any, *, tools: Any, **_: Any) -> list[TurnDraft]:
        return [self._take(one) for one in asked]

    def _take(self, asked: TurnAsked) -> TurnDraft:
        told = [message["content"] for message in asked.messages if message["role"] == "tool"]
        if len(told) == 2:
            return TurnDraft(draft=AttemptDraft(text="Done.", answer="Done."))
        call = ToolCall(id="c", name="look") if not told else ToolCall(
            id="c", name=self.press, arguments=json.dumps({"button": self.choose(told[0].removeprefix("the lamp is "))})
        )  # fmt: skip
        return TurnDraft(draft=AttemptDraft(messages=asked.messages), calls=[call])


def play_one(world: World, agent: Any, prompt: str) -> Episode:
    episode = Episode(key="k", prompt=prompt, seed=1, opening=world.messages_for(prompt, ""))
    play([episode], world=world, agent=agent, model="")
    return episode


@contextmanager
def far(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenEnvWorld]:
    """A world of ours at a server, as one of another's."""
    with serving(make_app(get_world(name))) as url:
        yield add_far(WorldServer(url=url, turns=6), monkeypatch)


def add_far(server: WorldServer, monkeypatch: pytest.MonkeyPatch) -> OpenEnvWorld:
    world = OpenEnvWorld("far", server)
    monkeypatch.setitem(vars(WORLDS), "_loaded", ({**WORLDS._things, "far": world}, ()))
    return world


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenEnvWorld]:
    """Doors at a server, whose first observation tells of the lamp."""
    with far("doors", monkeypatch) as world:
        yield world


def test_a_servers_tools_are_tools_and_its_reward_is_the_outcome(elsewhere: OpenEnvWorld) -> None:
    prompt = elsewhere.draw_prompt(Random(1))
    assert [one["function"]["name"] for one in elsewhere.tools(prompt)] == ["look_around", "look", "press"]
    episode = play_one(elsewhere, Opening(), prompt)
    assert [seen.text for turn in episode.turns for seen in turn.seen or ()][1].startswith("pressed")
    assert episode.verification is not None
    assert (episode.verification.outcome, episode.verification.details["rewards"]) == (1.0, [1.0])
    wrong = play_one(elsewhere, Opening(lambda lamp: next(one for one in "abc" if one != OPENS[lamp])), prompt)
    assert wrong.verification is not None
    assert wrong.verification.outcome == 0.0


def test_a_server_may_name_a_tool_as_its_one_action_would_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with far("acting", monkeypatch) as world:
        episode = play_one(world, Opening(press="act"), "Play. seed 1")
    assert [seen.text for turn in episode.turns for seen in turn.seen or ()][1].startswith("pressed")
    assert episode.verification is not None
    assert episode.verification.outcome == 1.0


@contextmanager
def painting() -> Iterator[str]:
    """A server that is none of ours: what its one tool is called follows from the seed, and only its list says it."""

    def talk(connection: ServerConnection) -> None:
        colour = ""
        for text in connection:
            message = json.loads(text)
            asked, seen = message["data"], dict[str, Any](text="Paint it.")
            over = asked.get("tool_name") == colour
            if message["type"] == "reset":
                colour = f"paint_{('red', 'blue')[asked['seed'] % 2]}"
            elif asked.get("type") == "list_tools":
                seen["tools"] = [{"name": colour, "description": None, "input_schema": {"type": "object"}}]
            told = {"observation": seen, "reward": float(over) if over else None, "done": over}
            connection.send(json.dumps({"type": "observation", "data": told}))

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        schema = {"action": {"type": "object", "properties": {"tool_name": {"type": "string"}}}}
        return None if request.path == "/ws" else connection.respond(200, json.dumps(schema))

    with serve(talk, "127.0.0.1", 0, process_request=answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


class Painting:
    """An agent that calls the last tool it is offered, and remembers what it was offered for which task."""

    def __init__(self) -> None:
        self.offered: dict[str, list[str]] = {}

    def take_turns(self, asked: Any, *, tools: Any, **_: Any) -> list[TurnDraft]:
        names = [tool["function"]["name"] for tool in tools]
        self.offered |= {one.messages[-1]["content"]: names for one in asked}
        return [TurnDraft(draft=AttemptDraft(), calls=[ToolCall(id="c", name=names[-1])]) for _ in asked]


def test_each_episode_is_played_with_the_tools_of_its_own_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = {"Paint. seed 2": ["look", "paint_red"], "Paint. seed 3": ["look", "paint_blue"]}
    with painting() as url:
        world, agent = add_far(WorldServer(url=url), monkeypatch), Painting()
        episodes = [Episode(key=one, prompt=one, seed=1, opening=world.messages_for(one, "")) for one in prompts]
        play(episodes, world=world, agent=agent, model="")
        assert agent.offered == prompts
        assert [one.verification.outcome for one in episodes if one.verification] == [1.0, 1.0]
        assert {one: [tool["function"]["name"] for tool in world.tools(one)] for one in prompts} == prompts
        tries = [
            try_task(world, PanelItem(prompt=one), follow(Solution(calls=[ToolCall(id="c", name=names[-1])])))
            for one, names in prompts.items()
        ]
    assert [one.outcome for one in tries] == [1.0, 1.0]


def test_a_server_of_ours_says_which_other_tools_there_are_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with far("hall", monkeypatch) as world:
        episode = play_one(world, Opening(), "Play. seed 4")
    assert episode.verification is not None
    assert episode.verification.outcome == 1.0


def test_the_same_seed_begins_in_the_same_state_and_is_shown_again(elsewhere: OpenEnvWorld) -> None:
    first, second, other = (elsewhere.reset(f"Play. seed {seed}", 1) for seed in (6, 6, 7))
    assert elsewhere.hash_state(first) == elsewhere.hash_state(second) != elsewhere.hash_state(other)
    shown = elsewhere.act(first, ToolCall(id="c", name="look_around"), "k")
    assert shown.text == get_world("doors").draw_prompt(Random(6))
    assert elsewhere.hash_state(first) == elsewhere.hash_state(second)
    for state in (first, second, other):
        elsewhere.close(state)


def test_what_the_server_finds_fault_with_is_told_and_is_not_its_fault(elsewhere: OpenEnvWorld) -> None:
    state = elsewhere.reset("Play. seed 6", 1)
    said = elsewhere.act(state, ToolCall(id="c", name="press", arguments='{"button": "z"}'), "k")
    assert said.text.startswith("error: press: the arguments are not as its schema says")
    elsewhere.close(state)


def test_prompts_end_with_their_seed_and_every_fifth_is_held_out(elsewhere: OpenEnvWorld) -> None:
    rng = Random(2)
    assert not [prompt for prompt in (elsewhere.draw_prompt(rng) for _ in range(50)) if elsewhere.is_held_out(prompt)]
    assert all(elsewhere.is_held_out(item.prompt) for item in elsewhere.panel(20, 3))
    with pytest.raises(ValueError, match="ends with its seed"):
        elsewhere.check_prompt("Play something.")


def test_a_server_that_is_away_is_nobodys_fault() -> None:
    world = OpenEnvWorld("gone", WorldServer(url="http://127.0.0.1:9"))
    assert [one["function"]["name"] for one in world.tools("Play. seed 1")] == ["look", "act"]
    episode = play_one(world, Opening(), "Play. seed 1")
    assert episode.lost.startswith("ServerFaultError: gone: no server answers at http://127.0.0.1:9")
    assert episode.verification is None


def test_a_reward_beyond_what_the_setting_says_is_a_fault_and_no_reward() -> None:
    with serving(make_app(get_world("doors"))) as url:
        world = OpenEnvWorld("far", WorldServer(url=url, low=-2.0, high=-1.0))
        state = world.reset("Play. seed 1", 1)
        with pytest.raises(ServerFaultError, match=r"reward: wanted -2.0 to -1.0, found 0.0"):
            world.verify_state("Play. seed 1", None, state, AttemptDraft(answer="Done."))
        world.close(state)


@pytest.mark.parametrize(
    ("rewards", "outcome"),
    [([1 / 9] * 9, 1.0), ([0.1] * 10, 1.0), ([0.3, -0.1, -0.1, -0.1], 0.0), ([0.5, 0.25], 0.75), ([1.01], None)],
)
def test_rewards_that_add_up_to_a_bound_but_for_rounding_are_worth_what_it_is(
    rewards: list[float], outcome: float | None
) -> None:
    with serving(make_app(get_world("doors"))) as url:
        world = OpenEnvWorld("far", WorldServer(url=url, reward="sum"))
        state = world.reset("Play. seed 1", 1)
        world.close(state)
        state.rewards, state.is_done = rewards, True
        if outcome is None:
            with pytest.raises(ServerFaultError, match=r"reward: wanted 0.0 to 1.0, found 1.01"):
                world.verify_state("Play. seed 1", None, state, AttemptDraft())
        else:
            found = world.verify_state("Play. seed 1", None, state, AttemptDraft())
            assert (found.outcome, found.details["rewards"]) == (outcome, rewards)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('{"Far": {"url": "http://127.0.0.1:1"}}', "names of lower-case letters"),
        ('{"far": {"url": "ftp://x"}}', "far: url: wanted http"),
        ('{"far": {"url": "http://x", "speed": 1}}', "far: wanted an object of url"),
        ('{"far": {"url": "http://x", "low": 1, "high": 1}}', "low: wanted a number less than high"),
        ('{"far": {"url": "http://x", "turns": true}}', "turns: wanted what is like 30, found True"),
        ("[]", "a JSON object"),
    ],
)
def test_a_setting_that_names_no_server_stops_the_start(value: str, words: str) -> None:
    with pytest.raises(EnvironmentVariableError, match=words):
        read_variable("OPENENV", {"TENTALIS_OPENENV": value})


def test_a_servers_world_is_among_the_worlds_and_takes_no_name_of_ours(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = WorldServer(url="http://127.0.0.1:9", label="Far away")
    settings.TENTALIS = {**settings.TENTALIS, "OPENENV": {"far": server}}
    monkeypatch.delitem(vars(WORLDS), "_loaded")
    assert (get_world("far").label, get_world("far").version) == ("Far away", OpenEnvWorld("far", server).version)
    settings.TENTALIS = {**settings.TENTALIS, "OPENENV": {"desk": server}}
    WORLDS.forget()
    with pytest.raises(ValueError, match="wanted names of its own, found desk"):
        get_world("desk")
    WORLDS.forget()
