"""Which games there are, how each is begun, what a player who knows nothing does, and a way to win.

Left out: games for several (nobody plays the others), those whose words are fetched (nltk, dictionaries) or judged
by a model, those of luck (bandits, cards), one puzzle alone (`PegJump`, `Cryptarithm`), too few of them to hold some
out (`LogicPuzzle`, `Crosswords`), boards that cannot be solved (half of `FifteenPuzzle`), `Set`, which is never won,
and `2048`, whose short games luck wins, and whose long ones take hundreds of moves.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from random import Random
from typing import Any, Final

from apps.worlds.games.library import load_game

Env = Any
HELD_OUT_EVERY: Final = 5
"""Of the games' numbers every so many-eth is only ever measured on."""
LEAST_DISK_MOVES: Final = 12


@dataclass(frozen=True, kw_only=True)
class Game:
    """A game.

    Args:
        module: of the library; class_name: in it.
        settings: it is made with.
        begin: puts it, once it was reset, where it begins; dice, number.
        draw: a move of the right form; dice.
        solve: moves that win, each found where the ones before it led to.
        is_won: where a reward of 1 may be something else.
        moves: at most, beside the game's own limit.
    """

    module: str
    class_name: str
    settings: Mapping[str, Any]
    draw: Callable[[Env, Random], str]
    solve: Callable[[Env], Iterator[str]]
    begin: Callable[[Env, Random, int], None] = lambda env, rng, number: None
    is_won: Callable[[Env], bool] = lambda env: True
    moves: int = 100

    def make(self) -> Env:
        return load_game(self.module, self.class_name)(**self.settings)


def find_way(
    start: Hashable, is_end: Callable[[Any], bool], list_next: Callable[[Any], Iterator[tuple[str, Any]]]
) -> list[str]:
    """The shortest moves from a state to an end; [] where there is none, or it begins there."""
    came: dict[Any, tuple[Any, str]] = {start: (None, "")}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if is_end(state):
            moves = []
            while came[state][0] is not None:
                state, move = came[state]
                moves.append(move)
            return moves[::-1]
        for move, other in list_next(state):
            if other not in came:
                came[other] = (state, move)
                waiting.append(other)
    return []


STEPS: Final = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def _draw_step(env: Env, rng: Random) -> str:
    return f"[{rng.choice(list(STEPS))}]"


# --- frozen lake


def _cross_lake(env: Env) -> Iterator[str]:
    grid, size = env.state.game_state["grid"], env.size

    def list_next(place: tuple[int, int]) -> Iterator[tuple[str, Any]]:
        for name, (down, right) in STEPS.items():
            row, column = place[0] + down, place[1] + right
            if 0 <= row < size and 0 <= column < size and grid[row][column] != "H":
                yield f"[{name}]", (row, column)

    goal = tuple(env.state.game_state["goal_pos"])
    yield from find_way(tuple(env.state.game_state["player_pos"]), lambda place: place == goal, list_next)


# --- guess the number


def _halve(env: Env) -> Iterator[str]:
    low, high = env.min_number, env.max_number
    while True:
        guess = (low + high) // 2
        yield f"[{guess}]"
        _, hint = env.state.game_state["guess_history"][-1]
        low, high = (guess + 1, high) if hint == "higher" else (low, guess - 1)


# --- lights out


def _turn_off(env: Env) -> Iterator[str]:
    """Of the presses that turn all off, the fewest: those of the first row decide the rest."""
    size = env.size
    lit = [[bool(one) for one in row] for row in env.state.game_state["grid"]]
    found: list[list[tuple[int, int]]] = []
    for first in product((False, True), repeat=size):
        grid, presses = [row[:] for row in lit], []
        for row in range(size):
            for column in range(size):
                if first[column] if row == 0 else grid[row - 1][column]:
                    presses.append((row, column))
                    for down, right in ((0, 0), *STEPS.values()):
                        if 0 <= row + down < size and 0 <= column + right < size:
                            grid[row + down][column + right] ^= True
        if not any(map(any, grid)):
            found.append(presses)
    yield from (f"[{row} {column}]" for row, column in min(found, key=len))


# --- mastermind


def _break_code(env: Env) -> Iterator[str]:
    """Each guess is a code that all answers before it allow."""
    for code in permutations(range(1, env.num_numbers + 1), env.code_length):
        history = env.state.game_state["history"]
        if all(_count_pegs(code, one["guess"]) == (one["black"], one["white"]) for one in history):
            yield f"[{' '.join(map(str, code))}]"


def _count_pegs(code: tuple[int, ...], guess: list[int]) -> tuple[int, int]:
    black = sum(one == other for one, other in zip(code, guess, strict=True))
    return black, len(set(code) & set(guess)) - black


def _draw_code(env: Env, rng: Random) -> str:
    return f"[{' '.join(map(str, rng.sample(range(1, env.num_numbers + 1), env.code_length)))}]"


# --- minesweeper


def _sweep(env: Env) -> Iterator[str]:
    """It knows where the mines lie, once they do."""
    yield f"[{env.rows // 2} {env.cols // 2}]"
    for row, column in product(range(env.rows), range(env.cols)):
        if env.grid[row][column] != -1 and not env.revealed[row][column]:
            yield f"[{row} {column}]"


def _draw_covered(env: Env, rng: Random) -> str:
    covered = [place for place in product(range(env.rows), range(env.cols)) if not env.revealed[place[0]][place[1]]]
    return "[{} {}]".format(*rng.choice(covered))


# --- rush hour


def _clear_way(env: Env) -> Iterator[str]:
    cars = {
        name: (car.row, car.col, car.length, car.horizontal) for name, car in env.state.game_state["vehicles"].items()
    }
    names, size = sorted(cars), env.BOARD_SIZE
    red = names.index("X")

    def list_cells(name: str, moved: int) -> list[tuple[int, int]]:
        row, column, length, is_flat = cars[name]
        return [(row, column + moved + n) if is_flat else (row + moved + n, column) for n in range(length)]

    def list_next(places: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
        taken = {cell for name, moved in zip(names, places, strict=True) for cell in list_cells(name, moved)}
        for number, name in enumerate(names):
            own = set(list_cells(name, places[number]))
            for sign, by in (("+", 1), ("-", -1)):
                new = list_cells(name, places[number] + by)
                if all(0 <= row < size and 0 <= column < size for row, column in new) and not (set(new) - own) & taken:
                    yield f"[{name}{sign}]", (*places[:number], places[number] + by, *places[number + 1 :])

    out = size - cars["X"][2] - cars["X"][1]
    yield from find_way((0,) * len(names), lambda places: places[red] >= out, list_next)


def _draw_car(env: Env, rng: Random) -> str:
    return f"[{rng.choice(sorted(env.state.game_state['vehicles']))}{rng.choice('+-')}]"


# --- slitherlink


def _draw_loop(env: Env) -> Iterator[str]:
    """Its loops are rectangles: one that the clues allow."""
    for top, left, bottom, right in product(range(env.R), range(env.C), range(1, env.R + 1), range(1, env.C + 1)):
        if top >= bottom or left >= right:
            continue
        flat = {(row, column) for row in (top, bottom) for column in range(left, right)}
        steep = {(row, column) for column in (left, right) for row in range(top, bottom)}
        if all(
            clue is None or clue == sum([(r, c) in flat, (r + 1, c) in flat, (r, c) in steep, (r, c + 1) in steep])
            for r, row in enumerate(env.clues)
            for c, clue in enumerate(row)
        ):
            yield from (f"[h {row} {column}]" for row, column in sorted(flat))
            yield from (f"[v {row} {column}]" for row, column in sorted(steep))
            return


def _draw_edge(env: Env, rng: Random) -> str:
    return f"[{rng.choice('hv')} {rng.randrange(env.R)} {rng.randrange(env.C)}]"


# --- sokoban


def _push_boxes(env: Env) -> Iterator[str]:
    room, state = env.room_fixed, env.room_state
    places = list(product(range(room.shape[0]), range(room.shape[1])))
    floor = {place for place in places if room[place] != 0}
    goals = frozenset(place for place in places if room[place] == 2)
    boxes = frozenset(place for place in places if state[place] in (3, 4))
    player = next(place for place in places if state[place] == 5)

    def list_next(at: tuple[tuple[int, int], frozenset[tuple[int, int]]]) -> Iterator[tuple[str, Any]]:
        (row, column), left = at
        for name, (down, right) in STEPS.items():
            new, behind = (row + down, column + right), (row + 2 * down, column + 2 * right)
            if new not in floor:
                continue
            if new not in left:
                yield f"[{name}]", (new, left)
            elif behind in floor and behind not in left:
                yield f"[{name}]", (new, left - {new} | {behind})

    yield from find_way((player, boxes), lambda at: at[1] == goals, list_next)


# --- sudoku


def _fill(env: Env) -> Iterator[str]:
    for row, column in product(range(9), range(9)):
        if env.state.game_state["board"][row][column] == 0:
            yield f"[{row + 1} {column + 1} {env.full_grid[row][column]}]"


def _draw_digit(env: Env, rng: Random) -> str:
    board = env.state.game_state["board"]
    row, column = rng.choice([one for one in product(range(9), range(9)) if board[one[0]][one[1]] == 0])
    return f"[{row + 1} {column + 1} {rng.randint(1, 9)}]"


# --- tower of hanoi


def _place_disks(env: Env, rng: Random, number: int) -> None:
    """Somewhere on the three towers, far enough from the end; no place is both trained and measured on."""
    while True:
        drawn = rng.randrange(3**env.num_disks)
        place, towers = drawn, dict[str, list[int]](A=[], B=[], C=[])
        for disk in range(env.num_disks, 0, -1):
            place, tower = divmod(place, 3)
            towers["ABC"[tower]].append(disk)
        is_held_out = drawn % 2 == 0  # of so few places half
        if is_held_out == (number % HELD_OUT_EVERY == 0) and len(list(_move_disks(towers))) >= LEAST_DISK_MOVES:
            env.state.game_state["towers"] = towers
            (by, rules, kind), (_, _, board) = env.state.observations[0]
            told = rules.replace("from tower A to tower C", "to tower C")
            env.state.observations[0] = [(by, told, kind), (by, f"Current Board: \n{env._render_board()}", board)]
            return


def _move_disks(towers: Mapping[str, list[int]]) -> Iterator[str]:
    at = {disk: tower for tower, disks in towers.items() for disk in disks}
    moves: list[str] = []

    def bring(disk: int, to: str) -> None:
        if disk == 0:
            return
        if at[disk] != to:
            (other,) = {"A", "B", "C"} - {at[disk], to}
            bring(disk - 1, other)
            moves.append(f"[{at[disk]} {to}]")
            at[disk] = to
        bring(disk - 1, to)

    bring(max(at), "C")
    yield from moves


def _draw_disk(env: Env, rng: Random) -> str:
    """One that the towers allow."""
    towers = env.state.game_state["towers"]
    allowed = [
        (one, other)
        for one, other in permutations("ABC", 2)
        if towers[one] and (not towers[other] or towers[other][-1] > towers[one][-1])
    ]
    return "[{} {}]".format(*rng.choice(allowed))


GAMES: Final[Mapping[str, Game]] = {
    "frozen-lake": Game(
        module="FrozenLake", class_name="FrozenLakeEnv",
        settings={"size": 5, "num_holes": 6}, draw=_draw_step, solve=_cross_lake,
    ),
    "guess-the-number": Game(
        module="GuessTheNumber", class_name="GuessTheNumberEnv",
        settings={"min_number": 1, "max_number": 1000, "max_turns": 10},
        draw=lambda env, rng: f"[{rng.randint(env.min_number, env.max_number)}]", solve=_halve,
    ),
    "lights-out": Game(
        module="LightsOut", class_name="LightsOutEnv", settings={"size": 5, "max_turns": 20},
        draw=lambda env, rng: f"[{rng.randrange(env.size)} {rng.randrange(env.size)}]", solve=_turn_off,
    ),
    "mastermind": Game(
        module="Mastermind", class_name="MastermindEnv",
        settings={"code_length": 4, "num_numbers": 8, "max_turns": 30, "duplicate_numbers": False},
        draw=_draw_code, solve=_break_code,
    ),
    "minesweeper": Game(
        module="Minesweeper", class_name="MinesweeperEnv",
        settings={"rows": 8, "cols": 8, "num_mines": 10, "max_turns": 100}, draw=_draw_covered, solve=_sweep,
    ),
    "rush-hour": Game(
        module="RushHour", class_name="RushHourEnv", settings={"difficulty": "hard"},
        draw=_draw_car, solve=_clear_way,
    ),
    "slitherlink": Game(
        module="Slitherlink", class_name="SlitherlinkEnv", settings={"rows": 4, "cols": 4, "max_turns": 60},
        draw=_draw_edge, solve=_draw_loop, is_won=lambda env: bool(env._is_solved()),
    ),
    "sokoban": Game(
        module="Sokoban", class_name="SokobanEnv", settings={"dim_room": (6, 6), "max_turns": 60, "num_boxes": 3},
        draw=_draw_step, solve=_push_boxes,
    ),
    "sudoku": Game(
        module="Sudoku", class_name="SudokuEnv", settings={"clues": 60, "max_turns": 100},
        draw=_draw_digit, solve=_fill,
    ),
    "three-card-monte": Game(
        module="ThreeCardMonte", class_name="ThreeCardMonteEnv", settings={"num_cups": 25, "steps": 20},
        draw=lambda env, rng: f"[{rng.randrange(env.num_cups)}]", solve=lambda env: iter([f"[{env.ball_pos}]"]),
    ),
    "tower-of-hanoi": Game(
        module="TowerOfHanoi", class_name="TowerOfHanoiEnv", settings={"num_disks": 5, "max_turns": 62},
        begin=_place_disks, draw=_draw_disk, solve=lambda env: _move_disks(env.state.game_state["towers"]),
    ),
}  # fmt: skip
