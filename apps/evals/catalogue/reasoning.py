"""The generators of reasoning-gym, each as `rg/NAME`, and `rg/NAME:LEVEL` for a level of its curriculum.

Left out are `game_of_life_halting`, which takes any text for right, and `composite`, which is made of the others.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row, render
from apps.evals.reasoning import DISTRIBUTION, find_oracle, make_row

GENERATORS: Final[Mapping[str, Mapping[str, int]]] = {
    "algebra": {
        "complex_arithmetic": 4,
        "intermediate_integration": 8,
        "polynomial_equations": 4,
        "polynomial_multiplication": 4,
        "simple_equations": 4,
        "simple_integration": 4,
    },
    "algorithmic": {
        "ab": 4,
        "base_conversion": 5,
        "binary_alternation": 4,
        "binary_matrix": 4,
        "caesar_cipher": 4,
        "count_primes": 5,
        "cryptarithm": 4,
        "game_of_life": 4,
        "graph_color": 4,
        "group_anagrams": 4,
        "isomorphic_strings": 4,
        "jugs": 4,
        "letter_counting": 8,
        "letter_jumble": 5,
        "manipulate_matrix": 5,
        "number_filtering": 4,
        "number_sorting": 8,
        "palindrome_generation": 4,
        "palindrome_partitioning": 4,
        "pool_matrix": 4,
        "ransom_note": 4,
        "rotate_matrix": 5,
        "rotten_oranges": 4,
        "sentence_reordering": 4,
        "spell_backward": 5,
        "spiral_matrix": 4,
        "string_insertion": 4,
        "string_manipulation": 5,
        "string_splitting": 4,
        "string_synthesis": 4,
        "word_ladder": 3,
        "word_sequence_reversal": 4,
        "word_sorting": 5,
    },
    "arc": {"arc_1d": 4, "arc_agi": 4, "rearc": 7},
    "arithmetic": {
        "basic_arithmetic": 5,
        "bitwise_arithmetic": 10,
        "calendar_arithmetic": 4,
        "chain_sum": 11,
        "count_bits": 5,
        "decimal_arithmetic": 4,
        "decimal_chain_sum": 5,
        "dice": 4,
        "fraction_simplification": 4,
        "gcd": 4,
        "gsm_symbolic": 0,
        "lcm": 4,
        "leg_counting": 36,
        "number_format": 4,
        "power_function": 5,
        "prime_factorization": 4,
        "products": 11,
        "time_intervals": 7,
    },
    "code": {"bf": 3, "codeio": 4},
    "cognition": {
        "color_cube_rotation": 5,
        "figlet_font": 6,
        "modulo_grid": 6,
        "needle_haystack": 4,
        "number_sequence": 4,
        "rectangle_count": 5,
        "rubiks_cube": 5,
    },
    "games": {
        "boxnet": 9,
        "countdown": 5,
        "emoji_mystery": 6,
        "futoshiki": 4,
        "kakurasu": 4,
        "knight_swap": 5,
        "mahjong_puzzle": 4,
        "maze": 4,
        "mini_sudoku": 5,
        "n_queens": 5,
        "puzzle24": 7,
        "rush_hour": 4,
        "sokoban": 14,
        "sudoku": 5,
        "survo": 4,
        "tower_of_hanoi": 4,
        "tsumego": 4,
    },
    "geometry": {"advanced_geometry": 4, "simple_geometry": 4},
    "graphs": {
        "course_schedule": 5,
        "family_relationships": 9,
        "largest_island": 4,
        "path_star": 4,
        "quantum_lock": 10,
        "shortest_path": 4,
    },
    "induction": {"acre": 0, "list_functions": 0},
    "logic": {
        "aiw": 9,
        "circuit_logic": 5,
        "knights_knaves": 4,
        "propositional_logic": 5,
        "self_reference": 10,
        "syllogism": 4,
        "zebra_puzzles": 6,
    },
    "probability": {"coin_flip": 13},
}
"""Family -> generator -> levels of its curriculum, 0 for none."""
SLOW: Final = frozenset(
    [
        "futoshiki",
        "intermediate_integration",
        "knight_swap",
        "puzzle24",
        "quantum_lock",
        "rearc",
        "sokoban",
        "sudoku",
        "zebra_puzzles",
    ]
)
"""Whose rows come along, made before with seed 0: they take from 40 ms to half a second each, or a library that has to
be compiled."""
MADE: Final = Path(__file__).with_name("made")
SEEDS: Final[Mapping[str, int]] = {"held_out": 1_000_003, "train": 2_000_003}
"""From where on a split's questions are drawn."""
SIZES: Final[Mapping[str, int]] = {"held_out": 100, "train": 200}
MADE_SIZES: Final[Mapping[str, int]] = {"held_out": 40, "train": 60}
BUDGET: Final = 3
"""Times as many questions as are wanted are drawn at most: those that repeat one are left out."""
_ASK: Final = "{question}\n\nThink about it as long as you want, then give your answer as <answer>...</answer>."


def list_made(name: str, split: str) -> Iterator[Row]:
    """The rows that come along."""
    with gzip.open(MADE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row.pop("split") == split:
                yield row


def draw_rows(name: str, split: str, size: int, seed: int, *, level: int | None = None) -> Iterator[Row]:
    """Questions of a generator, each once. Raises ImportError without the library."""
    settings = {} if level is None else {"level": level}
    begin, seen, most = SEEDS[split] + 10_000_019 * seed, set[str](), size * BUDGET
    for place in range(most):
        with redirect_stdout(StringIO()):  # some print how far they are
            row = make_row(name, settings, begin, most, place)
        if row["question"] not in seen and row["answer"] != "":  # "": nobody can say that nothing is right
            seen.add(row["question"])
            yield {"generator": name, "settings": settings, **row}


def _make(name: str, split: str, size: int, seed: int, *, level: int | None = None) -> Iterator[Row]:
    if name in SLOW and level is None and seed == 0 and size <= MADE_SIZES[split]:
        return list_made(name, split)
    return draw_rows(name, split, size, seed, level=level)


def _read(row: Row) -> CatalogueItem:
    entry: dict[str, Any] = {part: row[part] for part in ("question", "answer", "metadata")}
    oracle = find_oracle(row["generator"], entry)
    return CatalogueItem(
        prompt=render(_ASK, row),
        reference={
            "generator": row["generator"],
            "settings": row["settings"],
            "answer": entry["answer"],
            "metadata": entry["metadata"],
        },
        oracle=None if oracle is None else f"<answer>{oracle}</answer>",
    )


def _open(name: str, family: str, levels: int, level: int | None = None) -> CatalogueEntry:
    words = name.replace("_", " ")
    return CatalogueEntry(
        name=f"rg/{name}" if level is None else f"rg/{name}:{level}",
        version="1",
        about=f"Questions of {words} that reasoning-gym makes up ({family})."
        + ("" if level is None else f" Level {level} of {levels - 1}."),
        group="reasoning",
        licence="Apache-2.0",
        template=_ASK,
        grader="reasoning_gym",
        columns={
            "generator": "its name",
            "settings": "it was made with",
            "question": "what is asked",
            "answer": "what is right, null where only the generator can tell",
            "metadata": "what it is graded by",
        },
        read=_read,
        make=partial(_make, name, level=level),
        sizes=MADE_SIZES if name in SLOW else SIZES,
        package=DISTRIBUTION,
        shared=SHARED.get(name, 0.0),
        levels=levels,
        at_level=partial(_open, name, family, levels) if levels and level is None else None,
    )


SHARED: Final[Mapping[str, float]] = {
    "binary_alternation": 0.1, "graph_color": 0.4, "jugs": 0.1, "polynomial_equations": 0.1, "propositional_logic": 0.8,
    "puzzle24": 0.05,
    "quantum_lock": 0.1, "rotten_oranges": 0.1, "shortest_path": 0.1,
}  # fmt: skip
"""Share that another question's answer gets at most, where several are right."""
ENTRIES: Final = tuple(
    _open(name, family, levels) for family, named in GENERATORS.items() for name, levels in named.items()
)
