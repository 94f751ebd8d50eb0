"""What is asked of a world. Its doctor asks more where it is installed: `tentalis world doctor NAME`."""

import json
from random import Random

import pytest

from tentalis.core.worlds import AttemptDraft, StateLostError, ToolCall, World

GROUP = "tentalis.worlds"
TRIES = 5


def draw_prompts(world: World) -> list[str]:
    drawn = [world.draw_prompt(Random(seed)) for seed in range(TRIES)]
    prompts = [prompt for prompt in drawn if prompt is not None] + [item.prompt for item in world.panel(TRIES, 0)]
    if not prompts:
        pytest.skip("it makes no tasks up")
    return prompts


def test_what_it_makes_up_are_tasks_of_its_own(thing: World) -> None:
    for prompt in draw_prompts(thing):
        thing.check_prompt(prompt)


def test_what_is_trained_on_is_never_measured_on(thing: World) -> None:
    drawn = [thing.draw_prompt(Random(seed)) for seed in range(TRIES)]
    assert not [prompt for prompt in drawn if prompt is not None and thing.is_held_out(prompt)]


def test_the_same_seed_gives_the_same_panel(thing: World) -> None:
    assert thing.panel(TRIES, 7) == thing.panel(TRIES, 7)


def test_its_tools_are_functions_with_schemas(thing: World) -> None:
    for prompt in draw_prompts(thing):
        for tool in thing.tools(prompt):
            assert tool["type"] == "function"
            assert tool["function"]["name"]
            assert tool["function"].get("parameters", {"type": "object"})["type"] == "object"
            json.dumps(tool)


def test_an_episode_begins_alike_each_time_and_is_nobody_elses(thing: World) -> None:
    if not thing.has_turns:
        pytest.skip("it has no turns")
    for prompt in draw_prompts(thing):
        first, second = thing.reset(prompt, 1), thing.reset(prompt, 1)
        try:
            assert thing.hash_state(first) == thing.hash_state(second)
            if (kept := thing.snapshot(first)) is not None:
                restored = thing.restore(prompt, kept)
                assert thing.hash_state(restored) == thing.hash_state(first)
                thing.close(restored)
        finally:
            thing.close(first)
            thing.close(second)


def test_its_own_way_is_right_and_idling_is_not(thing: World) -> None:
    solved = 0
    for prompt in draw_prompts(thing):
        if (solution := thing.solve(prompt, 1)) is None:
            continue
        solved += 1
        assert _play(thing, prompt, solution.calls, solution.draft) == 1.0
        assert _play(thing, prompt, (), AttemptDraft(text="", answer="")) != 1.0
    if not solved:
        pytest.skip("it knows no right way")


def _play(world: World, prompt: str, calls: object, draft: AttemptDraft) -> float | None:
    if not world.has_turns:
        found = world.verify(prompt, None, draft)
        return found.outcome if found else None
    state = world.reset(prompt, 1)
    try:
        for place, call in enumerate(calls):  # type: ignore[arg-type,var-annotated]
            assert isinstance(call, ToolCall)
            world.act(state, call, str(place))
        found = world.verify_state(prompt, None, state, draft)
    except StateLostError as error:
        pytest.fail(f"its state is lost: {error}")
    finally:
        world.close(state)
    return found.outcome if found else None
