"""The desk's world: tickets, the tool, the rule book, reading and judging attempts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core import desk
from tentalis.core.desk import DeskError, Ticket
from tentalis.core.hints import hinted_prompt

ORDER = Ticket(family="order", item="mug", count=3, price_eur=4, customer="new")
STOCK = Ticket(family="stock", item="lamp", count=21)

tickets = st.builds(lambda seed: desk.make_ticket(random.Random(seed)), st.integers(0, 2**32))
markup = st.lists(
    st.one_of(
        st.sampled_from(
            ["<step>", "</step>", "<call>", "</call>", "<answer>", "</answer>", "<result>", "</result>", "<|end|>"]
        ),
        st.text(alphabet="ab <>/=5é\n", max_size=6),
    ),
    max_size=14,
)


def test_a_ticket_reads_as_its_line_of_text() -> None:
    assert ORDER.text == "Order: 3 mug at 4 EUR, new client. Total?"
    assert (ORDER.context, ORDER.house_option) == ("new", "ship")
    assert Ticket(family="return", item="bag", price_eur=30, days=15).house_option == "fee"
    assert Ticket(family="return", item="bag", price_eur=30, days=14).house_option == "full"
    assert Ticket(family="delay", item="bag", price_eur=50, days=2).house_option == "three"


@given(tickets)
def test_a_ticket_comes_back_from_its_text_with_or_without_a_hint(ticket: Ticket) -> None:
    assert desk.parse_ticket(ticket.text) == ticket
    assert desk.parse_ticket(hinted_prompt(ticket.text, desk.rule_book_hints(ticket))) == ticket


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not a desk ticket"),
        ("Please refund my mug", "not a desk ticket"),
        ("Order: 3 piano at 4 EUR, new client. Total?", "piano"),
        ("Order: 12 mug at 4 EUR, new client. Total?", "2 to 9, found 12"),
        ("Order: 03 mug at 4 EUR, new client. Total?", "found 03"),
        ("Order: 3 mug at 4 EUR, old client. Total?", "new or vip, found 'old'"),
        (f"Stock: client wants {'9' * 5000} mug. Buy how many?", "10 to 29"),
    ],
)
def test_a_text_that_is_no_ticket_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(DeskError, match=named):
        desk.parse_ticket(text)


def test_tickets_are_split_by_hash_and_the_same_seed_gives_the_same_ones() -> None:
    held = desk.make_tickets(7, 300, held_out=True)
    free = desk.make_tickets(7, 300, held_out=False)
    assert all(desk.is_held_out(ticket.text) for ticket in held)
    assert not {ticket.text for ticket in held} & {ticket.text for ticket in free}
    assert held == desk.make_tickets(random.Random(7), 300, held_out=True)
    assert {ticket.family for ticket in held} == set(desk.FAMILIES)
    assert {t.family for t in desk.make_tickets(1, 20, held_out=False, families=["stock"])} == {"stock"}
    with pytest.raises(DeskError, match="'loan'"):
        desk.make_tickets(1, 1, held_out=False, families=["loan"])  # type: ignore[list-item]


def test_only_the_stock_room_knows_the_true_count_and_an_unknown_source_knows_nothing() -> None:
    counts = [desk.look_up_stock(STOCK, option) for option in ("room", "list", "web")]
    assert len(set(counts)) == 3
    assert all(count is not None and 1 <= count <= 9 for count in counts)
    assert desk.look_up_stock(STOCK, "cellar") is None
    assert desk.answer_call(STOCK, "room lamp") == f"<result> {counts[0]}</result>"
    assert desk.answer_call(STOCK, "") == "<result> none</result>"


def test_a_call_waits_for_the_tool_only_when_it_is_whole_and_last() -> None:
    assert desk.find_open_call("<call> room lamp</call>") == "room lamp"
    assert desk.find_open_call("<call> room lamp</call><result> 4</result>") is None
    assert desk.find_open_call("<step> room lamp</call>") is None
    assert desk.find_open_call("</call>") is None


def test_the_house_solution_of_an_order_worked_by_hand() -> None:
    parts = desk.solve(ORDER, "ship")
    assert desk.render_parts(parts) == "<step> 3 * 4 = 12</step><step> ship 12 + 5 = 17</step><answer> 17 EUR</answer>"
    with pytest.raises(DeskError, match="ship, gift, plain; found 'web'"):
        desk.solve(ORDER, "web")


@given(tickets)
def test_the_house_solution_scores_full_marks_and_every_rival_fails(ticket: Ticket) -> None:
    for option in ticket.options:
        reading = desk.read_attempt(desk.render_parts(desk.solve(ticket, option)) + desk.END_MARK)
        verdict = desk.verify(ticket, reading.parts, reading.ended)
        assert verdict.outcome == float(option == ticket.house_option)
        if option == ticket.house_option:
            assert set(verdict.step_scores) == {1.0}
            assert (verdict.missing_steps, verdict.hints) == (0, ())
        else:
            assert desk.rule_book_hints(ticket)[0] in verdict.hints


@pytest.mark.parametrize(
    ("parts", "scores", "missing", "hints"),
    [
        ([("step", "3 * 4 = 12"), ("step", "gift 12 - 3 = 9"), ("answer", "9 EUR")], (1, 0, 0), 0, ("use ship",)),
        ([("step", "3 * 4 = 12"), ("step", "ship 12 + 5 = 17"), ("answer", "17")], (1, 1, 0.3), 0, ("write the unit",)),
        (
            [("step", "3 * 4 = 13"), ("step", "ship 13 + 5 = 18"), ("answer", "18 EUR")],
            (0.2, 0.7, 0),
            0,
            ("check the sum",),
        ),
        ([("step", "3 * 4 = 12")], (1,), 2, ()),
        ([("answer", "17 EUR")], (0,), 2, ()),
        ([], (), 3, ()),
    ],
)
def test_segments_are_scored_one_by_one(
    parts: list[tuple[str, str]], scores: tuple[float, ...], missing: int, hints: tuple[str, ...]
) -> None:
    verdict = desk.verify(ORDER, parts, True)
    assert verdict.outcome == 0.0
    assert verdict.step_scores == scores
    assert (verdict.missing_steps, verdict.hints) == (missing, hints)
    assert len(verdict.reasons) == len(parts)


def test_the_right_answer_counts_only_when_the_worker_ended_and_added_nothing() -> None:
    parts = [part for part in desk.solve(ORDER, "ship") if part[0] != "result"]
    assert desk.verify(ORDER, parts, True).outcome == 1.0
    assert desk.verify(ORDER, parts, False).outcome == 0.0
    surplus = desk.verify(ORDER, [*parts, ("answer", "17 EUR")], True)
    assert (surplus.outcome, surplus.step_scores[-1]) == (0.0, 0.0)


def test_reading_keeps_what_does_not_fit_as_bad() -> None:
    reading = desk.read_attempt(
        "hm <step> a</step></step><step> b<call> c</call><result> 4</result><result> 5</result>"
    )
    assert reading.parts == (
        ("bad", "hm"),
        ("step", "a"),
        ("bad", ""),
        ("bad", "b"),
        ("call", "c"),
        ("bad", "5"),
    )
    assert not reading.ended


@given(markup)
def test_pieces_and_text_read_alike_and_spans_cover_in_order(pieces: list[str]) -> None:
    text = "".join(pieces)
    by_text, by_pieces = desk.read_attempt(text), desk.read_pieces(pieces)
    assert by_text.parts == by_pieces.parts
    assert by_text.ended == by_pieces.ended
    previous = 0
    for segment in by_text.segments:
        assert previous <= segment.start < segment.end <= len(text)
        previous = segment.end
    for segment, piece_span in zip(by_text.segments, by_pieces.segments, strict=True):
        assert text[segment.start : segment.end] in "".join(pieces[piece_span.start : piece_span.end])


@given(tickets, markup)
def test_the_verifier_judges_anything_without_failing(ticket: Ticket, pieces: list[str]) -> None:
    reading = desk.read_attempt("".join(pieces))
    verdict = desk.verify(ticket, reading.parts, reading.ended)
    assert len(verdict.step_scores) == len(verdict.reasons) == len(reading.segments)
    assert all(0.0 <= score <= 1.0 for score in verdict.step_scores)
    assert verdict.outcome in (0.0, 1.0)


def test_hints_are_written_and_found_again_in_a_managers_words() -> None:
    hints = desk.rule_book_hints(ORDER)
    assert hints == ("use ship", "write the unit", "check the sum")
    assert hinted_prompt("Q?", hints) == "Q? Hint: use ship, write the unit, check the sum."
    assert hinted_prompt("Q?", ()) == "Q?"
    assert desk.parse_hints("Please check the sum, and use ship. I said use ship!") == ("check the sum", "use ship")
    assert desk.parse_hints("use shipping") == ()
