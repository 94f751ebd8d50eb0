"""Families of tasks about what stands in files: logs, tables, settings, cron text, data with gaps."""

from random import Random
from typing import Final

from tentalis.core.terminal.scenes import NAMES, Family, Scene, Way, Words, draw_other
from tentalis.core.terminal.trees import Holds, file, with_parents

_WARES: Final = ("bolt", "lamp", "rope", "drum", "vase", "hook", "belt", "tile")
_TROUBLES: Final = ("disk full", "no route", "timeout", "bad checksum")


def _make_logs(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)
    lines: list[str] = []
    errors: list[str] = []
    for minute in sorted(rng.sample(range(10, 60), 6)):
        trouble = rng.choice(_TROUBLES)
        is_error = rng.random() < 0.5 or (minute >= 50 and not errors)
        lines.append(f"12:{minute} {f'ERROR {trouble}' if is_error else 'INFO ready'}\n")
        errors += lines[-1:] if is_error else []
    if not errors:
        errors = [f"13:00 ERROR {rng.choice(_TROUBLES)}\n"]
        lines += errors
    text = "".join(errors)
    return Scene(
        context=words["who"],
        files=with_parents(
            {
                f"{name}.log": file("".join(lines)),
                f"{other}.log": file("12:01 ERROR no route\n12:02 INFO ready\n"),
                "out/readme": file("Reports of the month\n"),
            }
        ),
        ways={
            "beside": Way(
                "write NAME.err", [(f"grep ERROR {name}.log > {name}.err", "")], {f"{name}.err": Holds(text)}
            ),
            "out": Way(
                "write out/NAME.err",
                [(f"grep ERROR {name}.log > out/{name}.err", "")],
                {f"out/{name}.err": Holds(text)},
            ),
            "count": Way(
                "count them in NAME.err",
                [(f"grep -c ERROR {name}.log > {name}.err", "")],
                {f"{name}.err": Holds(f"{len(errors)}\n")},
            ),
        },
    )


def _make_tables(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)
    wares = rng.sample(_WARES, 5)
    rows = list(zip(wares, rng.sample(range(10, 100), 5), strict=True))
    keys = {"ware": (0, "-k1,1"), "price": (1, "-k2n")}
    place, key = keys[words["column"]]
    ordered = sorted(rows, key=lambda row: row[place])

    def write(found: list[tuple[str, int]]) -> str:
        return "".join(f"{ware},{price}\n" for ware, price in found)

    path, new = f"{name}.csv", f"{name}.new"
    return Scene(
        files={path: file(write(rows)), f"{other}.csv": file("tile,5\nbelt,3\n")},
        ways={
            "new": Way("write NAME.new", [(f"sort -t, {key} {path} > {new}", "")], {new: Holds(write(ordered))}),
            "place": Way("sort in place", [(f"sort -t, {key} -o {path} {path}", "")], {path: Holds(write(ordered))}),
            "down": Way(
                "write NAME.new from high to low",
                [(f"sort -t, {key} -r {path} > {new}", "")],
                {new: Holds(write(ordered[::-1]))},
            ),
        },
    )


def _make_config(words: Words, rng: Random) -> Scene:
    name, key, way, other = words["name"], words["key"], words["way"], draw_other(words, rng)
    path, was = f"conf/{name}.ini", "no" if way == "on" else "yes"
    keys = [key, *rng.sample([one for one in _KEYS if one != key], 2)]
    rng.shuffle(keys)

    def write(line: str) -> str:
        return "".join(f"{line if one == key else f'{one} = {was}'}\n" for one in keys).replace("\n\n", "\n")

    def set_to(hint: str, value: str) -> Way:
        command = f"sed -i 's/^{key} .*/{key} = {value}/' {path}"
        return Way(hint, [(command, "")], {path: Holds(write(f"{key} = {value}"))})

    ways = {
        "on": {value: set_to(f"say {value}", value) for value in ("yes", "on", "true")},
        "off": {
            "no": set_to("say no", "no"),
            "false": set_to("say false", "false"),
            "mark": Way(
                "put # before it",
                [(f"sed -i 's/^{key} /# {key} /' {path}", "")],
                {path: Holds(write(f"# {key} = {was}"))},
            ),
        },
    }
    return Scene(
        context=way,
        files=with_parents({path: file(write(f"{key} = {was}")), f"conf/{other}.ini": file(f"{key} = {was}\n")}),
        ways=ways[way],
    )


def _make_cron(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)
    before = f"5 4 * * 1 bin/{other}.sh\n"
    times = {
        "hour": {"seven": "7 * * * *", "sharp": "0 * * * *", "half": "30 * * * *"},
        "night": {"three": "7 3 * * *", "midnight": "0 0 * * *", "two": "30 2 * * *"},
    }[words["when"]]
    hints = {
        "seven": "at minute 7", "sharp": "at minute 0", "half": "at minute 30",
        "three": "at 7 past 3", "midnight": "at 0 past 0", "two": "at 30 past 2",
    }  # fmt: skip
    return Scene(
        context=words["when"],
        files=with_parents(
            {
                "crontab": file(before),
                f"bin/{name}.sh": file("#!/bin/sh\necho run\n", 0o755),
                f"bin/{other}.sh": file("#!/bin/sh\necho run\n", 0o755),
            }
        ),
        ways={
            way: Way(
                hints[way],
                [(f"echo '{time} bin/{name}.sh' >> crontab", "")],
                {"crontab": Holds(f"{before}{time} bin/{name}.sh\n")},
            )
            for way, time in times.items()
        },
    )


def _make_repair(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)
    wares, gap = rng.sample(_WARES, 4), rng.randrange(4)
    rows = [f"{ware},{'' if place == gap else rng.randrange(2, 50)},{rng.randrange(10, 99)}\n"
            for place, ware in enumerate(wares)]  # fmt: skip
    path, left = f"{name}.csv", [row for place, row in enumerate(rows) if place != gap]
    filled = [row.replace(",,", ",0,") for row in rows]
    return Scene(
        files={path: file("".join(rows)), f"{other}.csv": file("drum,,31\nbelt,4,12\n")},
        ways={
            "aside": Way(
                "keep the line in NAME.bad",
                [(f"grep ,, {path} > {name}.bad", ""), (f"sed -i /,,/d {path}", "")],
                {f"{name}.bad": Holds(rows[gap]), path: Holds("".join(left))},
            ),
            "drop": Way("drop the line", [(f"sed -i /,,/d {path}", "")], {path: Holds("".join(left))}),
            "zero": Way("fill in 0", [(f"sed -i s/,,/,0,/ {path}", "")], {path: Holds("".join(filled))}),
        },
    )


_KEYS: Final = ("cache", "debug", "proxy", "index", "trace", "alerts")
FAMILIES: Final = (
    Family(
        "logs", "Collect the errors of {name}.log for the {who}.", {"audit": "out", "shift": "beside"}, _make_logs,
        {"name": NAMES, "who": ("audit", "shift")},
    ),
    Family(
        "tables", "Sort {name}.csv by {column}.", {"": "place"}, _make_tables,
        {"name": NAMES, "column": ("ware", "price")},
    ),
    Family(
        "config", "Turn {key} {way} for {name}.", {"on": "true", "off": "mark"}, _make_config,
        {"key": _KEYS, "way": ("on", "off"), "name": NAMES},
    ),
    Family(
        "cron", "Let cron run {name}.sh every {when}.", {"hour": "seven", "night": "three"}, _make_cron,
        {"name": NAMES, "when": ("hour", "night")},
    ),
    Family("repair", "Repair the gap in {name}.csv.", {"": "aside"}, _make_repair, {"name": NAMES}),
)  # fmt: skip
