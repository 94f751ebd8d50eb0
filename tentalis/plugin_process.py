"""What others wrote, in a process of its own: a plug-in that is tried, or the agent of another framework at its tasks.

Run as a file (`python -I plugin_process.py DESCRIPTOR`), by any Python from 3.10 on: it imports nothing of ours, so
that an agent may live in an environment in which Tentalis is not installed. It is told what to do on standard input,
and tells on DESCRIPTOR what came of it, a JSON object a line; what others print goes to standard output.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import queue
import sys
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

MOST_TOLD = 60_000
"""Bytes of a line: no more lie in a pipe that nobody reads yet."""
ERROR_CHARS = 500
END_WITHIN_S = 10.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class FlowTask:
    """What an agent is to do.

    Args:
        messages: the conversation it begins with, in the chat API's form: the worker's system prompt, if it has one,
            and the prompt.
    """

    prompt: str
    system_prompt: str
    messages: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class FlowConfig:
    """Where an agent thinks, and how.

    Args:
        base_url: of the gateway, for clients of OpenAI's API, ending in /v1; it belongs to this one try.
        api_key: for it.
        model: what to ask it for. What answers is the platform's choice.
        session: the try's, in base_url too. `anthropic_url`: the same for clients of Anthropic's.
        temperature, max_tokens, top_p: the worker's; None: not set. The gateway holds calls to them.
        seed: of the try; None: any.
        stream: whether answers are to be streamed.
        timeout_s: after which nobody waits any more.
    """

    base_url: str
    api_key: str
    model: str
    session: str
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stream: bool = False
    timeout_s: float = 300.0

    @property
    def anthropic_url(self) -> str:
        return self.base_url.removesuffix("/v1")


@dataclass(frozen=True)
class FlowEpisode:
    """What an agent says of its try beside what the gateway saw.

    Args:
        answer: its last word; None: what its model said last.
        trace: what its framework noted, a label for people: no token is taken from it.
    """

    answer: str | None = None
    trace: str = ""


class AgentFlow(Protocol):
    """An agent of any framework; one of `run` and `arun` is enough. It keeps nothing from one try for another, and
    several are made at a time.

    What it raises fails the try. None means that the gateway saw it all. A text is the answer.
    """

    def run(self, task: FlowTask, config: FlowConfig) -> FlowEpisode | str | None: ...
    async def arun(self, task: FlowTask, config: FlowConfig) -> FlowEpisode | str | None: ...


def load(value: str) -> Any:
    """The object that an entry point names, `module:attribute`."""
    module, _, attribute = value.partition(":")
    found: Any = importlib.import_module(module.strip())
    for name in filter(None, attribute.split("[")[0].strip().split(".")):
        found = getattr(found, name)
    return found


def describe(thing: Any) -> dict[str, Any]:
    """What who does not import it has to know of a plug-in, as JSON; graders and flows are known by their form."""
    doc = (inspect.getdoc(thing) or "").partition("\n")[0] if callable(thing) or is_flow(thing) else ""
    made: Any = thing() if inspect.isclass(thing) and hasattr(thing, "grade") else thing
    names = ("name", "version", "about", "options", "wants_reference", "asks")
    if hasattr(made, "grade") and all(hasattr(made, name) for name in names):
        return {"grader": {name: getattr(made, name) for name in names} | {"options": dict(made.options)}}
    if is_flow(thing):
        return {"flow": {"label": str(getattr(thing, "label", "")), "about": doc}}
    return {"about": doc, "is_callable": callable(thing)}


def is_flow(thing: Any) -> bool:
    return callable(getattr(thing, "run", None)) or callable(getattr(thing, "arun", None))


def try_one(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Import a plug-in."""
    try:
        if asked.get("django"):
            importlib.import_module("tentalis.plugins").is_trial = True  # type: ignore[attr-defined]
            importlib.import_module("django").setup()
        told = {"error": "", "told": describe(load(asked["value"]))}
        if len(json.dumps(told)) > MOST_TOLD:
            return {"error": f"wanted at most {MOST_TOLD:,} bytes of words on itself, found more"}
    except BaseException as error:  # noqa: BLE001 - another's code, in a process that is there for it
        return {"error": say(error), "wants_django": type(error).__module__.startswith("django.")}
    return told


class FlowHost:
    """Has one agent make tries, some at a time; each is told when it ends."""

    def __init__(self, value: str, tell: Callable[[dict[str, Any]], None]) -> None:
        thing = load(value)
        self._flow: Any = thing() if inspect.isclass(thing) else thing
        self._tell = tell
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def make(self, tries: Sequence[Mapping[str, Any]], at_once: int) -> None:
        if not callable(getattr(self._flow, "arun", None)):
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(self._run, tries))
            return

        async def make_all() -> None:
            free = asyncio.Semaphore(at_once)
            await asyncio.gather(*(self._arun(one, free) for one in tries))

        self._loop.run_until_complete(make_all())

    def _run(self, one: Mapping[str, Any]) -> None:
        task, config = FlowTask(**one["task"]), FlowConfig(**one["config"])
        try:
            made = self._flow.run(task, config)
        except BaseException as error:  # noqa: BLE001 - as above: it is this try's end, and no other's
            made = error
        self._tell_end(one["id"], config, made)

    async def _arun(self, one: Mapping[str, Any], free: asyncio.Semaphore) -> None:
        task, config = FlowTask(**one["task"]), FlowConfig(**one["config"])
        async with free:
            try:
                made = await self._flow.arun(task, config)
            except BaseException as error:  # noqa: BLE001 - as above
                made = error
            await asyncio.to_thread(self._tell_end, one["id"], config, made)

    def _tell_end(self, key: Any, config: FlowConfig, made: Any) -> None:
        end_session(config)
        if isinstance(made, BaseException):
            self._tell({"id": key, "error": say(made)})
        elif made is None or isinstance(made, str):
            self._tell({"id": key, "answer": made, "trace": ""})
        else:
            own = getattr(made, "answer", None)
            trace = str(getattr(made, "trace", ""))
            self._tell({"id": key, "answer": None if own is None else str(own), "trace": trace})


def end_session(config: FlowConfig) -> None:
    """Say to the gateway that no more calls come: it answers when all of them are stored."""
    url = f"{config.base_url.removesuffix('/v1')}/done"
    asked = urllib.request.Request(url, method="POST", headers={"Authorization": f"Bearer {config.api_key}"})  # noqa: S310 - the gateway's
    with contextlib.suppress(OSError), _OPENER.open(asked, timeout=END_WITHIN_S) as answer:  # a 404: it made no call
        answer.read()


def say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_CHARS]


def main(descriptor: int) -> None:
    told_to = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # who asks the person at the keyboard is answered at once
    asked = json.loads(told_to.readline())
    sys.path[:] = asked.get("path") or sys.path

    def tell(told: dict[str, Any]) -> None:
        data = json.dumps(told).encode() + b"\n"
        with writing:
            while data:
                data = data[os.write(descriptor, data) :]

    writing = threading.Lock()
    if asked["do"] == "try":

        def end_with_asker() -> None:
            told_to.read()
            os._exit(0)

        threading.Thread(target=end_with_asker, daemon=True).start()
        told = try_one(asked)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        tell(told)
    else:
        serve_flow(asked, told_to, tell)
    os._exit(0)  # whatever threads were started


def serve_flow(asked: Mapping[str, Any], told_to: Any, tell: Callable[[dict[str, Any]], None]) -> None:
    """Have an agent make the tries of one line after another, until there are no more."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def hear() -> None:
        for line in told_to:
            lines.put(line)
        os._exit(0)  # whoever asked is gone, and nobody waits for what is made

    threading.Thread(target=hear, daemon=True).start()
    try:
        host = FlowHost(asked["value"], tell)
    except BaseException as error:  # noqa: BLE001 - it could not be loaded
        tell({"fatal": say(error)})
        return
    while True:
        wanted = json.loads(lines.get())
        host.make(wanted["tries"], wanted["at_once"])
        tell({"done": True})


if __name__ == "__main__":
    main(int(sys.argv[1]))
