"""Texts that make a pattern look at the same characters again and again, made from the pattern itself."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

MANY = 40
"""A repeat of at least so many counts as one without an end."""
GENERAL = (
    "a", "A", "1", " ", "\n", "\t", "-", "_", ".", ",", ":", "/", "=", "|", "*", "`", "<", ">", "[", "(", "{", "\"",
    "'", "“", "«", "@", "+", "#", "\\", "é", "中", "\x1b", "\x1b[", "a ", "a.", "a-", "a:", "1,", "1.", "1-", "1:",
    "1 ", "A1", "Aa ", "a@", "a@a.", "://", "//", "https://", "key ", "key: ", "password", "password ", "sk-", "eyJ",
    "eyJa.", "-----BEGIN ", "<step>", "<think", "```", "[a](", "! [", "\r\n", "a'", "+1", "+1 ", "0:", "{}", "\"a",
    "Step 1",
)  # fmt: skip
"""What is repeated to look at any pattern, whatever it says."""


class Hostile(NamedTuple):
    """A text of any size: what it begins with, and what it then goes on with."""

    before: str
    run: str

    def grow(self, chars: int) -> str:
        """That many characters, and an end that fits nothing."""
        return (self.before + self.run * (chars // len(self.run) + 1))[:chars] + "\x00!"


def find_hostile(pattern: "re.Pattern[str] | None" = None) -> list[Hostile]:
    """Texts that are hard on any pattern, and those made from this one's repeats: what leads to each of them, what it
    repeats, both in turn, and the one with very many of the other."""
    found = dict[Hostile, None]()
    if pattern is not None:
        tree = _parse(pattern)
        for before, body in _repeats(tree, ""):
            for run in (body, before, before + body, body + before):
                found[Hostile("", run[:400])] = None
            found[Hostile(before, body)] = None
        whole = _sample(tree)[:400]
        found |= {Hostile("", whole): None, Hostile("", whole[:-1]): None}
    found |= dict.fromkeys(Hostile("", run) for run in GENERAL)
    return [one for one in found if one.run]


def _parse(pattern: "re.Pattern[str]") -> Any:
    return re._parser.parse(pattern.pattern, pattern.flags)  # type: ignore[attr-defined]


def _repeats(tree: Sequence[Any], before: str) -> Iterator[tuple[str, str]]:
    """(what leads to it, what it repeats) of every repeat without an end."""
    for operation, argument in tree:
        name = str(operation)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            _, most, body = argument
            yield from _repeats(body, before)
            if int(most) >= MANY:
                yield before, _sample(body)
        else:
            for part in _parts(name, argument):
                yield from _repeats(part, before)
        before += _sample([(operation, argument)])


def _parts(name: str, argument: Any) -> Sequence[Any]:
    if name == "SUBPATTERN":
        return [argument[-1]]
    if name == "BRANCH":
        return list(argument[1])
    if name in {"ASSERT", "ASSERT_NOT"}:
        return [argument[1]]
    if name == "ATOMIC_GROUP":
        return [argument]
    return []


def _sample(tree: Sequence[Any]) -> str:
    """A short text the pattern is likely to match."""
    return "".join(_sample_one(str(operation), argument) for operation, argument in tree)


def _sample_one(name: str, argument: Any) -> str:
    if name == "LITERAL":
        return chr(argument)
    if name == "NOT_LITERAL":
        return "a" if argument != ord("a") else "b"
    if name == "ANY":
        return "a"
    if name == "IN":
        return _sample_class(argument)
    if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        least, most, body = argument
        return _sample(body) * min(int(most), max(int(least), 1))
    if name in {"SUBPATTERN", "BRANCH", "ATOMIC_GROUP"}:
        return _sample(_parts(name, argument)[0])
    return ""


def _sample_class(members: Sequence[Any]) -> str:
    forbids = str(members[0][0]) == "NEGATE"
    allowed = re.compile(_write_class(members))
    for char in "a1 A_-.:/\n\"'<[{=+é中\x1b":
        if allowed.fullmatch(char):
            return char
    operation, argument = members[1 if forbids else 0]
    return chr(argument if str(operation) == "LITERAL" else argument[0]) if not forbids else "~"


def _write_class(members: Sequence[Any]) -> str:
    said = {"CATEGORY_DIGIT": r"\d", "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_SPACE": r"\s",
            "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_WORD": r"\w", "CATEGORY_NOT_WORD": r"\W"}  # fmt: skip
    written = ""
    for operation, argument in members:
        name = str(operation)
        if name == "NEGATE":
            written += "^"
        elif name == "LITERAL":
            written += re.escape(chr(argument))
        elif name == "RANGE":
            written += f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        else:
            written += said[str(argument)]
    return f"[{written}]"
