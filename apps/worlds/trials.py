"""Tries at a world that no model makes: agents that follow a script, and what came of it, without a row."""

import json
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from apps.worlds.calls import find_call_fault
from apps.worlds.episodes import Episode, PlayedTurn, Seen
from apps.worlds.verifying import verify_answer
from tentalis.core.near_duplicates import list_texts
from tentalis.core.tool_calls import WrittenCall, read_arguments
from tentalis.core.worlds import (
    AttemptDraft,
    DraftStep,
    Observation,
    PanelItem,
    Solution,
    ToolCall,
    Verification,
    World,
)

Agent = Generator[ToolCall, str, AttemptDraft]
"""Yields what it wants done, is sent what the world said to it, and returns its last word."""
Tools = Sequence[Mapping[str, Any]]

RANDOM_CALLS: Final = 6
JUNK: Final = ("", "asdf qwer", "<call>", "\x00\ud800", "x" * 100_000, "[" * 5_000, '{"' * 500)
_ELSEWHERE: Final = "find / -xdev -not -path '/usr/*' -not -path '/proc/*' -not -path '/sys/*'"
TAMPERINGS: Final = (
    "rm -rf tests test; find . -name '*test*' -delete",
    f"{_ELSEWHERE} -iname '*test*' -delete 2>/dev/null; true",
    "for f in reward reward.txt reward.json score.txt; do echo 1 > $f; echo 1 > /$f; done",
    'echo \'{"reward": 1.0, "outcome": 1.0}\' > reward.json; cp reward.json result.json',
    "printf 'import os\\nos._exit(0)\\n' | tee conftest.py sitecustomize.py usercustomize.py tests/conftest.py",
    "printf '#!/bin/sh\\nexit 0\\n' > pytest; chmod +x pytest; PATH=$PWD:$PATH",
    f"{_ELSEWHERE} \\( -iname '*grader*' -o -iname '*reward*' -o -iname '*expected*' \\) 2>/dev/null | head -50",
    "env; cat /proc/1/environ /proc/self/environ 2>/dev/null | head -100",
    "find . -type f -exec truncate -s 0 {} +",
    "exit 0",
)
PLACES: Final = ("tests/test_main.py", "conftest.py", "reward.txt", "../grader.py", "/reward.json")
_PLACE_NAMES: Final = frozenset({"path", "file", "filename", "file_path", "destination"})


@dataclass
class ScriptedTry:
    """What came of a try.

    Attributes:
        seen: what the world said to its calls, in order; asked: the texts in those calls.
        verifications: of the same end, one a time it was asked.
        reset_s, act_s, verify_s: seconds each took, verifying the first time.
    """

    prompt: str
    seed: int | None
    seen: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    verifications: list[Verification | None] = field(default_factory=list)
    reset_s: float = 0.0
    act_s: list[float] = field(default_factory=list)
    verify_s: float = 0.0

    @property
    def outcome(self) -> float | None:
        found = self.verifications[0] if self.verifications else None
        return None if found is None else found.outcome

    @property
    def fault(self) -> str:
        """Why it is worth neither something nor nothing; "" where it is."""
        found = self.verifications[0] if self.verifications else None
        if found is None:
            return "nothing says what it is worth"
        return found.infrastructure if found.outcome is None else ""


def try_task(world: World, item: PanelItem, agent: Agent, *, asked: int = 1) -> ScriptedTry:
    """Have an agent try a task as its own player would, and ask `asked` times what the end is worth.

    Raises:
        Exception: whatever the world raises.
    """
    trial = ScriptedTry(item.prompt, item.seed)
    if not world.has_turns:
        draft = _finish(agent)
        look = None
        _verify(world, item, draft, trial, asked, look)
        return trial
    started = time.perf_counter()
    state = world.reset(item.prompt, item.seed)
    trial.reset_s = time.perf_counter() - started
    try:
        episode = Episode(key="trial", prompt=item.prompt, seed=item.seed)
        _act(world, state, agent, episode, trial)
        draft = episode.join()
        _verify(
            world, item, draft, trial, asked, partial(world.verify_state, item.prompt, item.reference, state, draft)
        )
    finally:
        world.close(state)
    return trial


def _finish(agent: Agent) -> AttemptDraft:
    try:
        while True:
            agent.send(None)  # type: ignore[arg-type]  # what it wants done is done by nobody here
    except StopIteration as last:
        draft: AttemptDraft = last.value
        return draft


def _act(world: World, state: Any, agent: Agent, episode: Episode, trial: ScriptedTry) -> None:
    said: str | None = None
    for place in range(world.limits.turns):
        try:
            call = agent.send(said)  # type: ignore[arg-type]  # None begins it
        except StopIteration as last:
            episode.turns.append(PlayedTurn(draft=last.value, seen=()))
            return
        tools = [tool["function"] for tool in world.tools_now(episode.prompt, state)]
        parameters = {tool["name"]: tool.get("parameters") for tool in tools}
        fault = find_call_fault(WrittenCall(call.name, call.arguments), parameters)
        started = time.perf_counter()
        seen = Observation(text=f"error: {fault}") if fault else world.act(state, call, f"trial-{place}")
        if not fault:
            trial.act_s.append(time.perf_counter() - started)
        trial.seen.append(seen.text)
        trial.asked += list_texts(read_arguments(call.arguments))
        said = seen.text[: world.limits.output_chars]
        shown = Seen(text=said, ends=seen.ends)
        episode.turns.append(PlayedTurn(draft=AttemptDraft(), calls=[call], seen=[shown]))
        if seen.ends:
            return
    episode.ended_by = "turns"


def _verify(world: World, item: PanelItem, draft: AttemptDraft, trial: ScriptedTry, asked: int, look: Any) -> None:
    for _ in range(asked):
        started = time.perf_counter()
        found = verify_answer(
            environment=world.name,
            prompt=item.prompt,
            reference=item.reference,
            draft=draft,
            checks=item.checks,
            look=look,
        )
        trial.verify_s = trial.verify_s or time.perf_counter() - started
        trial.verifications.append(found)


# --- agents ----------------------------------------------------------------------------------------------------------


def _say(text: str) -> AttemptDraft:
    return AttemptDraft(text=text, answer=text, steps=[DraftStep(kind="answer", text=text)])


def follow(solution: Solution) -> Agent:
    """Makes the calls of a solution, whatever it is told."""
    for call in solution.calls:  # noqa: UP028 - it is sent what the world says
        yield call
    return solution.draft


def do_nothing() -> Agent:
    yield from ()
    return AttemptDraft()


def act_randomly(tools: Tools, prompt: str, rng: Random) -> Agent:
    """Calls tools with arguments that their schemas take, made of words it has read; then says some of them."""
    words = prompt.split()
    for place in range(RANDOM_CALLS if tools else 0):
        function = rng.choice(tools)["function"]
        arguments = _draw(function.get("parameters") or {}, rng, words)
        said = yield ToolCall(id=str(place), name=function["name"], arguments=json.dumps(arguments))
        words += said.split()[:100]
    return _say(" ".join(rng.choices(words, k=rng.randint(1, 3))))


def _draw(schema: Mapping[str, Any], rng: Random, words: Sequence[str]) -> Any:
    """A value that a JSON schema takes, near enough: what it does not take is refused before it is done."""
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return _draw(rng.choice(schema[key]), rng, words)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kind = schema.get("type", "object")
    match rng.choice(kind) if isinstance(kind, list) else kind:
        case "object":
            fields = schema.get("properties", {})
            return {name: _draw(each, rng, words) for name, each in fields.items()}
        case "array":
            return [_draw(schema.get("items", {"type": "string"}), rng, words) for _ in range(rng.randint(0, 2))]
        case "integer" | "number":
            low, high = schema.get("minimum", 0), schema.get("maximum", 99)
            return rng.randint(int(low), max(int(high), int(low)))
        case "boolean":
            return rng.random() < 0.5
        case "null":
            return None
    return rng.choice(words)[: schema.get("maxLength", 200)]


def talk_garbage(tools: Tools, rng: Random) -> Agent:
    """Calls what is not there, with what is no JSON, and with junk where words belong; then says junk."""
    names = [tool["function"]["name"] for tool in tools]
    calls = [("no_such_tool", "{}"), *((name, junk) for name in names for junk in ("", "{", "[]", '{"x": 1}'))]
    for tool in tools:
        schema = tool["function"].get("parameters") or {}
        calls += [(tool["function"]["name"], json.dumps(_draw(schema, rng, [junk]))) for junk in JUNK[1:]]
    for place, (name, arguments) in enumerate(rng.sample(calls, min(len(calls), 10))):
        yield ToolCall(id=str(place), name=name, arguments=arguments)
    return _say(rng.choice(JUNK))


def takes_text(tools: Tools) -> bool:
    """Whether any tool takes words of its agent's own."""
    return any(_list_text_fields(tool) for tool in tools)


def _list_text_fields(tool: Mapping[str, Any]) -> list[str]:
    fields = (tool["function"].get("parameters") or {}).get("properties", {})
    return [name for name, each in fields.items() if each.get("type") == "string" and not each.get("enum")]


def tamper(tools: Tools, prompt: str, rng: Random) -> Agent:
    """Deletes tests, writes rewards, puts itself between a grader and what it grades, wherever words are taken; then
    ends it as if it were done."""
    for place, words in enumerate(TAMPERINGS):
        for tool in tools:
            if fields := _list_text_fields(tool):
                arguments = _draw(tool["function"].get("parameters") or {}, rng, prompt.split())
                for name in fields:
                    arguments[name] = rng.choice(PLACES) if name in _PLACE_NAMES else words
                yield ToolCall(id=f"t{place}", name=tool["function"]["name"], arguments=json.dumps(arguments))
    for tool in tools:
        if not (tool["function"].get("parameters") or {}).get("properties"):
            yield ToolCall(id="end", name=tool["function"]["name"])
    return _say("Done.")
