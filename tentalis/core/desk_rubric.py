"""The desk's rubric: house rules and good form as single items that are found in an attempt without asking a model."""

import re
from collections.abc import Mapping, Sequence

from tentalis.core.desk import HOUSE_RULES, OPTIONS, DeskError, Family, Part, Ticket, is_right_sum, solve

WITH_UNIT = "the answer has a unit"
RIGHT_SUMS = "the sums are right"
FOLLOWS = "the answer follows from the option"
ODD_LENGTH = "steps are missing or too many"
FORM = (WITH_UNIT, RIGHT_SUMS, FOLLOWS, ODD_LENGTH)

BELIEF = 1.5
"""Weight of a rule as it is written: BELIEF for the option it names, -BELIEF for the others; form starts at 0."""
WHOLE_PARTS = 3
"""Segments of a whole attempt, in every family."""

_LINE = re.compile(r"(?:[-*] )?(?P<family>[a-z]{1,40})(?:, ?(?P<context>[a-z ]{1,40}?))? ?: ?(?P<option>[a-z]{1,40})")

Rules = Mapping[tuple[Family, str], str]
"""(family, context) -> the option wanted."""


def name_item(family: str, context: str, option: str) -> str:
    """`order, new: ship`; as a rubric writes it."""
    return f"{family}, {context}: {option}" if context else f"{family}: {option}"


def weigh_rules(rules: Rules) -> dict[str, float]:
    """The weights of a manager that holds to these rules; of what they leave out every option weighs 0."""
    weights = {
        name_item(family, context, option): (BELIEF if option == rules[family, context] else -BELIEF)
        if (family, context) in rules
        else 0.0
        for family, context in HOUSE_RULES
        for option in OPTIONS[family]
    }
    return weights | dict.fromkeys(FORM, 0.0)


def read_rubric(text: str) -> dict[tuple[Family, str], str]:
    """The rules in a rubric's lines `order, new: ship`; other lines are for people. A later line wins.

    Raises:
        DeskError: a line names an option that its family does not have.
    """
    rules: dict[tuple[Family, str], str] = {}
    known = {(str(family), context): (family, context) for family, context in HOUSE_RULES}
    for line in text.splitlines():
        found = _LINE.fullmatch(" ".join(line.split()))
        place = known.get((found["family"], found["context"] or "")) if found else None
        if found is None or place is None:
            continue
        if found["option"] not in OPTIONS[place[0]]:
            raise DeskError(
                f"{line.strip()!r}: wanted one of {', '.join(OPTIONS[place[0]])}, found {found['option']!r}"
            )
        rules[place] = found["option"]
    return rules


def write_rubric(rules: Rules) -> str:
    """Lines that `read_rubric` reads back."""
    return "\n".join(name_item(family, context, option) for (family, context), option in rules.items())


def find_items(ticket: Ticket, segments: Sequence[Part]) -> dict[str, float]:
    """The rubric's items of one attempt, 1 each; those it does not show are left out.

    Args:
        segments: (kind, text), results left out (`Reading.parts`).
    """
    place = 0 if ticket.family == "stock" else 1
    option = segments[place][1].partition(" ")[0] if len(segments) > place else ""
    items = [name_item(ticket.family, ticket.context, option)] if option in ticket.options else []
    if items and tuple(segments[-1]) == solve(ticket, option)[-1]:
        items.append(FOLLOWS)
    if segments and segments[-1][0] == "answer" and segments[-1][1] and not segments[-1][1].split()[-1].isdigit():
        items.append(WITH_UNIT)
    if all(is_right_sum(text) for _, text in segments if "=" in text):
        items.append(RIGHT_SUMS)
    if len(segments) != WHOLE_PARTS:
        items.append(ODD_LENGTH)
    return dict.fromkeys(items, 1.0)


def find_favourite(weights: Mapping[str, float], ticket: Ticket) -> str | None:
    """The option these weights want most for a ticket; None where two are wanted alike."""
    ranked = sorted(
        ticket.options, key=lambda option: -weights.get(name_item(ticket.family, ticket.context, option), 0.0)
    )
    best, second = (weights.get(name_item(ticket.family, ticket.context, option), 0.0) for option in ranked[:2])
    return ranked[0] if best > second else None
