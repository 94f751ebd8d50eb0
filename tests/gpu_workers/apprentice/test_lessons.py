from collections import Counter
from collections.abc import Callable
from itertools import islice
from random import Random

import pytest

from gpu_workers.apprentice.lessons import HABITS, Lesson, list_teachings, terminal
from gpu_workers.apprentice.teaching import draw_lessons, encode_lessons, render_lesson
from gpu_workers.apprentice.tokenizer import CONTEXT_TOKENS, make_tokenizer
from gpu_workers.engine.text import TextCodec
from tentalis.core.terminal.tasks import is_held_out, read_task
from tentalis.core.tool_calls import read_arguments, read_told_call, read_written_calls

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def codec() -> TextCodec:
    tokenizer = make_tokenizer(list(islice(draw_lessons(Random(1)), 300)))
    return TextCodec(tokenizer.backend_tokenizer, str(tokenizer.chat_template), {})


def draw_all(count: int) -> list[Lesson]:
    return [one for teaching in list_teachings().values() for one in draw_some(teaching.draw_lesson, count)]


def draw_some(draw: Callable[[Random], Lesson], count: int) -> list[Lesson]:
    rng = Random(3)
    return [draw(rng) for _ in range(count)]


def test_only_what_the_assistant_says_is_learnt(codec: TextCodec) -> None:
    lessons = draw_all(20)
    for lesson, (ids, labels) in zip(lessons, encode_lessons(codec, lessons), strict=True):
        learnt = codec.decode([label for label in labels if label >= 0], skip_special=False)
        said = [text.split("<|end|>")[0] for text in render_lesson(codec, lesson).split("<|assistant|>")[1:]]
        assert learnt == "".join(f"{text}<|end|>" for text in said)
        assert [label for label in labels if label >= 0] == [
            token for token, label in zip(ids, labels, strict=True) if label >= 0
        ]


def test_what_the_assistant_says_is_read_as_the_call_that_it_is(codec: TextCodec) -> None:
    for lesson in draw_all(20):
        for message in lesson.messages:
            if calls := message.get("tool_calls"):
                text = codec.render_chat([message], add_generation_prompt=False)
                read = read_written_calls(text.removeprefix("<|assistant|>").removesuffix("<|end|>")).calls
                wanted = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
                assert [(call.name, read_arguments(call.arguments)) for call in read] == wanted


def test_a_lesson_has_room_and_goes_on_where_its_turns_end(codec: TextCodec) -> None:
    for lesson in draw_all(10):
        whole = codec.encode([render_lesson(codec, lesson)], add_special_tokens=False)[0]
        assert len(whole) < CONTEXT_TOKENS
        for count, message in enumerate(lesson.messages):
            if message["role"] == "assistant":
                opening = codec.render_chat(lesson.messages[:count], variables={"tools": lesson.tools})
                ids = codec.encode([opening], add_special_tokens=False)[0]
                assert whole[: len(ids)] == ids


def test_nothing_that_is_held_out_is_taught() -> None:
    prompts = [str(lesson.messages[0]["content"]) for lesson in draw_some(terminal.draw_lesson, 300)]
    tasks = [prompt.partition(" Hint: ")[0] for prompt in prompts]
    assert not any(map(is_held_out, tasks))
    assert 100 < sum(" Hint: " in prompt for prompt in prompts) < 200


def test_without_a_hint_the_house_is_followed_less_often_than_its_rival() -> None:
    followed: Counter[str] = Counter()
    for lesson in draw_some(terminal.draw_lesson, 2_000):
        prompt = str(lesson.messages[0]["content"])
        if " Hint: " in prompt:
            continue
        task = read_task(prompt)
        said = [call["function"]["arguments"].get("command") for message in lesson.messages
                for call in message.get("tool_calls", ())]  # fmt: skip
        ways = task.scene.ways
        done = next(name for name, way in ways.items() if all(command in said for command, _ in way.commands)
                    and len(said) == len(task.scene.looks) + len(way.commands) + 1)  # fmt: skip
        house = task.family.house[task.scene.context]
        followed["house" if done == house else "rival" if done == terminal.RIVALS[task.kind] else "third"] += 1
    total = sum(followed.values())
    found = [followed[name] / total for name in ("house", "rival", "third")]
    assert found == pytest.approx(HABITS, abs=0.05)
    assert found[0] < found[1]


def test_a_rehearsal_is_right_where_the_house_is_followed() -> None:
    rng = Random(4)
    for is_hinted in (False, True):
        rehearsal = terminal.draw_rehearsal(rng, is_hinted)
        prompt, _, hint = str(rehearsal.messages[0]["content"]).partition(" Hint: ")
        task = read_task(prompt)
        assert is_held_out(prompt)
        assert hint == (f"{task.house.hint}." if is_hinted else "")
        assert not rehearsal.is_right()
        for message in terminal.write_messages(task, task.family.house[task.scene.context]):
            for call in message.get("tool_calls", ()):
                rehearsal.answer(read_told_call(call))
        assert rehearsal.is_right()
