"""Calls as families of models write them."""

import json

import pytest

from tentalis.core.steps import parse_steps
from tentalis.core.tool_calls import WrittenCall, count_plain, read_arguments, read_written_calls, write_told_call

PRESS = WrittenCall("press", '{"button": "a"}')
LOOK = WrittenCall("look", "{}")


@pytest.mark.parametrize(
    ("text", "before", "calls"),
    [
        ('<tool_call>\n{"name": "press", "arguments": {"button": "a"}}\n</tool_call><|im_end|>', "", [PRESS]),
        (
            'Well.\n<tool_call>{"name": "look", "arguments": {}}</tool_call>'
            '<tool_call>{"name": "press", "arguments": {"button": "a"}}</tool_call>',
            "Well.\n",
            [LOOK, PRESS],
        ),
        ('<tool_call>{"name": "press", "arguments": {"button": "a"}}', "", [PRESS]),
        ('{"name": "press", "parameters": {"button": "a"}}<|eot_id|>', "", [PRESS]),
        ('<|python_tag|>{"name": "look", "parameters": {}}; {"name": "press", "parameters": {"button": "a"}}<|eom_id|>',
         "", [LOOK, PRESS]),
        ('[TOOL_CALLS][{"name": "press", "arguments": {"button": "a"}}]</s>', "", [PRESS]),
        ('Yes.[TOOL_CALLS]look[ARGS]{}[TOOL_CALLS]press[ARGS]{"button": "a"}</s>', "Yes.", [LOOK, PRESS]),
        ('<call>press {"button": "a"}</call><|end|>', "", [PRESS]),
        ('{"name": "Ada", "age": 36}', '{"name": "Ada", "age": 36}', []),
        ("2 < 3, and <b>bold</b> [1]", "2 < 3, and <b>bold</b> [1]", []),
        ("<tool_call>press it</tool_call>", "", [WrittenCall("press", "it")]),
        ("<tool_call>{'name': press}</tool_call>", "", [WrittenCall("", "{'name': press}")]),
        ("[TOOL_CALLS][{}]", "", [WrittenCall("", "[{}]")]),
        ("<|python_tag|>print(1)", "", [WrittenCall("", "print(1)")]),
        ("{" * 5000, "{" * 5000, []),
    ],
)  # fmt: skip
def test_each_family_writes_calls_in_its_own_way(text: str, before: str, calls: list[WrittenCall]) -> None:
    found = read_written_calls(text)
    assert (found.text, list(found.calls)) == (before, calls)
    assert not found.starts or len(found.starts) == len(found.calls)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Let me see.\n<tool_call>{", "Let me see."),
        ("Let me see.\n<tool", "Let me see."),
        ("Let me see. ", "Let me see."),
        ("2 < 3", "2 < 3"),
        ("2 <", "2"),
        ("Yes.[TOOL_CALLS]look", "Yes."),
        (' {"name"', ""),
        ("", ""),
    ],
)
def test_of_a_growing_answer_it_is_known_what_no_call_is_in(text: str, plain: str) -> None:
    assert text[: count_plain(text)] == plain
    assert count_plain('{"a"', is_first=False) == 4


def test_calls_begin_where_they_are_told_to() -> None:
    text = 'So: <call>look {}</call> then <call>press {"button": "a"}</call>'
    assert [text[start:][:6] for start in read_written_calls(text).starts] == ["<call>", "<call>"]
    llama = '{"name": "look", "parameters": {}}; {"name": "press", "parameters": {"button": "a"}}'
    assert [llama[start:][:9] for start in read_written_calls(llama).starts] == ['{"name": '] * 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        (" {} ", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", None),
        ("a", None),
        ('{"a": NaN}', None),
        ("{" * 9999, None),
        ('{"a": "\\ud800"}', None),
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    ],
)
def test_arguments_are_an_object_or_none(text: str, found: object) -> None:
    assert read_arguments(text) == found


def test_a_call_that_cannot_be_read_still_stands_in_the_conversation_as_every_server_takes_it() -> None:
    told = write_told_call("c1", WrittenCall("", "{'a'"))["function"]
    assert (told["name"], json.loads(told["arguments"])) == ("unreadable", {"text": "{'a'"})
    assert write_told_call("c2", LOOK)["function"] == {"name": "look", "arguments": "{}"}


def test_steps_read_the_same_calls() -> None:
    (step,) = parse_steps('<tool_call>{"name": "press", "parameters": {"button": "a"}}</tool_call>').steps
    assert (step.tool_name, step.arguments) == PRESS
