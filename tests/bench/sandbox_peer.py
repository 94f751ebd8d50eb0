"""The peers of `tests.bench.sandbox`: episodes in inspect_ai's local sandbox or in `verifiers`' subprocess runtime.

`python sandbox_peer.py inspect_ai|verifiers script.json`, in an environment that holds it. It imports nothing of ours.
A line of JSON comes in (how many episodes, how many at once) and one goes out: seconds, and the milliseconds of each
turn.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class Box(NamedTuple):
    """What an episode needs of a sandbox."""

    write: Callable[[str, str], Awaitable[Any]]
    run: Callable[[str], Awaitable[str]]
    read: Callable[[str], Awaitable[str]]


@asynccontextmanager
async def open_inspect_ai() -> AsyncIterator[Box]:
    local = import_module("inspect_ai.util._sandbox.local").LocalSandboxEnvironment
    made = await local.sample_init("bench", None, {})
    box = made["default"]

    async def run(command: str) -> str:
        return str((await box.exec(["bash", "-c", command])).stdout)

    try:
        yield Box(box.write_file, run, box.read_file)
    finally:
        await local.sample_cleanup("bench", None, made, False)


@asynccontextmanager
async def open_verifiers() -> AsyncIterator[Box]:
    runtimes = import_module("verifiers.v1.runtimes")
    async with runtimes.provision_runtime(runtimes.SubprocessConfig()) as box:

        async def run(command: str) -> str:
            return str((await box.run(["bash", "-c", command], {})).stdout)

        async def write(path: str, text: str) -> None:
            await box.write(path, text.encode())

        async def read(path: str) -> str:
            return str((await box.read(path)).decode())

        yield Box(write, run, read)


OPENERS = {"inspect_ai": open_inspect_ai, "verifiers": open_verifiers}


async def play(opener: Callable[[], Any], script: dict[str, Any], turns: list[float]) -> None:
    async with opener() as box:
        await box.write(script["file"], script["text"])
        for command, expected in zip(script["commands"], script["outputs"], strict=True):
            started = time.perf_counter()
            said = await box.run(command)
            turns.append((time.perf_counter() - started) * 1e3)
            assert said == expected, f"{command}: wanted {expected!r}, found {said!r}"
        assert await box.read(script["result"]) == script["content"]


async def play_all(opener: Callable[[], Any], script: dict[str, Any], episodes: int, at_once: int) -> list[float]:
    turns: list[float] = []
    numbers = iter(range(episodes))

    async def go_on() -> None:
        for _ in numbers:
            await play(opener, script, turns)

    await asyncio.gather(*(go_on() for _ in range(at_once)))
    return turns


def main() -> None:
    opener = OPENERS[sys.argv[1]]
    script = json.loads(Path(sys.argv[2]).read_text())
    asyncio.run(play_all(opener, script, 2, 1))  # what is loaded on the way
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.perf_counter()
        turns = asyncio.run(play_all(opener, script, asked["episodes"], asked["at_once"]))
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "turns": turns}), flush=True)


if __name__ == "__main__":
    main()
