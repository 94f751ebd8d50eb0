"""Modules that tasks are made of: what each is about, and functions of its own that stand around a mistake."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tentalis.core.terminal.scenes import NAMES

FILE_NAMES: Final = tuple(name for name in NAMES if name != "signal")
"""What a module's file is called, whatever it is about; Python has a module `signal` of its own."""


class Function(NamedTuple):
    """A function that is right.

    Args:
        calls: its arguments in brackets, for tests that it still passes.
    """

    source: str
    calls: Sequence[str]

    @property
    def name(self) -> str:
        return self.source[4 : self.source.index("(")]


@dataclass(frozen=True)
class Module:
    """One template.

    Args:
        item, items: what it is about.
    """

    item: str
    items: str
    functions: Sequence[Function]


# fmt: off
MODULES: Final[Mapping[str, Module]] = {
    "depot": Module("crate", "crates", (
        Function(
            "def crate_weight(boxes):\n"
            "    return 12 + 3 * boxes",
            ("(0)", "(4)"),
        ),
        Function(
            "def is_full(crates, places):\n"
            "    return crates >= places",
            ("(4, 4)", "(3, 4)"),
        ),
        Function(
            "def aisle_of(crate):\n"
            "    return chr(65 + crate % 26)",
            ("(0)", "(27)"),
        ),
        Function(
            "def stacked(crates, height):\n"
            "    full, rest = divmod(crates, height)\n"
            "    return full + bool(rest)",
            ("(7, 3)", "(6, 3)"),
        ),
    )),
    "orchard": Module("tree", "trees", (
        Function(
            "def planted(rows, each):\n"
            "    return rows * each",
            ("(3, 7)", "(0, 4)"),
        ),
        Function(
            "def ripe(days):\n"
            "    return [day for day in days if day > 90]",
            ("([80, 91, 120])", "([])"),
        ),
        Function(
            "def baskets(apples):\n"
            "    return {name: apples.count(name) for name in apples}",
            ("(['red', 'red', 'pale'])", "([])"),
        ),
        Function(
            "def season(month):\n"
            "    return ('winter', 'spring', 'summer', 'autumn')[month % 12 // 3]",
            ("(12)", "(7)"),
        ),
    )),
    "library": Module("book", "books", (
        Function(
            "def fine(days):\n"
            "    return 5 * (days - 14) if days > 14 else 0",
            ("(20)", "(14)"),
        ),
        Function(
            "def shelf_of(title):\n"
            "    return title[0].upper()",
            ("('moby')", "('Emma')"),
        ),
        Function(
            "def lent_out(loans):\n"
            "    return sum(not back for back in loans)",
            ("([True, False, False])", "([])"),
        ),
        Function(
            "def pages_read(days, pace):\n"
            "    return sum(pace for day in range(days))",
            ("(4, 30)", "(0, 9)"),
        ),
    )),
    "bakery": Module("loaf", "loaves", (
        Function(
            "def dough(loaves):\n"
            "    flour = 500 * loaves\n"
            "    return flour + flour * 65 // 100",
            ("(1)", "(4)"),
        ),
        Function(
            "def minutes(loaves, ovens):\n"
            "    return 35 * ((loaves + ovens - 1) // ovens)",
            ("(5, 2)", "(4, 2)"),
        ),
        Function(
            "def is_fresh(hour, baked):\n"
            "    return 0 <= hour - baked < 8",
            ("(12, 5)", "(20, 5)"),
        ),
        Function(
            "def order_of(names):\n"
            "    return {name: place for place, name in enumerate(names, 1)}",
            ("(['rye', 'oat'])", "([])"),
        ),
    )),
    "harbor": Module("ship", "ships", (
        Function(
            "def berth(ship):\n"
            "    return 'AB'[ship % 2] + '-east'",
            ("(3)", "(4)"),
        ),
        Function(
            "def draught(load):\n"
            "    return 2.5 + load / 100",
            ("(100)", "(250)"),
        ),
        Function(
            "def in_port(log):\n"
            "    return log.count('in') - log.count('out')",
            ("(['in', 'in', 'out'])", "([])"),
        ),
        Function(
            "def tide(hour):\n"
            "    return 'high' if hour % 12 < 6 else 'low'",
            ("(3)", "(20)"),
        ),
    )),
    "clinic": Module("visit", "visits", (
        Function(
            "def slot(hour, minute):\n"
            "    return hour * 4 + minute // 15",
            ("(9, 30)", "(0, 14)"),
        ),
        Function(
            "def waiting(seen, came):\n"
            "    return [name for name in came if name not in seen]",
            ("(['a'], ['a', 'b'])", "([], [])"),
        ),
        Function(
            "def age_group(age):\n"
            "    return 'child' if age < 16 else 'adult'",
            ("(15)", "(16)"),
        ),
        Function(
            "def dose(weight):\n"
            "    return min(weight * 10, 600)",
            ("(20)", "(90)"),
        ),
    )),
    "museum": Module("guest", "guests", (
        Function(
            "def ticket(age):\n"
            "    return 4 if age < 18 else 9",
            ("(17)", "(40)"),
        ),
        Function(
            "def rooms(floor):\n"
            "    return [floor * 100 + room for room in (1, 2, 3)]",
            ("(1)", "(4)"),
        ),
        Function(
            "def guide_of(language):\n"
            "    return 'guide-' + language[:2]",
            ("('english')", "('de')"),
        ),
        Function(
            "def open_hours(day):\n"
            "    return 0 if day == 'monday' else 8",
            ("('monday')", "('friday')"),
        ),
    )),
    "garden": Module("plant", "plants", (
        Function(
            "def water(plants, dry):\n"
            "    return plants * (2 if dry else 1)",
            ("(4, True)", "(4, False)"),
        ),
        Function(
            "def beds(plants, size):\n"
            "    return [plants[at : at + size] for at in range(0, len(plants), size)]",
            ("([1, 2, 3], 2)", "([], 2)"),
        ),
        Function(
            "def sun(hours):\n"
            "    return sum(hours) > 6",
            ("([3, 4])", "([2, 3])"),
        ),
        Function(
            "def path(stones):\n"
            "    return '-'.join(str(stone) for stone in stones)",
            ("([1, 2])", "([])"),
        ),
    )),
    "studio": Module("song", "songs", (
        Function(
            "def seconds(minutes, rest):\n"
            "    return 60 * minutes + rest",
            ("(3, 20)", "(0, 5)"),
        ),
        Function(
            "def chords(keys):\n"
            "    return [key + 'm' for key in keys]",
            ("(['a', 'd'])", "([])"),
        ),
        Function(
            "def tempo(beats, minutes):\n"
            "    return beats * 60 // minutes",
            ("(8, 4)", "(9, 3)"),
        ),
        Function(
            "def is_loud(levels):\n"
            "    return any(level > 80 for level in levels)",
            ("([70, 90])", "([])"),
        ),
    )),
    "market": Module("stall", "stalls", (
        Function(
            "def rent(meters, days):\n"
            "    return meters * days * 3",
            ("(4, 2)", "(0, 2)"),
        ),
        Function(
            "def change(paid, price):\n"
            "    return divmod(paid - price, 5)",
            ("(20, 8)", "(5, 5)"),
        ),
        Function(
            "def best_day(sold):\n"
            "    return max(sold, key=sold.get)",
            ("(dict(mon=3, tue=8))", "(dict(sun=1))"),
        ),
        Function(
            "def sign(name):\n"
            "    return '* ' + name + ' *'",
            ("('ham')", "('')"),
        ),
    )),
    "tower": Module("bell", "bells", (
        Function(
            "def strokes(hour):\n"
            "    return hour % 12 or 12",
            ("(0)", "(15)"),
        ),
        Function(
            "def steps(floors):\n"
            "    return sum(18 for floor in range(floors))",
            ("(5)", "(0)"),
        ),
        Function(
            "def rings(minute):\n"
            "    return minute % 15 == 0",
            ("(45)", "(50)"),
        ),
        Function(
            "def tones(bells):\n"
            "    return [440 // bell for bell in bells]",
            ("([1, 2])", "([])"),
        ),
    )),
    "cabin": Module("log", "logs", (
        Function(
            "def warmth(logs):\n"
            "    return 8 + 2 * len(logs)",
            ("(['oak'])", "([])"),
        ),
        Function(
            "def nights(start, end):\n"
            "    return list(range(start, end))",
            ("(3, 6)", "(4, 4)"),
        ),
        Function(
            "def candle(hours):\n"
            "    return 'short' if hours > 5 else 'long'",
            ("(6)", "(5)"),
        ),
        Function(
            "def beds_for(people):\n"
            "    return people // 2 + people % 2",
            ("(5)", "(4)"),
        ),
    )),
    "castle": Module("guard", "guards", (
        Function(
            "def watch(hour):\n"
            "    return 'night' if hour < 6 or hour > 21 else 'day'",
            ("(5)", "(12)"),
        ),
        Function(
            "def gates(walls):\n"
            "    return {wall: wall + '-gate' for wall in walls}",
            ("(['north'])", "([])"),
        ),
        Function(
            "def arrows(archers, rounds):\n"
            "    return archers * rounds - archers",
            ("(4, 3)", "(2, 1)"),
        ),
        Function(
            "def towers(length):\n"
            "    return length // 40 + 1",
            ("(100)", "(20)"),
        ),
    )),
    "island": Module("boat", "boats", (
        Function(
            "def ferry(people):\n"
            "    return [min(12, people - at) for at in range(0, people, 12)]",
            ("(30)", "(0)"),
        ),
        Function(
            "def wind(knots):\n"
            "    return 'calm' if knots < 4 else 'breeze'",
            ("(3)", "(9)"),
        ),
        Function(
            "def coast(sides):\n"
            "    return sum(sides) * 2",
            ("([3, 4])", "([])"),
        ),
        Function(
            "def lamp(hour):\n"
            "    return hour in (19, 20, 21)",
            ("(20)", "(8)"),
        ),
    )),
    "forest": Module("trail", "trails", (
        Function(
            "def pace(meters, minutes):\n"
            "    return meters * 6 // minutes",
            ("(500, 10)", "(90, 9)"),
        ),
        Function(
            "def marks(colors):\n"
            "    return [color[:1] for color in colors]",
            ("(['red', 'blue'])", "([])"),
        ),
        Function(
            "def is_steep(up, along):\n"
            "    return up * 5 > along",
            ("(3, 10)", "(1, 10)"),
        ),
        Function(
            "def huts(meters):\n"
            "    return meters // 4000",
            ("(9000)", "(100)"),
        ),
    )),
    "railway": Module("train", "trains", (
        Function(
            "def color(free, slow):\n"
            "    return 'red' if not free else 'yellow' if slow else 'green'",
            ("(True, False)", "(False, True)"),
        ),
        Function(
            "def delay(planned, came):\n"
            "    return came - planned if came > planned else 0",
            ("(10, 14)", "(10, 9)"),
        ),
        Function(
            "def tracks(trains):\n"
            "    return {train: train % 4 + 1 for train in trains}",
            ("([3, 8])", "([])"),
        ),
        Function(
            "def passes(speed, limit):\n"
            "    return speed * 10 <= limit * 11",
            ("(110, 100)", "(111, 100)"),
        ),
    )),
}
# fmt: on
HELD_OUT: Final = frozenset({"castle", "island", "forest", "railway"})
"""Those that tasks are only ever measured on."""
