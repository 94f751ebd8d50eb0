"""Mathematics, whose rows come from files as the public data sets have them."""

from functools import partial
from typing import Any, Final

import re2

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row, render
from apps.evals.catalogue.shapes import (
    ASK_CHOICE,
    LETTERS,
    ask_choice,
    from_file,
    make_choices,
    make_numbers,
    read_letter,
    read_list,
    require_text,
)

_SOLVE: Final = "{question}\n\nReason step by step, then give your final answer in \\boxed{}."
_COUNT: Final = '{question}\n\nReason step by step, then end with a line "Answer: N", N being a number.'
_open = partial(from_file, group="math", grader="math", template=_SOLVE)
_MARKED: Final = re2.compile(r"####\s*(.+)")
_LISTED: Final = re2.compile(r"[a-e] \) ")


def find_boxed(text: str) -> str:
    """What stands in the last box of a solution. Raises ValueError."""
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        if (bare := text.rfind("\\boxed ")) >= 0:
            return text[bare + 7 :].partition("$")[0].strip()
        raise ValueError(f"wanted a solution with an answer in \\boxed{{}}, found {text[-80:]!r}")
    begun = place = text.index("{", start) + 1
    depth = 1
    while place < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
    if depth:
        raise ValueError("wanted a solution whose last box is closed, found one that is not")
    return text[begun : place - 1].strip()


def _solve(question: str, answer: str, *, category: str = "") -> CatalogueItem:
    return CatalogueItem(
        prompt=render(_SOLVE, {"question": question}),
        reference=answer,
        category=category[:64],
        oracle=f"The answer is \\boxed{{{answer}}}.",
    )


def _count(question: str, answer: Any, *, category: str = "") -> CatalogueItem:
    text = str(answer).strip().replace(",", "").removeprefix("$")
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"wanted a number as the answer, found {answer!r:.80}") from None
    if number - number:  # NaN, or without end
        raise ValueError(f"wanted a number as the answer, found {answer!r:.80}")
    return CatalogueItem(
        prompt=render(_COUNT, {"question": question}), reference=text, category=category[:64], oracle=f"Answer: {text}"
    )


def _read_gsm8k(row: Row) -> CatalogueItem:
    marked = _MARKED.findall(require_text(row, "answer"))
    if not marked:
        raise ValueError(f"answer: wanted a solution that ends with #### and a number, found {row['answer'][-80:]!r}")
    return _count(require_text(row, "question"), marked[-1])


def _read_math(row: Row) -> CatalogueItem:
    boxed = find_boxed(require_text(row, "solution"))
    return _solve(require_text(row, "problem"), boxed, category=str(row.get("type") or ""))


def _read_answer(row: Row, *, question: str, answer: str, category: str = "", solve: bool = True) -> CatalogueItem:
    found = row[answer]
    if isinstance(found, list | tuple):
        found = found[0]
    ask = _solve if solve else _count
    return ask(require_text(row, question), str(found).strip(), category=str(row.get(category) or ""))


def _read_svamp(row: Row) -> CatalogueItem:
    text = f"{require_text(row, 'Body').strip()} {require_text(row, 'Question').strip()}"
    return _count(text, row["Answer"], category=str(row.get("Type") or ""))


def _read_asdiv(row: Row) -> CatalogueItem:
    answer = require_text(row, "answer").partition(" (")[0]
    return _count(f"{require_text(row, 'body')} {require_text(row, 'question')}", answer)


def _read_math_qa(row: Row) -> CatalogueItem:
    choices = [part.strip(" ,") for part in _LISTED.split(require_text(row, "options"))[1:]]
    return ask_choice(require_text(row, "Problem"), choices, read_letter(row, "correct"))


def _read_aqua(row: Row) -> CatalogueItem:
    choices = [str(one).partition(")")[2].strip() for one in read_list(row, "options")]
    return ask_choice(require_text(row, "question"), choices, read_letter(row, "correct"))


def _answered(
    name: str,
    about: str,
    licence: str,
    origin: tuple[str, str, str],
    question: str,
    answer: str,
    *,
    solve: bool = True,
    category: str = "",
    listed: bool = False,
    tries: int = 1,
) -> CatalogueEntry:
    def write(text: str, number: int, place: int) -> Row:
        told = [str(number)] if listed else str(number)
        return {"id": place, question: text, answer: told} | ({category: "made"} if category else {})

    return _open(
        name,
        about,
        licence,
        origin,
        {question: "the problem", answer: "what is right"},
        partial(_read_answer, question=question, answer=answer, category=category, solve=solve),
        make_numbers(write),
        grader="math" if solve else "number",
        template=_SOLVE if solve else _COUNT,
        tries=tries,
    )


_GSM: Final = {"question": "the problem", "answer": "a solution that ends with #### and a number"}
ENTRIES: Final = (
    _open(
        "gsm8k",
        "Word problems of school.",
        "MIT",
        ("openai/gsm8k", "main", "test"),
        _GSM,
        _read_gsm8k,
        make_numbers(
            lambda text, number, place: {"question": text, "answer": f"Add them: <<{number}>>\n#### {number}"}
        ),
        grader="number",
        template=_COUNT,
    ),
    _answered(
        "gsm_plus",
        "GSM8K's problems, changed in eight ways.",
        "CC-BY-SA-4.0",
        ("qintongli/GSM-Plus", "default", "test"),
        "question",
        "answer",
        category="perturbation_type",
    ),
    _answered(
        "mgsm",
        "250 problems of GSM8K in ten further languages.",
        "CC-BY-SA-4.0",
        ("juletxara/mgsm", "de", "test"),
        "question",
        "answer_number",
        solve=False,
    ),
    _open(
        "svamp",
        "Word problems in changed words.",
        "MIT",
        ("ChilleD/SVAMP", "default", "test"),
        {"Body": "what is told", "Question": "what is asked", "Answer": "the number"},
        _read_svamp,
        make_numbers(
            lambda text, number, place: {
                "ID": str(place),
                "Body": text.rpartition(". ")[0] + ".",
                "Question": "How many in both?",
                "Answer": str(number),
                "Type": "Addition",
            }
        ),
        grader="number",
        template=_COUNT,
    ),
    _open(
        "asdiv",
        "Word problems of many kinds.",
        "CC-BY-NC-4.0",
        ("EleutherAI/asdiv", "asdiv", "validation"),
        {"body": "what is told", "question": "what is asked", "answer": "the number, maybe with a unit in brackets"},
        _read_asdiv,
        make_numbers(
            lambda text, number, place: {
                "body": text.rpartition(". ")[0] + ".",
                "question": "How many in both?",
                "answer": f"{number} (pieces)",
                "solution_type": "Sum",
                "formula": "",
            }
        ),
        grader="number",
        template=_COUNT,
    ),
    _open(
        "math",
        "Problems of competitions at high school.",
        "MIT",
        ("EleutherAI/hendrycks_math", "algebra", "test"),
        {"problem": "the problem", "solution": "one with its answer in a box"},
        _read_math,
        make_numbers(
            lambda text, number, place: {
                "problem": text,
                "level": "Level 1",
                "type": "Algebra",
                "solution": f"It is $\\boxed{{{number}}}$.",
            }
        ),
    ),
    _answered(
        "math_500",
        "500 problems of MATH.",
        "MIT",
        ("HuggingFaceH4/MATH-500", "default", "test"),
        "problem",
        "answer",
        category="subject",
    ),
    _answered(
        "aime_2024",
        "Thirty problems of the AIME of 2024.",
        "MIT",
        ("Maxwell-Jia/AIME_2024", "default", "train"),
        "Problem",
        "Answer",
        tries=4,
    ),
    _answered(
        "aime_2025",
        "Thirty problems of the AIME of 2025.",
        "Apache-2.0",
        ("math-ai/aime25", "default", "test"),
        "problem",
        "answer",
        tries=4,
    ),
    _answered(
        "amc23",
        "Forty problems of the AMC of 2023.",
        "Apache-2.0",
        ("math-ai/amc23", "default", "test"),
        "question",
        "answer",
        tries=4,
    ),
    _answered(
        "minerva_math",
        "Problems of science at university.",
        "Apache-2.0",
        ("math-ai/minervamath", "default", "test"),
        "question",
        "answer",
    ),
    _answered(
        "olympiad_bench",
        "Problems of olympiads with one answer.",
        "Apache-2.0",
        ("math-ai/olympiadbench", "default", "test"),
        "question",
        "final_answer",
        category="subfield",
        listed=True,
    ),
    _open(
        "math_qa",
        "Word problems with five choices.",
        "Apache-2.0",
        ("regisss/math_qa", "default", "test"),
        {"Problem": "the problem", "options": "five, as a ) ... , b ) ...", "correct": "the right letter"},
        _read_math_qa,
        make_choices(
            lambda one, choices, right: {
                "Problem": one.question,
                "options": " , ".join(f"{LETTERS[n].lower()} ) {choice}" for n, choice in enumerate(choices)),
                "correct": LETTERS[right].lower(),
            }
        ),
        grader="choice",
        template=ASK_CHOICE,
    ),
    _open(
        "aqua_rat",
        "Word problems of algebra with five choices.",
        "Apache-2.0",
        ("deepmind/aqua_rat", "raw", "test"),
        {"question": "the problem", "options": "five, each behind its letter", "correct": "the right letter"},
        _read_aqua,
        make_choices(
            lambda one, choices, right: {
                "question": one.question,
                "options": [f"{LETTERS[n]}){choice}" for n, choice in enumerate(choices)],
                "rationale": "",
                "correct": LETTERS[right],
            }
        ),
        grader="choice",
        template=ASK_CHOICE,
    ),
)
