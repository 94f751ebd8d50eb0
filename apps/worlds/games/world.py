"""Games for one as a world with turns: what stands on the board, a move in the game's form, what stands there then."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any, ClassVar, Final

from apps.worlds.games.library import DISTRIBUTION, KNOWN, find_package, read_version, rolling
from apps.worlds.games.table import GAMES, HELD_OUT_EVERY, Game
from tentalis.core.canon import content_hash
from tentalis.core.tool_calls import read_arguments, write_closed_tool
from tentalis.core.worlds import (
    AttemptDraft,
    EpisodeLimits,
    Observation,
    PanelItem,
    Solution,
    ToolCall,
    Verification,
    World,
)

MOST_NUMBER: Final = 999_999
MOST_CHARS: Final = 200
PLAY: Final = write_closed_tool(
    "play",
    "Make one move.",
    move={
        "type": "string",
        "maxLength": MOST_CHARS,
        "description": "in the form that the game tells, in square brackets",
    },
)
_PROMPT: Final = re.compile(r"Play ([a-z-]{1,40}), game ([1-9][0-9]{0,5})\.")
_CALL: Final = "Make each move by calling `play`."
_ACTION: Final = "PLAYER_ACTION"


@dataclass
class PlayedGame:
    """A game under way.

    Attributes:
        dice: as it left them.
        shown: what was told of it, and the moves between, in order.
        why: what ended it that is no end of the game; "" where nothing did.
    """

    game: Game
    env: Any
    dice: Any
    shown: list[str] = field(default_factory=list)
    moves: int = 0
    why: str = ""

    @property
    def is_over(self) -> bool:
        return bool(self.env.state.done or self.why)

    @property
    def is_won(self) -> bool:
        state = self.env.state
        is_right = state.done and state.rewards == {0: 1} and not state.game_info[0]["invalid_move"]
        return not self.why and bool(is_right) and self.game.is_won(self.env)

    def move(self, move: str) -> str:
        """What is told of a move. One that the game breaks on ends it."""
        self.shown.append(move)
        self.moves += 1
        words = move if "[" in move or "]" in move else f"[{move}]"
        with rolling(self.dice) as left:
            try:
                self.env.step(words)
            except Exception as error:  # noqa: BLE001 - the game's own, which reads what a model wrote
                self.why = f"the game could not read the move: {type(error).__name__}"
            told = self.why or self._tell()
        (self.dice,) = left
        if not self.why and not self.env.state.done and self.moves >= self.game.moves:
            self.why = f"{self.moves} moves were made, and no more are allowed"
            told = f"{told}\n{self.why}"
        return self.show(told)

    def show(self, told: str) -> str:
        self.shown.append(told)
        return told

    def _tell(self) -> str:
        _, seen = self.env.get_observation()
        told = [str(text).strip("\n") for _, text, kind in seen if getattr(kind, "name", _ACTION) != _ACTION]
        if self.env.state.done:
            told.append(str(self.env.state.game_info[0].get("reason", "")))
        return "\n\n".join(filter(None, told))


class GamesWorld(World):
    """textarena's games for one player. A game that is won is worth 1, any other nothing, however near it came."""

    name = "games"
    label = "Games"
    noun = "game"
    version = f"1-{read_version()}"
    profile: ClassVar = {"outcome": 1.0}
    limits = EpisodeLimits(turns=100, tokens=32_000, seconds=900.0, output_chars=4_000)
    idempotent = True

    def find_obstacle(self) -> str:
        return "" if find_package() else f"wants the package {DISTRIBUTION} {KNOWN}"

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return [PLAY]

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        """The game's rules and how it begins, instead of its name."""
        return super().messages_for(f"{begin(prompt).shown[0]}\n\n{_CALL}", system_prompt)

    def reset(self, prompt: str, seed: int | None) -> PlayedGame:
        """The same game for the same prompt, whatever the seed."""
        return begin(prompt)

    def act(self, state: PlayedGame, call: ToolCall, key: str) -> Observation:
        if state.is_over:
            return Observation(text="the game is over", ends=True)
        told = state.move(str((read_arguments(call.arguments) or {}).get("move", ""))[:MOST_CHARS])
        return Observation(text=told, ends=state.is_over)

    def hash_state(self, state: PlayedGame) -> str:
        return content_hash([state.shown, state.why, content_hash(repr(state.dice))])

    def verify_state(self, prompt: str, reference: Any, state: PlayedGame, draft: AttemptDraft) -> Verification:
        reward = (state.env.state.rewards or {}).get(0)  # some games say a reason in its place
        return Verification(
            outcome=float(state.is_won),
            step_scores=[None] * len(draft.steps),
            step_reasons=["only the end of a game is worth something"] * len(draft.steps),
            details={
                "moves": state.moves,
                "reward": float(reward) if isinstance(reward, int | float) else 0.0,
                **({"why": state.why} if state.why else {}),
            },
        )

    def solve(self, prompt: str, seed: int | None) -> Solution:
        """Moves that win, found by who may look under the board."""
        board = begin(prompt)
        calls: list[ToolCall] = []
        for move in board.game.solve(board.env):
            calls.append(write_move(move, len(calls)))
            board.move(move)
            if board.is_over:
                break
        return Solution(calls=calls)

    def say_limits(self) -> Sequence[str]:
        return [f"One line: Play NAME, game NUMBER. NAME is {', '.join(GAMES)}; NUMBER from 1 to {MOST_NUMBER:,}."]

    def check_prompt(self, prompt: str) -> None:
        """Raise ValueError where it names no game."""
        read_prompt(prompt)

    def find_kind(self, prompt: str) -> str:
        try:
            return read_prompt(prompt)[0]
        except ValueError:
            return "no game"

    def draw_prompt(self, rng: Random) -> str:
        number = rng.randint(1, MOST_NUMBER)
        while number % HELD_OUT_EVERY == 0:
            number = rng.randint(1, MOST_NUMBER)
        return write_prompt(rng.choice(sorted(GAMES)), number)

    def is_held_out(self, prompt: str) -> bool:
        return read_prompt(prompt)[1] % HELD_OUT_EVERY == 0

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Each game in turn."""
        rng, names = Random(f"games/{seed}"), sorted(GAMES)
        numbers = [HELD_OUT_EVERY * rng.randint(1, MOST_NUMBER // HELD_OUT_EVERY) for _ in range(size)]
        prompts = [write_prompt(names[place % len(names)], number) for place, number in enumerate(numbers)]
        return [PanelItem(prompt=prompt, seed=place) for place, prompt in enumerate(prompts)]

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        return self.panel(size, seed)


def write_prompt(name: str, number: int) -> str:
    return f"Play {name}, game {number}."


def read_prompt(prompt: str) -> tuple[str, int]:
    """(name, number). Raises ValueError."""
    found = _PROMPT.fullmatch(prompt.strip())
    if found is None or found[1] not in GAMES:
        raise ValueError(f"wanted Play NAME, game NUMBER. with one of {', '.join(GAMES)}, found {prompt[:80]!r}")
    return found[1], int(found[2])


def write_move(move: str, place: int) -> ToolCall:
    """A move as a call."""
    return ToolCall(id=f"m{place}", name="play", arguments=f'{{"move": "{move}"}}')


def begin(prompt: str) -> PlayedGame:
    """A game as it begins, with all that is told of that. Raises ValueError."""
    made = _make(*read_prompt(prompt))
    return PlayedGame(made.game, deepcopy(made.env), made.dice, list(made.shown))


@lru_cache(maxsize=128)
def _make(name: str, number: int) -> PlayedGame:
    """Some games take a third of a second to be made up."""
    game = GAMES[name]
    with rolling(number) as left:
        env = game.make()
        env.reset(num_players=1, seed=number)
        game.begin(env, Random(f"{name}/{number}"), number)
        board = PlayedGame(game, env, None)
        board.show(board._tell())
    (board.dice,) = left
    return board
