"""Families of tasks about programs that run: stopping a worker, starting a small service."""

from random import Random
from typing import Final

from tentalis.core.terminal.scenes import NAMES, Family, Scene, Way, Words, draw_other
from tentalis.core.terminal.trees import Gone, Holds, Want, file, with_parents

WORKER: Final = """#!/bin/bash
echo $$ > run/NAME.pid
echo busy > run/NAME.state
end() { kill $!; echo $1 > run/NAME.state; rm run/NAME.pid; exit 0; }
trap 'end saved' TERM
trap 'end drained' USR1
while :; do sleep 600 & wait $!; done
"""
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
        starts=[f"bin/{one}.sh & disown; until [ -s run/{one}.state ]; do sleep 0.01; done" for one in (name, other)],
        ways={
            "save": stop("let it save", "TERM", "saved\n"),
            "drain": stop("let it drain", "USR1", "drained\n"),
            "kill": stop("kill it", "KILL", "busy\n"),
        },
        ends=[f"bin/{name}.sh"],
        keeps=[f"bin/{other}.sh"],
    )


def _make_services(words: Words, rng: Random) -> Scene:
    name, other = words["name"], draw_other(words, rng)

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
            "log": start("log to log/NAME.log", f"log/{name}.log"),
            "out": start("log to NAME.out", f"{name}.out"),
            "beside": start("log to bin/NAME.log", f"bin/{name}.log"),
        },
        keeps=[f"bin/{name}.sh"],
    )


FAMILIES: Final = (
    Family("processes", "Stop the worker {name}.", {"": "drain"}, _make_processes, {"name": NAMES}),
    Family("services", "Start the service {name}.", {"": "log"}, _make_services, {"name": NAMES}),
)
