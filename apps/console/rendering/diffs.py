"""What changed between two texts: lines, and inside of lines words. Made on the server, as HTML without a script."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Literal

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.console.rendering.hidden import visible

Kind = Literal["same", "old", "new", "gap"]

MOST_LINES = 5_000
"""Of each side; what is beyond is left out, and the diff says so."""
MOST_CHARS = 400_000
CONTEXT = 3
MOST_WORK = 400_000
"""Pairs of equal lines that are looked at for the longest run; texts of few repeated lines would take minutes."""
MOST_WORK_IN_ALL = 5_000_000
"""The same for all runs of a diff, and of all its lines' words: half a second. Beside each run that is found the same
pairs are looked at again: 800 signs of one repeated emoji took 3.5 s."""
WORDS = re.compile(r"\w+|\s+|[^\w\s]")
MOST_WORDS = 400
"""Of one line; longer lines are shown as changed as a whole."""
MOST_WORD_LINES = 150
"""Pairs of lines that are compared word by word."""

Opcode = tuple[str, int, int, int, int]


class TooMuchWorkError(Exception):
    """More pairs would have to be looked at than may be."""


class Work:
    """Pairs that a diff may still look at."""

    def __init__(self) -> None:
        self.left = MOST_WORK_IN_ALL


class BoundedMatcher(SequenceMatcher[str]):
    """Raises TooMuchWorkError where difflib would go on."""

    def __init__(self, before: Sequence[str], after: Sequence[str], work: Work, *, autojunk: bool) -> None:
        super().__init__(None, before, after, autojunk=autojunk)
        self._work = work
        places: dict[str, list[int]] = self.b2j  # type: ignore[attr-defined]  # documented, and missing in typeshed
        self._pairs_until = list(accumulate((len(places.get(line, ())) for line in before), initial=0))

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        self._work.left -= self._pairs_until[-1 if ahi is None else ahi] - self._pairs_until[alo]
        if self._work.left < 0:
            raise TooMuchWorkError
        return super().find_longest_match(alo, ahi, blo, bhi)


@dataclass(frozen=True)
class Row:
    """A line of the diff; numbers count from 1, a gap's `lines` are the same on both sides and left out."""

    kind: Kind
    old: int | None = None
    new: int | None = None
    html: SafeString = SafeString("")  # noqa: RUF009  (immutable)
    lines: int = 0


@dataclass(frozen=True)
class Diff:
    """Rows, and why they are not all, if they are not."""

    rows: Sequence[Row]
    added: int
    removed: int
    note: str = ""

    @property
    def is_same(self) -> bool:
        return not self.added and not self.removed


def diff_lines(old: str, new: str, *, context: int = CONTEXT) -> Diff:
    """Line by line, changed lines word by word; runs of more than 2 * `context` same lines become a gap."""
    before, cut_old = _split(old)
    after, cut_new = _split(new)
    work = Work()
    opcodes, is_rough = _match(before, after, work)
    rows: list[Row] = []
    words_left = MOST_WORD_LINES
    for number, (tag, a, b, c, d) in enumerate(opcodes):
        if tag == "equal":
            rows += _same_rows(before, a, b, c, context, is_first=number == 0, is_last=number == len(opcodes) - 1)
            continue
        pairs = _pair_lines(before[a:b], after[c:d], work) if tag == "replace" and words_left > 0 else []
        words_left -= len(pairs)
        marked = dict(enumerate(pairs))
        rows += [
            Row("old", old=a + place + 1, html=marked[place][0] if place in marked else visible(before[a + place]))
            for place in range(b - a)
        ]
        rows += [
            Row("new", new=c + place + 1, html=marked[place][1] if place in marked else visible(after[c + place]))
            for place in range(d - c)
        ]
    notes = ([f"Only the first {MOST_LINES:,} lines of each side are compared."] if cut_old or cut_new else []) + (
        ["So many lines repeat that the middle is shown as changed as a whole."] if is_rough else []
    )
    return Diff(
        rows,
        added=sum(row.kind == "new" for row in rows),
        removed=sum(row.kind == "old" for row in rows),
        note=" ".join(notes),
    )


def diff_words(old: str, new: str) -> SafeString:
    """One running text with what went and what came marked; for answers of a few sentences."""
    before, after = WORDS.findall(old[:MOST_CHARS]), WORDS.findall(new[:MOST_CHARS])
    opcodes, _ = _match(before, after, Work())
    return format_html_join("", "{}", ((piece,) for piece in _run_words(before, after, opcodes)))


def _run_words(before: Sequence[str], after: Sequence[str], opcodes: Sequence[Opcode]) -> Iterator[SafeString]:
    for tag, a, b, c, d in opcodes:
        if tag == "equal":
            yield visible("".join(before[a:b]))
            continue
        if a < b:
            yield format_html("<del>{}</del>", visible("".join(before[a:b])))
        if c < d:
            yield format_html("<ins>{}</ins>", visible("".join(after[c:d])))


def _split(text: str) -> tuple[list[str], bool]:
    """(lines, whether some were left out)."""
    lines = text[:MOST_CHARS].replace("\r\n", "\n").split("\n")
    return lines[:MOST_LINES], len(lines) > MOST_LINES or len(text) > MOST_CHARS


def _match(before: Sequence[str], after: Sequence[str], work: Work) -> tuple[list[Opcode], bool]:
    """(opcodes as difflib's, whether the middle was given up): common ends first, then difflib where it is quick."""
    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    a, b, c, d = start, len(before) - end, start, len(after) - end
    middle, is_rough = _match_middle(before[a:b], after[c:d], work)
    opcodes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    opcodes += [(tag, i + a, j + a, k + c, m + c) for tag, i, j, k, m in middle]
    opcodes += [("equal", b, len(before), d, len(after))] if end else []
    return opcodes, is_rough


def _match_middle(before: Sequence[str], after: Sequence[str], work: Work) -> tuple[list[Opcode], bool]:
    if not before or not after:
        whole: list[Opcode] = [("insert" if after else "delete", 0, len(before), 0, len(after))]
        return (whole if before or after else []), False
    counts = Counter(after)
    if sum(counts[line] for line in before) <= MOST_WORK:
        with suppress(TooMuchWorkError):
            return list(BoundedMatcher(before, after, work, autojunk=len(before) > 1000).get_opcodes()), False
    return [("replace", 0, len(before), 0, len(after))], True


def _pair_lines(before: Sequence[str], after: Sequence[str], work: Work) -> list[tuple[SafeString, SafeString]]:
    """Old and new HTML of lines that stand at the same place of a changed block."""
    return [_mark_words(old, new, work) for old, new in zip(before[:MOST_WORD_LINES], after, strict=False)]


def _mark_words(old: str, new: str, work: Work) -> tuple[SafeString, SafeString]:
    before, after = WORDS.findall(old), WORDS.findall(new)
    if not before or not after or max(len(before), len(after)) > MOST_WORDS:
        return visible(old), visible(new)
    matcher = BoundedMatcher(before, after, work, autojunk=False)
    if matcher.real_quick_ratio() < 0.3 or matcher.quick_ratio() < 0.3:
        return visible(old), visible(new)
    try:
        opcodes = matcher.get_opcodes()
    except TooMuchWorkError:
        return visible(old), visible(new)
    gone = [(tag != "equal", "".join(before[a:b])) for tag, a, b, _, _ in opcodes if a < b]
    came = [(tag != "equal", "".join(after[c:d])) for tag, _, _, c, d in opcodes if c < d]
    return _join_words("del", gone), _join_words("ins", came)


def _join_words(tag: Literal["del", "ins"], pieces: Sequence[tuple[bool, str]]) -> SafeString:
    template = "<del>{}</del>" if tag == "del" else "<ins>{}</ins>"
    return format_html_join(
        "", "{}", ((format_html(template, visible(text)) if changed else visible(text),) for changed, text in pieces)
    )


def _same_rows(
    lines: Sequence[str], start: int, end: int, new_start: int, context: int, *, is_first: bool, is_last: bool
) -> list[Row]:
    head = 0 if is_first else context
    tail = 0 if is_last else context
    count = end - start
    hidden = count - head - tail
    keep = range(count) if hidden < 2 else [*range(head), *range(count - tail, count)]
    rows = [
        Row("same", old=start + place + 1, new=new_start + place + 1, html=visible(lines[start + place]))
        for place in keep
    ]
    if hidden >= 2:
        rows.insert(head, Row("gap", lines=hidden))
    return rows
