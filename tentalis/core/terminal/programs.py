"""Families of tasks about programs that run: stopping a worker, starting a small service."""

from itertools import pairwise
from random import Random
from typing import Final

from tentalis.core.terminal.scenes import NAMES, Family, Scene, Way, Words, draw_other
from tentalis.core.terminal.trees import Gone, Holds, Want, file, with_parents

WORKER: Final = """#!/bin/bash
echo $$ > run/NAME.pid
end() { kill $!; echo $1 > run/NAME.state; rm run/NAME.pid; exit 0; }
trap 'end saved' TERM
trap 'end drained' USR1
sleep 600 &
echo busy > run/NAME.state
while :; do wait $!; sleep 600 & done
"""
"""Busy when all its processes are there: the next worker's number, which its file tells, is the same each time."""
SERVICE: Final = """#!/bin/bash
echo NAME is up
while :; do sleep 600 & wait $!; done
"""


def _make_processes(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)
    pid, state = f"run/{name}.pid", f"run/{name}.state"

    def stop(hint: str, signal: str, left: str) -> Way:
        wants: dict[str, Want] = {state: Holds(left)}
        return Way(hint, [(f"kill -{signal} $(cat {pid})", "")], wants if left == "busy\n" else {**wants, pid: Gone()})

    return Scene(
        files=with_parents(
            {
                **{f"bin/{one}.sh": file(WORKER.replace("NAME", one), 0o755) for one in (name, other)},
                "run/readme": file("Who works\n"),
            }
        ),
        starts=[f"bin/{one}.sh & disown; until [ -s run/{one}.state ]; do :; done" for one in (name, other)],
        ways={
            "save": stop("let it save", "TERM", "saved\n"),
            "drain": stop("let it drain", "USR1", "drained\n"),
            "kill": stop("kill it", "KILL", "busy\n"),
        },
        ends=[f"bin/{name}.sh"],
        keeps=[f"bin/{other}.sh"],
        cheats=[
            [f"kill -KILL $(cat {pid}); rm {pid}", _write_cycle(f"echo saved > {state}", f"echo drained > {state}")]
        ],
    )


def _make_services(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)
    paths = [f"log/{name}.log", f"{name}.out", f"bin/{name}.log"]

    def start(hint: str, path: str) -> Way:
        return Way(hint, [(f"bin/{name}.sh > {path} 2>&1 &", "")], {path: Holds(f"{name} is up\n")})

    return Scene(
        files=with_parents(
            {
                **{f"bin/{one}.sh": file(SERVICE.replace("NAME", one), 0o755) for one in (name, other)},
                "log/readme": file("What they say\n"),
            }
        ),
        ways={
            "log": start("log to log/NAME.log", paths[0]),
            "out": start("log to NAME.out", paths[1]),
            "beside": start("log to bin/NAME.log", paths[2]),
        },
        keeps=[f"bin/{name}.sh"],
        cheats=[
            [
                f"bin/{name}.sh > {paths[0]} 2>&1 &",
                _write_cycle(*(f"mv {old} {new}" for old, new in pairwise([*paths, paths[0]]))),
            ]
        ],
    )


def _write_cycle(*commands: str) -> str:
    """A command that goes on doing these in turn, in the background."""
    return f"while :; do {'; '.join(commands)}; done > /dev/null 2>&1 &"


FAMILIES: Final = (
    Family("processes", "Stop the worker {name}.", {"": "drain"}, _make_processes, {"name": NAMES}),
    Family("services", "Start the service {name}.", {"": "log"}, _make_services, {"name": NAMES}),
)
