"""From what a worker wrote to its steps: character spans for people, token spans for the trainer.

Read in this order: tags (`<step>`, `<call>` with `<result>`, `<answer>`), else a numbered list, else an answer label,
else the whole text is the answer. Models write ugly text: nothing here raises on it, what was odd is told in `notes`.
"""

import codecs
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from tentalis.core.tool_calls import read_call, read_told_call, spell_call

StepKind = Literal["step", "call"]
Span = tuple[int, int]

# Our names of the elements, and what other agents call the same things.
_TAG_KINDS = {
    "step": "step",
    "thinking": "step",
    "think": "step",
    "call": "call",
    "tool_call": "call",
    "result": "result",
    "tool_response": "result",
    "answer": "answer",
}
_TAG = re.compile(
    rf"<[ \t]{{0,3}}(?P<slash>/?)[ \t]{{0,3}}(?P<name>{'|'.join(_TAG_KINDS)})(?![\w-])(?P<attributes>[^<>]{{0,200}})>",
    re.IGNORECASE,
)
_FENCE = "```"
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_ITEM = re.compile(
    r"^(?P<indent>[ \t]*)(?:#{1,6}[ \t]+)?(?:\*\*|__)?(?:step[ \t]*)?\(?(?P<number>\d{1,3})"
    r"(?:[.):]|[ \t]+[-–—])(?:\*\*|__)?(?=\s|$)",
    re.IGNORECASE | re.MULTILINE,
)
_LIST_END = re.compile(r"\n[ \t]*\r?\n(?=\S)")
_ANSWER_LABEL = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+(?:final[ \t]+)?answer[ \t]*\r?$"
    r"|(?:#{1,6}[ \t]+)?(?:\*\*|__)?(?:final[ \t]+)?answer(?:\*\*|__)?[ \t]*:(?:\*\*|__)?)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class ParsedStep:
    """One reasoning step or tool call.

    Args:
        text: what was said, without markup or the blanks around it.
        start, end: character span [start, end) in the parsed text, markup included; a call's result is not part of it,
            for the worker did not write that. A call that came beside the text has the empty span at the text's end.
        tool_name: of a call; "" for a step, and for a call that names nothing.
        arguments: of a call, as written; JSON text when they were JSON.
        result: what the tool answered; None when it is not there.
    """

    kind: StepKind
    text: str
    start: int
    end: int
    tool_name: str = ""
    arguments: str = ""
    result: str | None = None


@dataclass(frozen=True, kw_only=True)
class ParsedAnswer:
    """What one text came to.

    Args:
        steps: by rising start, not overlapping.
        answer: the final answer; None when the text is nothing but steps.
        answer_span: character span [start, end) of the answer, markup included, after all steps with text of their own;
            None with no answer.
        content_span: character span [start, end) of `answer` in it: without its tag or label and the blanks around it;
            empty where a tag holds nothing. None with no answer.
        ended_cleanly: there is an answer and nothing was left open, no tag and no code fence.
        notes: what was odd.
    """

    steps: tuple[ParsedStep, ...]
    answer: str | None
    answer_span: Span | None
    content_span: Span | None
    ended_cleanly: bool
    notes: tuple[str, ...]


def parse_steps(
    text: str,
    tool_calls: Sequence[Any] | None = None,
    tool_results: Mapping[str, str] | None = None,
) -> ParsedAnswer:
    """Find the steps of `text`; never raises, whatever the text.

    Steps do not nest: a `<step>` ends the one before it, and a call inside a step splits it in two. Of several answers
    the last counts and the earlier ones are steps. Tags inside code are text, unless all of them are.

    Args:
        tool_calls: calls that came beside the text, in the form of OpenAI's `tool_calls`; they follow the text's steps.
        tool_results: their results by call id.
    """
    notes: list[str] = []
    is_fence_open = text.count(_FENCE) % 2 == 1
    if is_fence_open:
        notes.append("a code fence is not closed")
    prose = _CODE.sub(lambda code: " " * len(code[0]), text)  # same length as the text, so that positions agree
    tags = list(_TAG.finditer(prose)) or list(_TAG.finditer(text))
    found = _TagReader(text, notes).read(tags) if tags else _read_plain(text, prose)
    calls = _read_tool_calls(tool_calls or (), tool_results or {}, len(text), notes)
    return ParsedAnswer(
        steps=(*found.steps, *calls),
        answer=found.answer,
        answer_span=found.answer_span,
        content_span=found.content_span,
        ended_cleanly=found.answer is not None and not found.is_open and not is_fence_open,
        notes=tuple(notes),
    )


def token_starts(pieces: Sequence[str] | Sequence[bytes]) -> list[int]:
    """The character at which each token begins, from the tokens' decoded pieces.

    Args:
        pieces: (T,) text or UTF-8 bytes of each token; joined they are the text. A token of bytes may begin inside a
            character: it counts from that character. Bytes that are no UTF-8 become U+FFFD, as Python's "replace" does.
    Returns:
        (T,), non-decreasing.
    """
    return [start for start, _ in _read_starts(pieces)]


def _read_starts(pieces: Sequence[str] | Sequence[bytes]) -> Iterator[tuple[int, bool]]:
    """Each token's first character, and whether the token begins inside it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    position = 0
    for piece in pieces:
        yield position, bool(decoder.getstate()[0])
        position += len(piece) if isinstance(piece, str) else len(decoder.decode(piece))


def token_spans(char_spans: Sequence[Span], starts: Sequence[int]) -> list[Span]:
    """Map character spans to token spans; a token belongs to the span in which it starts.

    Args:
        char_spans: (S,) [start, end) in characters.
        starts: (T,) characters at which the tokens begin (`token_starts`, or a tokenizer's offsets), non-decreasing.
    Returns:
        (S,) [start, end) in tokens; empty where no token starts inside. Spans that do not overlap stay so.
    Raises:
        ValueError: a span ends before it starts, or the starts go backwards.
    """
    for left, right in pairwise(starts):
        if left > right:
            raise ValueError(f"token starts must not go backwards, found {right} after {left}")
    for start, end in char_spans:
        if not 0 <= start <= end:
            raise ValueError(f"a span wants 0 <= start <= end, found [{start}, {end})")
    return [(bisect_left(starts, start), bisect_left(starts, end)) for start, end in char_spans]


def token_overlaps(char_starts: Sequence[int], pieces: Sequence[str] | Sequence[bytes]) -> list[int | None]:
    """How much of the text before each place lies in one token with the character at it.

    Tokenizers write `><` as one token: of `</step><answer>` it is the step's (`token_spans`), though the answer begins
    in it. Whoever cuts the tokens there and goes on in characters keeps the tokens before that one, and begins so many
    characters earlier.

    Args:
        char_starts: (S,) characters of the text.
        pieces: (T,) as `token_starts` takes them.
    Returns:
        (S,) in characters; 0 where a token begins there, None where the token that holds both begins inside a
        character.
    """
    tokens = list(_read_starts(pieces))
    overlaps: list[int | None] = []
    for place in char_starts:
        token = bisect_left(tokens, place, key=lambda one: one[0])
        if token == len(tokens) or tokens[token] != (place, False):
            token -= 1  # begins before it
        start, is_inside = tokens[token] if token >= 0 else (place, True)
        overlaps.append(None if is_inside else place - start)
    return overlaps


def begins_with_answer(text: str) -> bool:
    """Whether nothing but blanks stands before its answer."""
    span = parse_steps(text).answer_span
    return span is not None and not text[: span[0]].strip()


class _Found(NamedTuple):
    steps: list[ParsedStep]
    answer: str | None
    answer_span: Span | None
    content_span: Span | None
    is_open: bool


class _Element(NamedTuple):
    """An open element: `inside` is where its content starts; `is_rest` marks a step that goes on after a call."""

    kind: str
    start: int
    inside: int
    attributes: str = ""
    is_rest: bool = False


class _TagReader:
    """One pass over the tags of one text; an answer is kept among the steps until it is known which one is the last."""

    def __init__(self, text: str, notes: list[str]) -> None:
        self._text = text
        self._notes = notes
        self._pieces: list[ParsedStep] = []
        self._last_answer: int | None = None  # index in _pieces
        self._last_content: Span | None = None  # of that answer
        self._element: _Element | None = None
        self._step_goes_on = False  # the open call or result stands inside a step
        self._end = 0  # of the last element

    def read(self, tags: Sequence[re.Match[str]]) -> _Found:
        for tag in tags:
            kind = _TAG_KINDS[tag["name"].lower()]
            if tag["slash"]:
                self._close(kind, tag)
            else:
                self._open(kind, tag)
        is_open = self._element is not None and self._is_open_to_the_end(self._element)
        if self._element is not None:
            self._finish(self._element, len(self._text), len(self._text), is_closed=False)
        return self._split_answer(is_open)

    def _is_open_to_the_end(self, element: _Element) -> bool:
        return not element.is_rest or bool(self._text[element.inside :].strip())

    def _open(self, kind: str, tag: re.Match[str]) -> None:
        element = self._element
        if element is not None:
            is_split = element.kind == "step" and kind in ("call", "result")
            self._step_goes_on = is_split or (self._step_goes_on and kind in ("call", "result"))
            self._finish(element, tag.start(), tag.start(), is_closed=is_split)
        self._element = _Element(kind, tag.start(), tag.end(), tag["attributes"])

    def _close(self, kind: str, tag: re.Match[str]) -> None:
        element = self._element
        if element is not None and element.kind == kind:
            self._finish(element, tag.start(), tag.end(), is_closed=True)
            goes_on = self._step_goes_on and kind in ("call", "result")
            self._element = _Element("step", tag.end(), tag.end(), is_rest=True) if goes_on else None
            self._step_goes_on = False
        elif element is not None and kind == "step" and self._step_goes_on:
            self._finish(element, tag.start(), tag.start(), is_closed=False)
            self._element, self._step_goes_on, self._end = None, False, tag.end()
        else:
            self._notes.append(f"a closing <{kind}> at {tag.start()} closes nothing")

    def _finish(self, element: _Element, inside_end: int, end: int, *, is_closed: bool) -> None:
        raw = self._text[element.inside : inside_end]
        content = raw.strip()
        self._end = max(self._end, end)
        if element.is_rest and not content:
            return
        if not is_closed:
            self._notes.append(f"<{element.kind}> at {element.start} is not closed")
        if element.kind == "result":
            self._attach_result(content, element.start)
        elif element.kind == "call":
            name, arguments = read_call(content, element.attributes)
            self._pieces.append(
                ParsedStep(kind="call", text=content, start=element.start, end=end, tool_name=name, arguments=arguments)
            )
        else:
            if element.kind == "answer":
                self._last_answer = len(self._pieces)
                self._last_content = _trim(self._text, element.inside, inside_end)
            self._pieces.append(ParsedStep(kind="step", text=content, start=element.start, end=end))

    def _attach_result(self, content: str, start: int) -> None:
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.kind == "call" and last.result is None:
            self._pieces[-1] = replace(last, result=content)
        else:
            self._notes.append(f"the <result> at {start} follows no call")

    def _split_answer(self, is_open: bool) -> _Found:
        if self._last_answer is None:
            rest = self._text[self._end :].strip()
            span = _trim(self._text, self._end, len(self._text)) if rest else None
            return _Found(self._pieces, rest or None, span, span, is_open)
        answer = self._pieces[self._last_answer]
        before, after = self._pieces[: self._last_answer], self._pieces[self._last_answer + 1 :]
        if after:
            self._notes.append(f"{len(after)} step(s) after the answer are left out")
        if self._text[self._end :].strip():
            self._notes.append("text after the answer is left out")
        return _Found(before, answer.text, (answer.start, answer.end), self._last_content, is_open)


def _read_plain(text: str, prose: str) -> _Found:
    """Steps of a text without tags."""
    label = _last_match(_ANSWER_LABEL, prose)
    body_end = label.start() if label else len(text)
    items = _longest_list(list(_ITEM.finditer(prose, 0, body_end)))
    if items:
        tail = _LIST_END.search(prose, items[-1].end(), body_end)
        list_end = tail.end() if tail else body_end
        ends = [*(item.start() for item in items[1:]), list_end]
        steps = [_plain_step(text, item.start(), item.end(), end) for item, end in zip(items, ends, strict=True)]
    elif label and text[:body_end].strip():
        list_end = body_end
        steps = [_plain_step(text, 0, 0, body_end)]
    else:
        list_end = body_end if label else 0
        steps = []
    start = label.end() if label else list_end
    answer = text[start:].strip()
    if not answer:
        return _Found(steps, None, None, None, False)
    span = _trim(text, label.start() if label else start, len(text))
    return _Found(steps, answer, span, _trim(text, start, len(text)), False)


def _last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for last in pattern.finditer(text):  # noqa: B007
        pass
    return last


def _longest_list(items: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """The longest run 1, 2, 3, ... (or 1, 1, 1, ...) of two items or more at the shallowest indent that has one; of
    equal runs the last."""
    runs: dict[int, list[list[re.Match[str]]]] = {}
    for item in items:
        at_indent = runs.setdefault(len(item["indent"].expandtabs(4)), [])
        number = int(item["number"])
        last = at_indent[-1] if at_indent else []
        if last and number in (int(last[-1]["number"]) + 1, _repeated_number(last)):
            last.append(item)
        elif number in (0, 1):
            at_indent.append([item])
    for indent in sorted(runs):
        longest = max(reversed(runs[indent]), key=len, default=[])
        if len(longest) >= 2:
            return longest
    return []


def _repeated_number(run: Sequence[re.Match[str]]) -> int | None:
    """1 while all items of the run are numbered 1: Markdown counts those by itself."""
    return 1 if int(run[0]["number"]) == int(run[-1]["number"]) == 1 else None


def _plain_step(text: str, start: int, inside: int, end: int) -> ParsedStep:
    start, end = _trim(text, start, end)
    return ParsedStep(kind="step", text=text[inside:end].strip(), start=start, end=end)


def _trim(text: str, start: int, end: int) -> Span:
    """The span without the blanks at its ends; where it is all blank, the empty one at its start."""
    inside = text[start:end]
    if not inside.strip():
        return start, start
    return start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())


def _read_tool_calls(
    tool_calls: Sequence[Any], results: Mapping[str, str], at: int, notes: list[str]
) -> list[ParsedStep]:
    steps = []
    for index, call in enumerate(tool_calls):
        try:
            name, arguments = read_told_call(call)
        except (ValueError, TypeError, RecursionError) as error:
            notes.append(f"tool call {index} is unreadable: {error}")
            continue
        call_id = call.get("id")
        result = results.get(call_id) if isinstance(call_id, str) else None
        steps.append(
            ParsedStep(
                kind="call",
                text=spell_call(name, arguments),
                start=at,
                end=at,
                tool_name=name,
                arguments=arguments,
                result=result,
            )
        )
    return steps
