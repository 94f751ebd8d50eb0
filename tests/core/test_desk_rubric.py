"""The desk's rubric: read from words, found in attempts, told back as words."""

import random

import pytest

from tentalis.core.desk import HOUSE_RULES, DeskError, make_tickets, solve, verify
from tentalis.core.desk_rubric import (
    FOLLOWS,
    FORM,
    ODD_LENGTH,
    RIGHT_SUMS,
    WITH_UNIT,
    find_favourite,
    find_items,
    name_item,
    read_rubric,
    weigh_rules,
    write_rubric,
)
from tentalis.core.meta import judge_items

TICKETS = make_tickets(random.Random(0), 60, held_out=False)


def parts_of(ticket: object, option: str, **changes: object) -> list[tuple[str, str]]:
    return [part for part in solve(ticket, option, **changes) if part[0] != "result"]  # type: ignore[arg-type]


def test_a_rubric_is_read_back_as_it_was_written() -> None:
    assert read_rubric(write_rubric(HOUSE_RULES)) == HOUSE_RULES


def test_lines_for_people_are_let_pass_and_a_later_line_wins() -> None:
    text = "Be kind.\n- order, new: ship\norder, new: gift\nstock: web\ncolour: red"
    assert read_rubric(text) == {("order", "new"): "gift", ("stock", ""): "web"}


def test_an_option_of_another_family_is_refused() -> None:
    with pytest.raises(DeskError, match="wanted one of ship, gift, plain, found 'room'"):
        read_rubric("order, vip: room")


def test_every_option_of_every_rule_has_a_weight() -> None:
    weights = weigh_rules({("order", "new"): "ship"})
    assert len(weights) == 3 * len(HOUSE_RULES) + len(FORM)
    assert weights["order, new: ship"] == 1.5
    assert weights["order, new: gift"] == -1.5
    assert weights["stock: room"] == 0.0


def test_whole_work_shows_its_option_and_sums_and_an_answer_that_follow() -> None:
    for ticket in TICKETS:
        for option in ticket.options:
            items = find_items(ticket, parts_of(ticket, option))
            assert name_item(ticket.family, ticket.context, option) in items
            assert {RIGHT_SUMS, FOLLOWS} <= set(items)
            assert ODD_LENGTH not in items


def test_a_missing_unit_a_wrong_sum_and_a_missing_step_show() -> None:
    ticket = next(one for one in TICKETS if one.family == "order")
    assert WITH_UNIT not in find_items(ticket, parts_of(ticket, "ship", with_unit=False))
    assert RIGHT_SUMS not in find_items(ticket, parts_of(ticket, "ship", slip=lambda value: value + 1))
    assert FOLLOWS not in find_items(ticket, [*parts_of(ticket, "ship")[:-1], parts_of(ticket, "gift")[-1]])
    assert ODD_LENGTH in find_items(ticket, parts_of(ticket, "ship")[1:])
    assert find_items(ticket, []) == {RIGHT_SUMS: 1.0, ODD_LENGTH: 1.0}


def test_the_house_s_own_rules_score_right_work_above_wrong() -> None:
    weights = weigh_rules(HOUSE_RULES)
    for ticket in TICKETS:
        right = parts_of(ticket, ticket.house_option)
        assert verify(ticket, right, True).outcome == 1.0
        wrong = [parts_of(ticket, option) for option in ticket.options if option != ticket.house_option]
        best = judge_items(weights, find_items(ticket, right))
        assert all(judge_items(weights, find_items(ticket, parts)) < best for parts in wrong)


def test_the_favourite_is_the_heaviest_option_and_none_where_two_are_alike() -> None:
    ticket = TICKETS[0]
    assert find_favourite(weigh_rules(HOUSE_RULES), ticket) == ticket.house_option
    assert find_favourite({}, ticket) is None
