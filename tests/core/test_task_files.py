"""Tasks out of files: what each form says, and that a fault names its line."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.task_files import FORMS, TaskFileError, TaskRow, guess_form, read_task_rows


def test_each_line_is_a_prompt() -> None:
    rows = read_task_rows("\ufeffAdd 1 and 2\r\n\n  Name a colour  \n", form="lines")
    assert rows == [TaskRow(1, "Add 1 and 2"), TaskRow(3, "Name a colour")]


def test_a_csv_names_its_columns_and_unknown_ones_become_metadata() -> None:
    head, cells = "prompt,reference,match,topic,seed,group_size", '"Two\nlines, one cell",Paris,contains,geography,7,4'
    text = f"{head}\n{cells}\nShort,,,,,\n\n"
    first, second = read_task_rows(text, form="csv")
    assert first == TaskRow(2, "Two\nlines, one cell", "Paris", "contains", {"topic": "geography"}, 4, 7)
    assert second == TaskRow(4, "Short", "", "")
    assert read_task_rows(f"prompt\n{200_000 * 'x'}\n", form="csv")[0].prompt == 200_000 * "x"


def test_a_column_of_a_csv_holds_checks() -> None:
    text = 'prompt,checks\nShort,"{""check"": ""length"", ""max"": 3}"\nNone,[]\nUsual,\n'
    rows = read_task_rows(text, form="csv")
    assert [row.checks for row in rows] == [{"check": "length", "max": 3}, [], None]
    assert [dict(row.metadata) for row in rows] == [{}, {}, {}]
    with pytest.raises(TaskFileError, match="line 2: checks: "):
        read_task_rows('prompt,checks\nShort,"{""check"": NaN}"\n', form="csv")


def test_a_json_line_says_everything_itself() -> None:
    lines = [
        {"prompt": "What is 3 + 4?", "reference": {"match": "number", "value": 7}, "metadata": {"a": [1]}, "seed": 0},
        {"prompt": "Hello", "group_size": 2},
    ]
    rows = read_task_rows("\n".join(map(json.dumps, lines)), form="jsonl")
    assert rows[0] == TaskRow(1, "What is 3 + 4?", {"match": "number", "value": 7}, None, {"a": [1]}, None, 0)
    assert rows[1].group_size == 2


@pytest.mark.parametrize(
    ("form", "text", "line", "words"),
    [
        ("lines", "\n \n", 0, "wanted tasks, found none"),
        ("lines", "good\nbad \x00 sign", 2, "NUL"),
        ("csv", "question,answer\na,b", 1, "a column prompt, found 'question, answer'"),
        ("csv", "prompt,prompt\na,b", 1, "each column once"),
        ("csv", "prompt\na,b", 2, "wanted 1 cells as in the header, found 2"),
        ("csv", "prompt,seed\na,one", 2, "seed: wanted a whole number, found 'one'"),
        ("csv", "prompt,seed\n,1", 2, "prompt: wanted some text"),
        ("csv", 'prompt\n"never closed', 2, "wanted CSV"),
        ("jsonl", "[1]", 1, "wanted an object"),
        ("jsonl", '{"prompt": "a"}\n{"question": "b"}', 2, "found question"),
        ("jsonl", '{"prompt": 7}', 1, "prompt: wanted some text"),
        ("jsonl", '{"prompt": "a", "seed": true}', 1, "seed: wanted a whole number"),
        ("jsonl", '{"prompt": "a", "prompt": "b"}', 1, "stands twice"),
        ("jsonl", "[" * 100_000, 1, "levels"),
        ("xml", "<a/>", 0, "wanted one of lines, csv, jsonl, found 'xml'"),
    ],
)
def test_a_fault_names_its_line(form: str, text: str, line: int, words: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        read_task_rows(text, form=form)
    assert words in caught.value.faults[line]


def test_a_file_has_a_bounded_number_of_tasks() -> None:
    assert len(read_task_rows("a\n" * 3, form="lines", most=3)) == 3
    with pytest.raises(TaskFileError, match="at most 3 tasks"):
        read_task_rows("a\n" * 4, form="lines", most=3)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.CSV", "", "csv"),
        ("b.jsonl", "", "jsonl"),
        ("notes.txt", '{"a": 1}', "lines"),
        ("", '\ufeff {"prompt": 1}', "jsonl"),
        ("", "prompt,reference\na,b", "csv"),
        ("", "A prompt, with a comma", "lines"),
    ],
)
def test_the_form_is_guessed_by_name_then_by_how_it_begins(name: str, text: str, form: str) -> None:
    assert guess_form(name, text) == form


@given(st.sampled_from(FORMS), st.text(max_size=200))
def test_any_text_gives_rows_or_words(form: str, text: str) -> None:
    with suppress(TaskFileError):
        assert all(row.prompt.strip() for row in read_task_rows(text, form=form))
