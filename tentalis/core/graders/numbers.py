"""Which number an answer ends with, and what arithmetic of it comes to. Exact: fractions, no floats."""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

MOST_DIGITS: Final = 60
"""Of a number; a longer one is none."""
MOST_EXPRESSION: Final = 400
"""Characters of an expression."""
_COMMA: Final = r"(?:,(?:\\!)?|\{,\})"
"""Of thousands, in text and in LaTeX: 1,000; 1{,}000; 1,\\!000."""
_THOUSANDS: Final = rf"\d{{1,3}}(?:{_COMMA}\d{{3}}){{1,20}}(?!\d|{_COMMA}\d)"
_NUMBER: Final = (
    r"(?:(?<![\w.])[-+−])?[$€£¥]?"
    rf"(?:{_THOUSANDS}|\d{{1,60}})(?:\.\d{{1,60}})?"
    r"(?:[eE][-+]?\d{1,2}(?!\d)|/\d{1,60}(?![\d/]))?"
)
_FOUND: Final = re.compile(rf"(?<![\w.])({_NUMBER}|[-+−]?\.\d{{1,60}})(?!\d)(\s?%)?")
_FRACTION: Final = re.compile(r"\\[dt]?frac\{([-+]?\d{1,60})\}\{(\d{1,60})\}")
_MIXED: Final = re.compile(rf"(?<![\w.])({_THOUSANDS}|\d{{1,20}})\\[dt]?frac\{{(\d{{1,20}})\}}\{{(\d{{1,20}})\}}")
_MARKED: Final = re.compile(r"(?i)####|\\boxed\{|\banswer\b\s{0,3}(?:is|:|=)")
_BETWEEN: Final = re.compile(
    r"(?i)[\s*$_]{0,4}(?:,|\{,\}|;|\||/|\bor\b|\band\b|\bto\b|\buntil\b|[-–])(?:\s{0,3}(?:or|and)\b)?[\s*$_]{0,4}"
)


_TERMS: Final = re.compile(r"(?:[\d \t+\-*/×÷()=.,$^]|\{,\}|\\!){1,400}")
_NO_ARITHMETIC: Final = str.maketrans("", "", "0123456789+-*/() ")


class FoundNumber(NamedTuple):
    """A number of a text, and where it stands."""

    value: Fraction
    start: int
    end: int
    is_percent: bool


def find_numbers(text: str) -> list[FoundNumber]:
    """Those of a text in their order: 1,234.5; -3; 1e-4; 3/4; \\frac{3}{4}; 2\\frac{1}{2}; 1{,}234; $12; 5 %."""
    plain = _FRACTION.sub(_write_fraction, _MIXED.sub(_write_mixed, text))
    numbers = []
    for found in _FOUND.finditer(plain):
        value = read_number(found[1])
        if value is not None:
            numbers.append(FoundNumber(value, found.start(), found.end(), found[2] is not None))
    return numbers


def _write_fraction(found: re.Match[str]) -> str:
    """As 3/4, no shorter than it was, so that what follows keeps its place; apart from a digit before it."""
    is_behind_digit = found.string[max(0, found.start() - 1) : found.start()].isdigit()
    return f"{' ' * is_behind_digit}{found[1]}/{found[2]}".ljust(len(found[0]))


def _write_mixed(found: re.Match[str]) -> str:
    """2\\frac{1}{2} is 5/2, and neither 21/2 nor a product."""
    whole, top, bottom = int(_strip_signs(found[1])), int(found[2]), int(found[3])
    return f"{whole * bottom + top}/{bottom}".ljust(len(found[0]))


def _strip_signs(text: str) -> str:
    """Without commas of thousands and signs of currencies."""
    for sign in ("{,}", "\\!", ",", "$", "€", "£", "¥"):
        text = text.replace(sign, "")
    return text


def read_number(text: str) -> Fraction | None:
    """What a text that is a number says; None where it is none."""
    plain = _strip_signs(text.strip()).replace("−", "-").replace("+-", "-")
    top, slash, bottom = plain.partition("/")
    if len(plain) > 3 * MOST_DIGITS:
        return None
    try:
        return Fraction(top) / Fraction(bottom) if slash else Fraction(top)
    except (ValueError, ZeroDivisionError):
        return None


def find_final_number(text: str) -> FoundNumber | None:
    """The number that an answer settles on: the first behind its last "answer is", "####" or box, else its last one.

    None where there is none, or where it stands beside others to choose from: "3, 4 or 5" is no answer.
    """
    numbers = find_numbers(text)
    marks = [found.end() for found in _MARKED.finditer(text)]
    behind = [place for place, number in enumerate(numbers) if marks and number.start >= marks[-1]]
    line_end = text.find("\n", marks[-1]) if marks else -1
    if behind and (line_end < 0 or numbers[behind[0]].start < line_end):
        chosen = _find_result(text, numbers, behind[0])
    elif numbers:
        chosen = len(numbers) - 1
    else:
        return None
    for other, first, second in (
        (chosen - 1, chosen - 1, chosen),
        (chosen + 1, chosen, chosen + 1),
    ):
        if 0 <= other < len(numbers) and numbers[other].value != numbers[chosen].value:
            between = text[numbers[first].end : numbers[second].start]
            if len(between) <= 24 and _BETWEEN.fullmatch(between):
                return None
    return numbers[chosen]


def _find_result(text: str, numbers: Sequence[FoundNumber], place: int) -> int:
    """Of "3 * 4 = 12" the 12: behind the last sign of equality of an expression."""
    terms = _TERMS.match(text, numbers[place].start)
    equal = terms[0].rfind("=") + terms.start() if terms and "=" in terms[0] else len(text)
    return next((later for later in range(place, len(numbers)) if numbers[later].start > equal), place)


# --- countdown


class ExpressionError(ValueError):
    """An expression that is none, or has a part that no arithmetic has."""


def work_out(expression: str) -> tuple[Fraction, list[int]]:
    """What an expression of whole numbers, + - * / and parentheses comes to, and the numbers in it.

    Raises:
        ExpressionError: it is none, or divides by 0.
    """
    if len(expression) > MOST_EXPRESSION:
        raise ExpressionError(f"wanted at most {MOST_EXPRESSION} characters, found {len(expression)}")
    if other := expression.translate(_NO_ARITHMETIC):
        raise ExpressionError(f"wanted numbers, + - * / and parentheses, found {other[:40]!r}")
    numbers: list[int] = []
    try:
        return _work_out(ast.parse(expression.strip(), mode="eval").body, numbers), numbers
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError) as error:
        raise ExpressionError(f"wanted an expression, found {type(error).__name__}") from None


def _work_out(node: ast.expr, numbers: list[int]) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        numbers.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.BinOp):
        left, right = _work_out(node.left, numbers), _work_out(node.right, numbers)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            return left / right
    raise ValueError(type(node).__name__)


def uses_each(numbers: Sequence[int], given: Sequence[int], *, all_of_them: bool) -> bool:
    """Whether only what is given was used, each as often as it is given; and nothing of it left."""
    used, there = Counter(numbers), Counter(given)
    return used == there if all_of_them else used <= there
