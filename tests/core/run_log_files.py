"""Small files of runs, as the tools write them."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def spell_lines(rows: Sequence[Any]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def make_inspect_sample(number: int, *, epoch: int = 1, value: Any = "C", **changes: Any) -> dict[str, Any]:
    call = {"id": "c1", "function": "add", "arguments": {"a": number, "b": 1}, "type": "function"}
    return {
        "id": number,
        "epoch": epoch,
        "input": f"What is {number} + 1?",
        "target": str(number + 1),
        "messages": [
            {"id": "m0", "role": "system", "content": "attachment://5a5a"},
            {"id": "m1", "role": "user", "content": [{"type": "text", "text": f"What is {number} + 1?"}]},
            {"id": "m2", "role": "assistant", "content": "", "tool_calls": [call], "source": "generate"},
            {"id": "m3", "role": "tool", "content": str(number + 1), "tool_call_id": "c1", "function": "add"},
            {
                "id": "m4",
                "role": "assistant",
                "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": f"It is {number + 1}."}],
            },
        ],
        "output": {"model": "m", "choices": [{"stop_reason": "stop"}], "completion": f"It is {number + 1}."},
        "scores": {"includes": {"value": value, "answer": str(number + 1)}},
        "metadata": {"category": "sums"},
        "model_usage": {"openai/m": {"input_tokens": 10, "output_tokens": 5, "input_tokens_cache_read": 2}},
        "working_time": 1.5,
        "attachments": {"5a5a": "Be brief."},
        "events": [{"event": "model", "pending": None}] * 3,
    } | changes  # fmt: skip


def make_inspect_log(samples: Sequence[Any], **told: Any) -> dict[str, Any]:
    spec = {
        "created": "2026-05-01T10:00:00+00:00", "task": "sums/addition", "model": "openai/m", "dataset": {},
        "config": {"epochs": 2}, "packages": {"inspect_ai": "0.3.285"},
        "model_generate_config": {"temperature": 0.5, "seed": None},
    }  # fmt: skip
    return {"version": 2, "status": "success", "eval": spec | told, "samples": list(samples)}


def make_archive(members: Mapping[str, Any], pack: Callable[[bytes], bytes] | None = None) -> bytes:
    """A zip of JSON members; `pack`: of each, in method 93, whose number stands where the tool writes it."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, value in members.items():
            text = value if isinstance(value, bytes) else json.dumps(value).encode()
            archive.writestr(name, pack(text) if pack else text, None if pack else zipfile.ZIP_DEFLATED)
    data = bytearray(sink.getvalue())
    if pack:
        for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            at = data.find(mark)
            while at >= 0:
                data[at + place : at + place + 2] = (93).to_bytes(2, "little")
                at = data.find(mark, at + 4)
    return bytes(data)


def make_eval_file(samples: Sequence[Any], pack: Callable[[bytes], bytes] | None = None) -> bytes:
    header = make_inspect_log([])
    del header["samples"]
    named = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in samples}
    return make_archive({"_journal/start.json": {}, **named, "summaries.json": [], "header.json": header}, pack)


LM_EVAL_NAME = "samples_gsm8k_2026-05-01T10-00-00.123456.jsonl"
LM_EVAL = [
    {
        "doc_id": n, "doc": {"question": f"Q{n}"}, "target": str(n), "filter": name,
        "arguments": {"gen_args_0": {"arg_0": f"Question: Q{n}\nAnswer:", "arg_1": {"until": ["\n"]}}},
        "resps": [[f" It is {n}"]], "filtered_resps": [str(n)], "metrics": ["exact_match"], "exact_match": right,
    }
    for n in range(2)
    for name, right in (("strict-match", float(n)), ("flexible-extract", 1.0))
]  # fmt: skip
LM_EVAL_CHOICE = [
    {
        "doc_id": 0, "doc": {"subject": "law"}, "target": "1", "filter": "none",
        "arguments": {f"gen_args_{n}": {"arg_0": "Which?", "arg_1": f" {letter}"} for n, letter in enumerate("AB")},
        "resps": [[["-2.5", "False"]], [["-0.5", "True"]]], "filtered_resps": [["-2.5", "False"], ["-0.5", "True"]],
        "metrics": ["acc", "acc_norm"], "acc": 1.0, "acc_norm": 0.0,
    }
]  # fmt: skip
LM_EVAL_RESULTS = {"model_name": "org/small", "date": 1.0, "versions": {"gsm8k": 3}, "n-shot": {"gsm8k": 5}}
OPENAI_EVALS = [
    {"spec": {"eval_name": "arith.dev", "completion_fns": ["gpt-x"], "created_at": "2026", "run_config": {"seed": 7}}},
    {"sample_id": "arith.0", "type": "sampling", "data": {"prompt": [{"role": "system", "content": "Sum."},
     {"role": "user", "content": "1+1"}], "sampled": ["2"]}},
    {"sample_id": "arith.0", "type": "match", "data": {"correct": True, "expected": "2", "picked": "2"}},
    {"sample_id": "arith.1", "type": "sampling", "data": {"prompt": "2+2", "sampled": "5"}},
    {"sample_id": "arith.1", "type": "metrics", "data": {"accuracy": 0.25, "note": "x"}},
    {"final_report": {"accuracy": 0.5}},
]  # fmt: skip
SHAREGPT = [
    {"id": "a", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"},
     {"from": "human", "value": "And you?"}, {"from": "gpt", "value": "Well."}]},
]  # fmt: skip
MESSAGES = [
    {"messages": [{"role": "user", "content": "Name a sea."}, {"role": "assistant", "content": "The North Sea."}]},
    {
        "messages": [{"role": "user", "content": "Name a lake."}, {"role": "assistant", "content": "Como."}],
        "ideal": "Como",
    },
]
