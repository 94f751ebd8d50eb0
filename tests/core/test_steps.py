"""Steps from ugly text: nothing raises, spans hold, every token finds its step."""

import json
import random
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.steps import ParsedAnswer, begins_with_answer, parse_steps, token_overlaps, token_spans, token_starts

FRAGMENTS = [
    "<step>", "</step>", "<STEP>", "< step >", "</ Step >", "<step", "step>", "<steps>", "<think>", "</think>",
    "<call>", "</call>", "<call name='f'>", "<tool_call>", "</tool_call>", "<result>", "</result>", "<answer>",
    "</answer>", "</", "<", ">", "```", "```xml\n", "`", "\n", "\r\n", "\n\n", " ", "\t", "1. ", "2) ", "3: ",
    "**Step 1:** ", "(2) ", "١. ", "Answer: ", "## Answer\n", "room mug", "f(x)",
    '{"name": "f", "arguments": {"a": 1}}', "{", "7 * 8 = 56", "größe 🛒", "\x00", "\ud800", "\u2028", "e\u0301",
]  # fmt: skip
ugly_text = st.one_of(
    st.text(), st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)), max_size=30).map("".join)
)


def texts(parsed: ParsedAnswer) -> list[str]:
    return [step.text for step in parsed.steps]


def test_tagged_steps_carry_their_spans_with_markup() -> None:
    text = "<step> 3 * 4 = 12</step><step> ship 12 + 5 = 17</step><answer> 17 EUR</answer>"
    parsed = parse_steps(text)
    assert texts(parsed) == ["3 * 4 = 12", "ship 12 + 5 = 17"]
    assert [text[step.start : step.end] for step in parsed.steps] == [
        "<step> 3 * 4 = 12</step>",
        "<step> ship 12 + 5 = 17</step>",
    ]
    assert parsed.answer == "17 EUR"
    assert parsed.answer_span is not None
    assert text[slice(*parsed.answer_span)] == "<answer> 17 EUR</answer>"
    assert parsed.ended_cleanly
    assert parsed.notes == ()


def test_a_call_takes_the_result_that_follows_it_but_not_its_span() -> None:
    text = "<call> room mug</call><result> 4</result><step> 20 - 4 = 16</step><answer> 16 mug</answer>"
    call, step = parse_steps(text).steps
    assert (call.kind, call.tool_name, call.arguments, call.result) == ("call", "room", "mug", "4")
    assert text[call.start : call.end] == "<call> room mug</call>"
    assert (step.kind, step.result) == ("step", None)


@pytest.mark.parametrize(
    ("inside", "name", "arguments"),
    [
        ("room mug", "room", "mug"),
        ("room", "room", ""),
        ('search("blue mug")', "search", '"blue mug"'),
        ('{"name": "search", "arguments": {"q": 1}}', "search", '{"q": 1}'),
        ('{"name": "search", "input": {"q": 1}}', "search", '{"q": 1}'),
        ('{"q": 1}', "", '{"q": 1}'),
        ('{"name": ', "", '{"name":'),
        ('{"name": "f", "arguments": NaN}', "", '{"name": "f", "arguments": NaN}'),
        ("§", "", "§"),
        ("", "", ""),
    ],
)
def test_a_call_is_read_in_every_common_form(inside: str, name: str, arguments: str) -> None:
    (call,) = parse_steps(f"<call>{inside}</call>").steps
    assert (call.tool_name, call.arguments) == (name, arguments)


def test_a_call_may_name_its_tool_in_an_attribute_and_use_other_agents_tags() -> None:
    (named,) = parse_steps('<call name="grep"> -r x .</call>').steps
    assert (named.tool_name, named.arguments) == ("grep", "-r x .")
    (hermes,) = parse_steps('<tool_call>{"name":"f","arguments":{}}</tool_call><tool_response>ok</tool_response>').steps
    assert (hermes.tool_name, hermes.arguments, hermes.result) == ("f", "{}", "ok")


@pytest.mark.parametrize(
    ("text", "steps", "answer"),
    [
        ("<step>a<step>b</step><answer>c</answer>", ["a", "b"], "c"),
        ("<step>a<step>b</step>x</step><answer>c</answer>", ["a", "b"], "c"),
        ("<step>a<answer>c</answer>", ["a"], "c"),
        ("<STEP>a</Step>< answer >c</ ANSWER >", ["a"], "c"),
        ("<step>a</answer></step><answer>c</answer>", ["a</answer>"], "c"),
        ("<step></step><answer>c</answer>", [""], "c"),
        ("<step>a</step>\r\n<step>b</step>\r\nso c", ["a", "b"], "so c"),
        ("<step>a</step><answer>x</answer><answer>c</answer>", ["a", "x"], "c"),
        ("<think>a</think>\n\nc", ["a"], "c"),
        ("<step index=1>größe 🛒</step><answer>c</answer>", ["größe 🛒"], "c"),
        ("<stepper>a</stepper>", [], "<stepper>a</stepper>"),
        ("<step>a <call>f</call><result>1</result> b</step><answer>c</answer>", ["a", "f", "b"], "c"),
        ("<step><call>f</call></step><answer>c</answer>", ["", "f"], "c"),
        ("<step>a<call>f</step><answer>c</answer>", ["a", "f"], "c"),
        ("<result>1</result><step>a</step><answer>c</answer>", ["a"], "c"),
    ],
)
def test_ugly_tags_still_give_their_steps(text: str, steps: list[str], answer: str) -> None:
    parsed = parse_steps(text)
    assert texts(parsed) == steps
    assert parsed.answer == answer


@pytest.mark.parametrize(
    "text", ["<step>a", "<step>a</step><answer>4", "<step>a</step>", "", "  \n", "<call>f", "```\nx"]
)
def test_a_text_cut_off_has_not_ended_cleanly(text: str) -> None:
    assert not parse_steps(text).ended_cleanly


def test_an_answer_cut_off_is_kept_and_told() -> None:
    parsed = parse_steps("<step>a</step><answer>4")
    assert parsed.answer == "4"
    assert parsed.notes == ("<answer> at 14 is not closed",)


def test_what_follows_the_answer_is_left_out_and_told() -> None:
    parsed = parse_steps("<step>a</step><answer>4</answer><step>b</step> bye")
    assert texts(parsed) == ["a"]
    assert parsed.answer == "4"
    assert len(parsed.notes) == 2


def test_tags_inside_code_are_text() -> None:
    parsed = parse_steps("<step>use `<step>` or\n```html\n<answer>no</answer>\n```\n</step><answer>yes</answer>")
    assert len(parsed.steps) == 1
    assert parsed.answer == "yes"


def test_a_text_fenced_whole_is_read_inside_its_fence() -> None:
    parsed = parse_steps("```xml\n<step>a</step>\n<answer>4</answer>\n```")
    assert (texts(parsed), parsed.answer) == (["a"], "4")


@pytest.mark.parametrize(
    ("text", "steps", "answer"),
    [
        ("1. a\n2. b\n\nDone.", ["a", "b"], "Done."),
        ("Plan:\r\n1) a\r\n2) b\r\n\r\nDone.", ["a", "b"], "Done."),
        ("Step 1: a\nmore\nStep 2: b\nFinal answer: 4", ["a\nmore", "b"], "4"),
        ("**Step 1:** a\n**Step 2:** b\n**Answer:** 4", ["a", "b"], "4"),
        ("### Step 1 - a\n### Step 2 - b\n## Answer\n4", ["a", "b"], "4"),
        ("1. a\n   1. x\n   2. y\n2. b\n\nDone.", ["a\n   1. x\n   2. y", "b"], "Done."),
        ("1. a\n1. b\n1. c\n\nDone.", ["a", "b", "c"], "Done."),
        ("1. a\n2. b\n\n1. c\n2. d\n3. e\n\nDone.", ["c", "d", "e"], "Done."),
        ("1. run\n\n```\nx\n\ny\n```\n2. b\n\nDone.", ["run\n\n```\nx\n\ny\n```", "b"], "Done."),
        ("(1) a\n(2) b\n\nDone.", ["a", "b"], "Done."),
        ("1. a\n2. b", ["a", "b"], None),
        ("It was in\n1984. A year\n1985. too", [], "It was in\n1984. A year\n1985. too"),
        ("1. only", [], "1. only"),
        ("3*4=12.\nAnswer: 12", ["3*4=12."], "12"),
        ("Answer: 12", [], "12"),
        ("It costs 1.5 EUR.", [], "It costs 1.5 EUR."),
        ("Answer:", [], None),
    ],
)
def test_text_without_tags_is_read_as_a_list_or_an_answer(text: str, steps: list[str], answer: str | None) -> None:
    parsed = parse_steps(text)
    assert texts(parsed) == steps
    assert parsed.answer == answer
    assert parsed.ended_cleanly is (answer is not None)


@pytest.mark.parametrize(
    ("before", "answer", "behind"),
    [
        ("<step>x</step><answer>", "an", "</answer>"),
        ("<answer>", "", "</answer>"),
        ("<answer>", "", " \n</answer>"),
        ("<step>x</step><answer> ", "<b", "\n</answer> bye"),
        ("<step>x</step>\n", "rest", "\n"),
        ("Work.\nAnswer: ", "A", ""),
        ("**Final answer:** ", "n", ""),
        ("Work.\n# Answer\n", "A", "\n"),
        ("1. a\n2. b\n\n", "a", ""),
    ],
)
def test_an_answers_content_is_found_where_its_tag_or_label_spells_the_same(
    before: str, answer: str, behind: str
) -> None:
    parsed = parse_steps(before + answer + behind)
    assert (parsed.answer, parsed.content_span) == (answer, (len(before), len(before + answer)))


def test_an_answer_that_words_or_steps_stand_before_does_not_begin_its_text() -> None:
    whole = ["It is 5.", " <answer>5</answer> bye", "Answer: 5"]
    assert [text for text in whole if not begins_with_answer(text)] == []
    behind = ["So: <answer>5</answer>", "<step>a</step>5", "1. a\n2. b", "Add.\nAnswer: 5", ""]
    assert [text for text in behind if begins_with_answer(text)] == []


def test_tool_calls_beside_the_text_follow_its_steps_with_their_results() -> None:
    calls = [
        {"id": "a1", "type": "function", "function": {"name": "search", "arguments": '{"q": "mug"}'}},
        {"id": "a2", "name": "count", "input": {"n": 2}},
    ]
    parsed = parse_steps("<step>look</step>", calls, {"a1": "3 mugs"})
    assert [(step.kind, step.tool_name, step.arguments, step.result) for step in parsed.steps[1:]] == [
        ("call", "search", '{"q": "mug"}', "3 mugs"),
        ("call", "count", '{"n": 2}', None),
    ]
    assert parsed.steps[1].start == parsed.steps[1].end == len("<step>look</step>")


def test_an_unreadable_tool_call_is_told_and_the_others_are_kept() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    broken = [
        None,
        "x",
        {},
        {"function": {"name": ""}},
        {"name": "f", "arguments": {1, 2}},
        {"name": "f", "input": loop},
    ]
    parsed = parse_steps("", [*broken, {"name": "g", "id": []}])
    assert [step.tool_name for step in parsed.steps] == ["g"]
    assert len(parsed.notes) == len(broken)


def check_spans(text: str, parsed: ParsedAnswer) -> None:
    position = 0
    for step in parsed.steps:
        assert position <= step.start <= step.end <= len(text)
        position = step.end
        if step.kind == "step":
            assert step.text in text[step.start : step.end]
    if parsed.answer_span is not None:
        start, end = parsed.answer_span
        assert 0 <= start < end <= len(text)
        assert parsed.answer is not None
        assert parsed.answer in text[start:end]
        assert all(step.end <= start for step in parsed.steps if step.start < step.end)
    assert (parsed.answer is None) == (parsed.answer_span is None) == (parsed.content_span is None)
    if parsed.answer_span is not None and parsed.content_span is not None:
        first, last = parsed.content_span
        assert parsed.answer_span[0] <= first <= last <= parsed.answer_span[1]
        assert text[first:last] == parsed.answer


@given(ugly_text)
def test_no_text_raises_and_spans_are_ordered_inside_and_apart(text: str) -> None:
    check_spans(text, parse_steps(text))


json_value = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "function", "name", "arguments", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(ugly_text, st.lists(json_value, max_size=4))
def test_no_tool_calls_raise(text: str, calls: list[Any]) -> None:
    check_spans(text, parse_steps(text, calls, {"a": "b"}))


@given(
    st.lists(st.text(alphabet="abc *=\n", min_size=1).map(str.strip), max_size=6),
    st.randoms(use_true_random=False),
)
def test_well_formed_steps_come_back_as_they_went_in(steps: list[str], rng: random.Random) -> None:
    between = ["", " ", "\n", "\r\n"]
    text = "".join(f"<step>{step}</step>{rng.choice(between)}" for step in steps) + "<answer>done</answer>"
    parsed = parse_steps(text)
    assert texts(parsed) == steps
    assert parsed.ended_cleanly


def test_a_hostile_text_is_read_in_linear_time() -> None:
    size = 20_000
    before = time.process_time()
    for unit in ("<step", "<step>", "`", "```", "<call>{", "1. \n", "\n \n", "<", "(", " \t", "Answer:\n"):
        parse_steps(unit * size)
    parse_steps("<call>" + "[" * size + "</call>")
    parse_steps('<call>{"a":' + "[" * size + "</call>")
    assert time.process_time() - before < 10.0  # takes 0.3 s; quadratic reading takes minutes


def test_a_token_belongs_to_the_step_in_which_it_starts() -> None:
    pieces = ["<st", "ep>", "a</", "step><", "step>b", "</step>", ""]
    text = "".join(pieces)
    spans = [(step.start, step.end) for step in parse_steps(text).steps]
    assert token_spans(spans, token_starts(pieces)) == [(0, 4), (4, 6)]


def test_a_character_split_over_tokens_belongs_to_the_step_it_is_in() -> None:
    cart = "🛒".encode()
    pieces = [b"<step>", cart[:2], cart[2:], b"</step>", b"<step>x</step>"]
    assert token_starts(pieces) == [0, 6, 6, 7, 14]
    assert token_spans([(0, 14), (14, 28)], token_starts(pieces)) == [(0, 4), (4, 5)]


def test_a_token_that_a_step_begins_in_tells_how_much_stands_before_it() -> None:
    pieces = ["<step>", "a", "</", "step", "><", "answer", ">", "b", "</", "answer", ">"]
    assert token_overlaps([0, 14, 15, 22], pieces) == [0, 1, 0, 0]
    assert token_overlaps([0], []) == [None]


def test_a_character_that_begins_in_a_token_with_what_stands_before_it_goes_with_that() -> None:
    cart = "🛒".encode()
    assert token_overlaps([0, 1, 2], [b"a", cart[:2], cart[2:] + b"b"]) == [0, 0, None]
    assert token_overlaps([1, 2], [b"a" + cart[:2], cart[2:], b"b"]) == [1, 0]


@given(st.text(min_size=1, max_size=40), st.data())
def test_kept_tokens_and_the_text_behind_them_are_the_whole_text(text: str, data: st.DataObject) -> None:
    raw = text.encode("utf-8", "replace")
    text = raw.decode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    pieces = [raw[start:end] for start, end in pairwise([0, *cuts, len(raw)])]
    place = data.draw(st.integers(0, len(text) - 1))
    [(kept, _)], [overlap] = token_spans([(place, place + 1)], token_starts(pieces)), token_overlaps([place], pieces)
    if overlap is None:
        return
    kept -= bool(overlap)
    assert b"".join(pieces[:kept]).decode() + text[place - overlap :] == text


@given(st.text(max_size=40), st.data())
def test_token_spans_agree_with_looking_at_every_token(text: str, data: st.DataObject) -> None:
    raw = text.encode("utf-8", "replace")
    text = raw.decode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    edges = [0, *cuts, len(raw)]
    pieces = [raw[start:end] for start, end in pairwise(edges)]
    points = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    spans = list(zip(points[::2], points[1::2], strict=False))
    byte_of = [len(text[:at].encode()) for at in range(len(text) + 1)]

    starts = token_starts(pieces)
    for (char_start, char_end), (start, end) in zip(spans, token_spans(spans, starts), strict=True):
        expected = []
        for index, at in enumerate(edges[:-1]):
            char = max(char for char, byte in enumerate(byte_of) if byte <= at)
            if char_start <= char < char_end:
                expected.append(index)
        assert list(range(start, end)) == expected


@given(st.lists(st.text(max_size=6), max_size=10), st.data())
def test_text_pieces_and_their_bytes_start_at_the_same_characters(pieces: list[str], data: st.DataObject) -> None:
    clean = [piece.encode("utf-8", "replace").decode() for piece in pieces]
    assert token_starts(clean) == token_starts([piece.encode() for piece in clean])


def test_broken_utf8_counts_as_one_replacement_and_does_not_raise() -> None:
    assert token_starts([b"\xff", b"a", b"\xf0\x9f", b""]) == [0, 1, 2, 2]


def test_spans_or_starts_that_run_backwards_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"found \[5, 3\)"):
        token_spans([(5, 3)], [0])
    with pytest.raises(ValueError, match="found 1 after 2"):
        token_spans([], [0, 2, 1])


def test_parsed_steps_are_json_ready() -> None:
    parsed = parse_steps("", [{"name": "f", "arguments": {"k": "ü"}}])
    assert json.loads(parsed.steps[0].arguments) == {"k": "ü"}
