"""Files of other tools' runs are read as those tools write them, or refused by name."""

import json
from typing import Any

import pyarrow
import pytest

from tentalis.core.run_logs.condensed import write_condensed
from tentalis.core.run_logs.logged import LoggedRun, RunLogError
from tentalis.core.run_logs.reading import read_run
from tentalis.zstd import unpack_zstd
from tests.core.run_log_files import (
    LM_EVAL,
    LM_EVAL_CHOICE,
    LM_EVAL_NAME,
    LM_EVAL_RESULTS,
    MESSAGES,
    OPENAI_EVALS,
    SHAREGPT,
    make_archive,
    make_eval_file,
    make_inspect_log,
    make_inspect_sample,
    spell_lines,
)


def read(data: bytes, **told: Any) -> LoggedRun:
    return read_run(data, **{"most_bytes": 1_000_000, "unzstd": unpack_zstd, **told})


def pack_frames(text: bytes) -> bytes:
    """Two frames, one behind the other, as the tool writes a large member."""
    codec, half = pyarrow.Codec("zstd"), len(text) // 2
    return b"".join(codec.compress(part, asbytes=True) for part in (text[:half], text[half:]))


def test_a_log_of_inspect_is_the_same_run_as_json_as_zip_and_packed_by_zstandard() -> None:
    samples = [make_inspect_sample(1), make_inspect_sample(2, value="I"), make_inspect_sample(1, epoch=2, value=0.25)]
    whole = read(json.dumps(make_inspect_log(samples)).encode())
    assert whole == read(make_eval_file(samples)) == read(make_eval_file(samples, pack_frames))
    assert (whole.form, whole.task, whole.model, whole.settings["sampling"]) == (
        "inspect", "addition", "openai/m", {"temperature": 0.5},
    )  # fmt: skip
    assert [one.score for one in whole.tries] == [1.0, 0.0, 0.25]
    first = whole.tries[0]
    assert [one["role"] for one in first.opening] == ["system", "user"]
    assert first.opening[0]["content"] == "Be brief.", "what stands beside the sample by a hash"
    assert first.opening[1]["content"] == "What is 1 + 1?"
    assert first.said[0]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1, "b": 1}'}
    assert (first.answer, first.reference, first.graded_by, first.category) == ("It is 2.", "2", "includes", "sums")
    assert (first.prompt_tokens, first.completion_tokens, first.seconds, first.cost_usd) == (12, 5, 1.5, None)
    assert first.said[-1]["content"] == "It is 2.", "its reasoning is no part of what it said"
    assert read(write_condensed(whole)) == whole


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"scores": {}}, (None, False, "no grade")),
        ({"scores": {"s": {"value": float("nan"), "reason": "judge away"}}}, (None, False, "judge away")),
        ({"scores": None, "error": {"message": "timed out"}}, (None, True, "timed out")),
        ({"error": {"message": "late"}}, (1.0, False, "")),
        ({"scores": {"s": {"value": {"only": True}}}}, (1.0, False, "")),
        ({"scores": {"s": {"value": "P"}}}, (0.5, False, "")),
    ],
)
def test_a_grade_is_what_inspect_counts_it_as_and_none_is_no_grade(change: Any, found: tuple[Any, ...]) -> None:
    [one] = read(json.dumps(make_inspect_log([make_inspect_sample(1, **change)])).encode()).tries
    score, is_lost, words = found
    assert (one.score, one.is_lost) == (score, is_lost)
    assert words in one.cause


def test_samples_of_lm_eval_are_read_by_one_filter_with_the_model_of_the_results() -> None:
    data, results = spell_lines(LM_EVAL), json.dumps(LM_EVAL_RESULTS).encode()
    run = read(data, name=LM_EVAL_NAME, results=results)
    assert (run.form, run.task, run.model, run.settings["few_shot"]) == ("lm-eval", "gsm8k", "org/small", 5)
    assert [(one.score, one.reference, one.answer) for one in run.tries] == [
        (0.0, "0", " It is 0"),
        (1.0, "1", " It is 1"),
    ]
    assert run.tries[0].opening == [{"role": "user", "content": "Question: Q0\nAnswer:"}]
    other = read(data, score="exact_match,flexible-extract")
    assert [(one.score, one.graded_by) for one in other.tries] == [(1.0, "exact_match,flexible-extract")] * 2
    [choice] = read(spell_lines(LM_EVAL_CHOICE)).tries
    assert (choice.answer, choice.score, choice.category) == ("B", 1.0, "law"), "the likeliest continuation"
    assert read(spell_lines(LM_EVAL_CHOICE), score="acc_norm").tries[0].score == 0.0


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_a_line_ends_where_json_lines_say_it_does(sign: str) -> None:
    opening = {"role": "user", "content": f"Name{sign}a sea."}
    row = json.dumps(
        {"messages": [opening, {"role": "assistant", "content": f"The North{sign}Sea."}]}, ensure_ascii=False
    )
    run = read(f"{row}\r\n{row}\r\n".encode(), form="messages")
    assert [(one.opening, one.answer) for one in run.tries] == [([opening], f"The North{sign}Sea.")] * 2


def test_records_of_openai_evals_and_conversations_are_read() -> None:
    run = read(spell_lines(OPENAI_EVALS))
    assert (run.form, run.task, run.model, run.settings["seed"]) == ("openai-evals", "arith.dev", "gpt-x", 7)
    assert [(one.score, one.graded_by, one.reference, one.answer) for one in run.tries] == [
        (1.0, "match", "2", "2"),
        (0.25, "accuracy", None, "5"),
    ]
    shared = read(json.dumps(SHAREGPT).encode())
    assert shared.form == "sharegpt"
    assert [one["content"] for one in shared.tries[0].opening] == ["Hi", "Hello", "And you?"]
    assert (shared.tries[0].answer, shared.tries[0].score) == ("Well.", None)
    told = read(spell_lines(MESSAGES))
    assert [(one.answer, one.reference, one.is_lost) for one in told.tries] == [
        ("The North Sea.", None, False),
        ("Como.", "Como", False),
    ]


def test_examples_that_stand_before_a_question_of_inspect_are_asked_and_not_answered() -> None:
    shown = [
        {"role": "user", "content": "What is 7 + 1?"},
        {"role": "assistant", "content": "It is 8.", "source": "input"},
    ]
    for marks in ({"source": "generate"}, {}):  # older logs say less
        samples = []
        for number in (1, 2):
            asked = {"role": "user", "content": f"What is {number} + 1?"}
            answer = {"role": "assistant", "content": f"It is {number + 1}.", **marks}
            system = {"role": "system", "content": "Be brief."}
            told: dict[str, Any] = {"input": [*shown, asked], "messages": [system, *shown, asked, answer]}
            samples.append(make_inspect_sample(number, **told))
        run = read(json.dumps(make_inspect_log(samples)).encode())
        assert [one.opening[-1]["content"] for one in run.tries] == ["What is 1 + 1?", "What is 2 + 1?"]
        assert [[one["role"] for one in tried.said] for tried in run.tries] == [["assistant"], ["assistant"]]


def test_tools_of_a_conversation_are_calls_and_results_in_whatever_form_they_stand() -> None:
    anthropic = {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Where is order 7?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"order": 7}},
                    {"type": "tool_use", "id": "t2", "name": "look_up", "input": {"order": 8}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "Bern"}]},
                    {"type": "tool_result", "tool_use_id": "t2", "content": "Basel"},
                ],
            },
            {"role": "assistant", "content": "In Bern."},
        ],
    }
    shared = {
        "system": "Be brief.",
        "conversations": [
            {"from": "human", "value": "Where is order 7?"},
            {"from": "function_call", "value": '{"name": "look_up", "arguments": {"order": 7}}'},
            {"from": "observation", "value": "Bern"},
            {"from": "gpt", "value": "In Bern."},
        ],
    }
    for row, orders, results in ((anthropic, [7, 8], ["Bern", "Basel"]), (shared, [7], ["Bern"])):
        (tried,) = read(spell_lines([row])).tries
        assert [one["content"] for one in tried.opening] == ["Be brief.", "Where is order 7?"]
        call, *told, last = tried.said
        assert [json.loads(one["function"]["arguments"])["order"] for one in call["tool_calls"]] == orders
        assert [(one["role"], one["content"]) for one in told] == [("tool", text) for text in results]
        assert [one["tool_call_id"] for one in told] == [one["id"] for one in call["tool_calls"]]
        assert (last["content"], tried.answer) == ("In Bern.", "In Bern.")


ONE = make_inspect_sample(1)
BAD: tuple[tuple[bytes, dict[str, Any], str], ...] = (
    (b"", {}, "wanted JSON"),
    (b"a,b\n1,2", {}, "wanted JSON"),
    (b'{"a": ', {}, "wanted JSON"),
    (b"\xff\xfe{}", {}, "UTF-8"),
    (b'{"messages": []}\n{"messages": [}\n', {}, "line 2"),
    (b"[" * 100_000, {}, "levels"),
    (b"{}", {}, "wanted a file of"),
    (b"[]", {}, "wanted a file of"),
    (b"[1]", {"form": "messages"}, "row 1: row: wanted dict, found int"),
    (b'{"x": 1}', {"form": "nobody"}, "wanted one of inspect"),
    (spell_lines(MESSAGES), {"most_bytes": 20}, "at most 20 bytes"),
    (spell_lines([{"messages": [{"role": "user", "content": "Hi"}]}]), {}, "wanted an answer"),
    (spell_lines([{"messages": [{"role": "assistant", "content": "Hi"}]}]), {}, "message of a person"),
    (spell_lines([{"messages": [{"role": "user", "content": 7}]}]), {}, "messages[0].content"),
    (spell_lines([{"conversations": [{"from": "cat", "value": "x"}]}]), {}, "conversations[0].from"),
    (json.dumps(make_inspect_log([])).encode(), {}, "wanted tries, found none"),
    (json.dumps({"eval": {}}).encode(), {}, "samples"),
    (json.dumps(make_inspect_log([ONE], model=None)).encode(), {}, "eval.model"),
    (json.dumps(make_inspect_log([make_inspect_sample(1, value=7)])).encode(), {}, "sample 1, epoch 1"),
    (json.dumps(make_inspect_log([make_inspect_sample(1, value={"a": 1, "b": 0})])).encode(), {}, "includes.a"),
    (json.dumps(make_inspect_log([ONE])).encode(), {"score": "other"}, "wanted a score other, found includes"),
    (make_eval_file([ONE]), {"most_bytes": 300}, "unpacked"),
    (make_eval_file([ONE], pack_frames), {"most_bytes": 300}, "unpacked"),
    (make_eval_file([ONE], lambda text: text), {}, "samples/1_epoch_1.json"),
    (make_eval_file([ONE])[:200], {}, "wanted a zip"),
    (make_eval_file([ONE]), {"form": "lm-eval"}, "found a zip"),
    (make_archive({"samples/1_epoch_1.json": ONE}), {}, "header.json"),
    (make_archive({"run.json": {"schema": "other"}}), {}, "run.json"),
    (spell_lines(LM_EVAL), {"score": "exact_match,other"}, "strict-match"),
    (spell_lines(LM_EVAL), {"score": "f1"}, "wanted a metric f1, found exact_match"),
    (spell_lines(LM_EVAL), {"results": b"[1]"}, "results"),
    (spell_lines([{"sample_id": "a", "type": "match", "data": {"correct": True}}]), {}, "type sampling"),
)


@pytest.mark.parametrize(("data", "told", "words"), BAD)
def test_a_file_that_is_no_run_is_refused_by_what_is_wrong_with_it(
    data: bytes, told: dict[str, Any], words: str
) -> None:
    with pytest.raises(RunLogError) as refused:
        read(data, **told)
    assert words in str(refused.value)


def test_of_many_faults_the_first_are_told_and_how_many_there_are() -> None:
    with pytest.raises(RunLogError, match="further: 10 more are wrong") as refused:
        read(spell_lines([{"messages": 1}] * 30))
    assert len(refused.value.faults) == 21
