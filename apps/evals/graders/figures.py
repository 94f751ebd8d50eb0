"""Answers that are numbers, expressions or rankings."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import re2

from tentalis.core.graders.numbers import (
    ExpressionError,
    FoundNumber,
    find_final_number,
    find_numbers,
    uses_each,
    work_out,
)
from tentalis.core.graders.rankings import MEASURES, measure_ranking
from tentalis.core.graders.reading import find_json, is_number, read_count, read_flag, read_number, read_word
from tentalis.core.grading import Grade, GradedTask, Grader, decide_grade
from tentalis.core.scoring.protocol import AttemptContext

MOST_DOCUMENTS: Final = 5_000
_TO_METRES: Final = {"m": 1.0, "mm": 0.001, "cm": 0.01, "dm": 0.1, "km": 1000.0, "in": 0.0254, "ft": 0.3048}
_UNITS: Final = tuple(_TO_METRES)
_UNIT: Final = re2.compile(
    r"(?i)^[\s*_~]{0,4}(mm|cm|dm|km|millimet(?:er|re)s?|centimet(?:er|re)s?|met(?:er|re)s?|m|inch(?:es)?|in|f(?:ee|oo)?t)\b"
)
_ANSWER_TAG: Final = re2.compile(r"(?is)<answer>(.*?)</answer>")
_BOXED: Final = re2.compile(r"\\boxed\{([^{}]*)\}")


# --- number


def check_number(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    _read_reference(reference, percent=read_flag(options, "percent", default=False))
    read_number(options, "tolerance", 0, least=0, most=1e12)
    read_number(options, "relative", 1e-6, least=0, most=1)


def grade_number(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the number that the answer settles on is the reference, or near enough."""
    found = find_final_number(episode.answer or "")
    if found is None:
        return decide_grade(correct=False, number="none, or several to choose from")
    percent = read_flag(task.options, "percent", default=False)
    wanted, value = _read_reference(task.reference, percent=percent), _read_value(found, percent=percent)
    near = max(
        Fraction(read_number(task.options, "tolerance", 0, least=0, most=1e12)),
        Fraction(read_number(task.options, "relative", 1e-6, least=0, most=1)) * abs(wanted),
    )
    return decide_grade(correct=abs(value - wanted) <= near, number=_spell(value))


def _read_reference(reference: Any, *, percent: bool) -> Fraction:
    """A number, or a text that is one. Raises ValueError."""
    if is_number(reference):
        return Fraction(str(reference))
    numbers = find_numbers(reference) if isinstance(reference, str) and len(reference) <= 200 else []
    if len(numbers) != 1 or numbers[0].end - numbers[0].start != len(str(reference).strip()):
        raise ValueError(f"reference: wanted a number, found {reference!r:.80}")
    return _read_value(numbers[0], percent=percent)


def _read_value(found: FoundNumber, *, percent: bool) -> Fraction:
    """Of an answer and of a reference alike: 5 % is 5, or 0.05 with the option `percent`."""
    return found.value / 100 if found.is_percent and percent else found.value


def _spell(value: Fraction) -> str:
    return str(value) if len(str(value)) <= 20 else f"{Decimal(value.numerator) / value.denominator:.12g}"


# --- countdown


def check_countdown(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    if not isinstance(reference, dict) or reference.keys() != {"numbers", "target"}:
        raise ValueError(f"reference: wanted numbers and target, found {reference!r:.120}")
    numbers = reference["numbers"]
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= 12 or not all(type(one) is int for one in numbers):
        raise ValueError(f"numbers: wanted 1 to 12 whole numbers, found {numbers!r:.120}")
    if any(one < 0 for one in numbers):
        raise ValueError("numbers: wanted none below 0")
    if type(reference["target"]) is not int:
        raise ValueError(f"target: wanted a whole number, found {reference['target']!r:.80}")
    read_word(options, "use", ("all", "some"))


def grade_countdown(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where its expression comes to the target by the given numbers, each used once."""
    expression = find_expression(episode.answer or "")
    numbers, target = task.reference["numbers"], task.reference["target"]
    try:
        value, used = work_out(expression)
    except ExpressionError as error:
        return decide_grade(correct=False, expression=expression[:200], trouble=str(error))
    is_whole = read_word(task.options, "use", ("all", "some")) == "all"
    fits = uses_each(used, numbers, all_of_them=is_whole) and len(used) > 0
    return decide_grade(
        correct=fits and value == target, expression=expression[:200], value=_spell(value), uses_them=fits
    )


def find_expression(answer: str) -> str:
    """The expression of an answer: in its last answer tag or box, or its last line; what stands behind = is dropped."""
    tagged = _ANSWER_TAG.findall(answer) or _BOXED.findall(answer)
    text = str(tagged[-1]) if tagged else next((line for line in reversed(answer.splitlines()) if line.strip()), "")
    for sign, plain in (("×", "*"), ("÷", "/"), ("−", "-"), ("\\times", "*"), ("\\div", "/"), ("\\cdot", "*")):
        text = text.replace(sign, plain)
    text = text.rpartition(":")[2].strip(" \t$`.*\n")
    return text.partition("=")[0].strip()


# --- depth


def check_depth(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    if not is_number(reference) or reference <= 0:
        raise ValueError(f"reference: wanted a distance above 0, found {reference!r:.80}")
    read_number(options, "ratio", 1.25, least=1.0001, most=10)
    read_word(options, "unit", _UNITS)


def grade_depth(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the last distance named is within the ratio of the reference, the δ of depth estimation."""
    answer, unit = episode.answer or "", read_word(task.options, "unit", _UNITS)
    found = find_final_number(answer)
    if found is None or found.value <= 0:
        return decide_grade(correct=False, distance="none, or several to choose from")
    told = _UNIT.search(answer[found.end : found.end + 24])
    value = float(found.value) * (_TO_METRES[_name_unit(str(told[1]))] / _TO_METRES[unit] if told else 1.0)
    ratio = max(value / task.reference, task.reference / value)
    right = ratio < read_number(task.options, "ratio", 1.25, least=1.0001, most=10)
    signals = {"ratio": ratio, "relative_error": abs(value - task.reference) / task.reference}
    return Grade(value=float(right), correct=right, signals=signals, evidence={"distance": value})


def _name_unit(text: str) -> str:
    folded = text.lower()
    for beginning, unit in (("mil", "mm"), ("cen", "cm"), ("met", "m"), ("inch", "in"), ("f", "ft")):
        if folded.startswith(beginning):
            return unit
    return folded


# --- retrieval


def check_retrieval(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    if not any(gain > 0 for gain in _read_gains(reference).values()):
        raise ValueError("reference: wanted a document that is relevant, found none")
    read_word(options, "measure", MEASURES)
    read_count(options, "k", 10, least=1, most=1_000)


def grade_retrieval(task: GradedTask, episode: AttemptContext) -> Grade:
    """The measure asked for of the answer's ranking; the others are signals."""
    k = read_count(task.options, "k", 10, least=1, most=1_000)
    ranking = read_ranking(episode.answer or "")
    measures = measure_ranking(ranking, _read_gains(task.reference), k=k)
    value = measures[read_word(task.options, "measure", MEASURES)]
    signals = {f"{name}_at_{k}": number for name, number in measures.items()}
    return Grade(value=value, signals=signals, evidence={"ranked": len(ranking)})


def _read_gains(reference: Any) -> Mapping[str, float]:
    if isinstance(reference, list):
        reference = dict.fromkeys(map(_name_document, reference), 1.0)
    if not isinstance(reference, dict) or not 1 <= len(reference) <= MOST_DOCUMENTS:
        raise ValueError(f"reference: wanted documents, or what each is worth, found {reference!r:.120}")
    if not all(is_number(gain) and 0 <= gain <= 1e6 for gain in reference.values()):
        raise ValueError("reference: wanted what each document is worth, 0 or more")
    return {name: float(gain) for name, gain in reference.items()}


def _name_document(given: Any) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int) or not str(given).strip():
        raise ValueError(f"reference: wanted the name of a document, found {given!r:.80}")
    return str(given).strip()


def read_ranking(answer: str) -> list[str]:
    """The documents that an answer names, the best first: a JSON list, or one a line, numbered or not."""
    try:
        listed = find_json(answer)
    except ValueError:
        listed = None
    if isinstance(listed, list):
        return [str(one).strip() for one in listed[:MOST_DOCUMENTS] if isinstance(one, str | int)]
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    if len(lines) == 1:
        lines = [piece.strip() for piece in lines[0].split(",")]
    return [str(_NUMBERED.sub("", line)).strip("`\"' ") for line in lines[:MOST_DOCUMENTS]]


_NUMBERED: Final = re2.compile(r"^(?:\d{1,4}[.)]\s+|[-*•]\s+)")

GRADERS: Final = (
    Grader(
        name="number",
        version="2",
        about="The number that an answer settles on.",
        grade=grade_number,
        check=check_number,
        options={
            "tolerance": "how far it may be off; 0 where it is not given",
            "relative": "the same as a share of what is right; a millionth where it is not given",
            "percent": "whether 5 % is 0.05, in the answer and the reference; else it is 5",
        },
    ),
    Grader(
        name="countdown",
        version="2",
        about="An expression of given numbers that comes to a target.",
        grade=grade_countdown,
        check=check_countdown,
        options={"use": "all or some: whether every number must be used"},
    ),
    Grader(
        name="depth",
        version="2",
        about="A distance, right within a ratio.",
        grade=grade_depth,
        check=check_depth,
        options={"ratio": "1.25 where it is not given", "unit": f"of the reference: one of {', '.join(_UNITS)}"},
    ),
    Grader(
        name="retrieval",
        version="1",
        about="A ranking of documents, by the measures of retrieval.",
        grade=grade_retrieval,
        check=check_retrieval,
        options={"measure": f"what it is worth: one of {', '.join(MEASURES)}", "k": "how many places count; 10"},
    ),
)
