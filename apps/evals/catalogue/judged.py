"""What a judge reads, and what takes a search: rows come from files as the public data sets have them."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import re2

from apps.evals.catalogue import CatalogueItem, Row
from apps.evals.catalogue.shapes import (
    MadeQuestion,
    from_file,
    make_pairs,
    make_questions,
    read_list,
    require_text,
)

RUBRIC: Final = (
    "The answer does what was asked, whole and right; it is clear, and no longer than it need be. 1: nothing is "
    "missing or wrong. 0.5: it helps, and something that matters is missing or wrong. 0: it is of no help."
)
_open = partial(from_file, group="judged", needs=frozenset({"judge"}))
_CHANGED: Final = re2.compile(r"(?m)^\+\+\+ b/(.+)$")


def _read_fact(row: Row, *, question: str, answer: str, category: str = "") -> CatalogueItem:
    right = str(row[answer]).strip()
    if not right:
        raise ValueError(f"{answer}: wanted what is right, found nothing")
    return CatalogueItem(
        prompt=require_text(row, question), reference=right, category=str(row.get(category) or "")[:64], oracle=right
    )


def _read_mt_bench(row: Row) -> CatalogueItem:
    prompts = read_list(row, "prompt")
    references = list(row.get("reference") or ())
    known = f"\nA right answer: {references[0]}" if len(references) else ""
    return CatalogueItem(
        prompt=str(prompts[0]), reference=f"{RUBRIC}{known}", category=str(row.get("category") or ""),
        oracle=str(references[0]) if len(references) else None,
    )  # fmt: skip


def _read_alpaca(row: Row) -> CatalogueItem:
    return CatalogueItem(
        prompt=require_text(row, "instruction"),
        reference=require_text(row, "output"),
        category=str(row.get("dataset") or ""),
    )


def _read_arena(row: Row) -> CatalogueItem:
    return CatalogueItem(prompt=require_text(row, "prompt"), reference=RUBRIC, category=str(row.get("category") or ""))


def _read_health(row: Row) -> CatalogueItem:
    messages = [{"role": one["role"], "content": one["content"]} for one in read_list(row, "prompt")]
    criteria = [{"criterion": one["criterion"], "points": one["points"]} for one in read_list(row, "rubrics")]
    return CatalogueItem(prompt=str(messages[-1]["content"]), messages=messages, reference=criteria)


def _read_gaia(row: Row) -> CatalogueItem:
    if str(row.get("file_name") or "").strip():
        raise ValueError("file_name: wanted a question without a file, found one with a file")
    right = str(row["Final answer"]).strip()
    prompt = (
        f"{require_text(row, 'Question')}\n\nThink about it as long as you want, then end with a line that holds the "
        "answer alone."
    )
    return CatalogueItem(
        prompt=prompt, reference=[right], options={"of": "last_line", "punctuation": False},
        category=f"level {row.get('Level')}", oracle=right,
    )  # fmt: skip


def _read_swe(row: Row) -> CatalogueItem:
    files = sorted(set(_CHANGED.findall(require_text(row, "patch"))))
    if not files:
        raise ValueError("patch: wanted one that changes a file, found none")
    prompt = (
        f"This was reported for {require_text(row, 'repo')}:\n\n{require_text(row, 'problem_statement')}\n\nWhich "
        "files must change? Answer with their paths alone, one a line, the likeliest first."
    )
    return CatalogueItem(
        prompt=prompt, reference=files, options={"measure": "recall", "k": len(files)}, category=str(row["repo"]),
        oracle="\n".join(files),
    )  # fmt: skip


def _write_swe(one: MadeQuestion) -> Row:
    path = f"keepers/{one.answer.replace(' ', '_')}.py"
    patch = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-old = 1\n+new = 2\n"
    return {
        "repo": "made/keepers",
        "instance_id": f"made__keepers-{one.place}",
        "base_commit": "0" * 40,
        "patch": patch,
        "test_patch": "",
        "problem_statement": f"{one.answer} is counted twice.",
        "FAIL_TO_PASS": "[]",
        "PASS_TO_PASS": "[]",
    }


def _write_health(count: int, seed: int) -> Iterator[Row]:
    for one in make_questions(count, seed):
        yield {
            "prompt_id": str(one.place),
            "prompt": [{"role": "user", "content": one.question}],
            "rubrics": [
                {"criterion": f"Says {one.answer}", "points": 5, "tags": []},
                {"criterion": f"Says {one.wrong[0]}", "points": -3, "tags": []},
            ],
        }


ENTRIES: Final = (
    _open(
        "simpleqa",
        "Short questions on facts, with one answer each.",
        "MIT",
        ("basicv8vc/SimpleQA", "default", "test"),
        {"problem": "the question", "answer": "what is right"},
        partial(_read_fact, question="problem", answer="answer"),
        make_pairs(lambda one: {"metadata": "{}", "problem": one.question, "answer": one.answer}),
        grader="llm_equality",
    ),
    _open(
        "hle_text",
        "Humanity's Last Exam, the questions without a picture.",
        "MIT",
        ("cais/hle", "default", "test"),
        {"question": "the question", "answer": "what is right"},
        partial(_read_fact, question="question", answer="answer", category="category"),
        make_pairs(
            lambda one: {
                "id": str(one.place),
                "question": one.question,
                "image": "",
                "answer": one.answer,
                "answer_type": "exactMatch",
                "category": "made",
            }
        ),
        grader="llm_equality",
    ),
    _open(
        "mt_bench",
        "80 open tasks, their first turns.",
        "Apache-2.0",
        ("HuggingFaceH4/mt_bench_prompts", "default", "train"),
        {"prompt": "turns, a list", "reference": "answers, a list or empty"},
        _read_mt_bench,
        make_pairs(
            lambda one: {
                "category": "made",
                "prompt": [one.question, "Why?"],
                "reference": [one.answer],
                "prompt_id": one.place,
            }
        ),
        grader="rubric_judge",
    ),
    _open(
        "alpaca_eval",
        "805 instructions, beside the answers of another model.",
        "CC-BY-NC-4.0",
        ("tatsu-lab/alpaca_eval", "alpaca_eval_gpt4_baseline", "eval"),
        {"instruction": "what is asked", "output": "the other's answer"},
        _read_alpaca,
        make_pairs(
            lambda one: {"instruction": one.question, "output": one.wrong[0], "generator": "made", "dataset": "made"}
        ),
        grader="pairwise_judge",
    ),
    _open(
        "arena_hard",
        "Hard prompts of users, by a rubric.",
        "Apache-2.0",
        ("lmarena-ai/arena-hard-auto", "default", "train"),
        {"prompt": "what is asked"},
        _read_arena,
        make_pairs(lambda one: {"uid": str(one.place), "category": "made", "prompt": one.question}),
        grader="rubric_judge",
    ),
    _open(
        "healthbench",
        "Conversations on health, by doctors' criteria with points.",
        "MIT",
        ("openai/healthbench", "default", "test"),
        {"prompt": "messages", "rubrics": "criterion and points of each"},
        _read_health,
        _write_health,
        grader="rubric_judge",
    ),
    _open(
        "gaia",
        "Questions that take several steps on the web, those without a file.",
        "gated",
        ("gaia-benchmark/GAIA", "2023_all", "validation"),
        {"Question": "the question", "Final answer": "what is right"},
        _read_gaia,
        make_pairs(
            lambda one: {
                "task_id": str(one.place),
                "Question": one.question,
                "Level": 1,
                "Final answer": one.answer,
                "file_name": "",
            }
        ),
        grader="exact",
        group="agents",
        needs=frozenset(),
    ),
    _open(
        "swe_bench_verified_files",
        "Which files a report of SWE-bench Verified wants changed; its patches want containers.",
        "MIT",
        ("princeton-nlp/SWE-bench_Verified", "default", "test"),
        {"repo": "owner/name", "problem_statement": "the report", "patch": "what settled it"},
        _read_swe,
        make_pairs(_write_swe),
        grader="retrieval",
        group="agents",
        needs=frozenset(),
    ),
)
