"""Claims beside the sources: what is found, what is held for computed, and when the rules say nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.hallucination import CheckedStep, check_attempt, read_text
from tentalis.core.scoring.protocol import AttemptContext, Source, Unscored
from tentalis.core.steps import ParsedStep

MANUAL = Source("manual", "The Meridian pump moves 450 litres an hour at 3.5 bar. Its filter is made by Hartwell.")


def make_context(
    *texts: str, prompt: str = "What do we know of the pump?", sources: tuple[Source, ...] = (MANUAL,)
) -> AttemptContext:
    steps = tuple(ParsedStep(kind="step", text=text, start=0, end=0, tool_name="", result=None) for text in texts)
    return AttemptContext(environment="chat", prompt=prompt, text="", steps=steps, answer=None, sources=sources)


def check_text(text: str, *sources: Source) -> CheckedStep:
    (step,) = check_attempt(make_context(text, prompt="", sources=sources)).steps
    return step


def test_a_number_a_name_and_a_quotation_in_no_source_are_marked_where_they_stand() -> None:
    text = 'The Meridian moves 450 litres, weighs 87 kg, was praised by Osterman as "the quietest of all pumps".'
    found = check_text(text, MANUAL)
    assert [(claim.kind, claim.text) for claim in found.unsupported] == [
        ("number", "87"),
        ("name", "Osterman"),
        ("quotation", "the quietest of all pumps"),
    ]
    assert [text[start:end] for start, end, _ in found.spans] == ["87", "Osterman", "the quietest of all pumps"]
    assert found.score == pytest.approx(2 / 5)  # Meridian and 450 are there


def test_what_the_sources_say_is_supported_however_it_is_written() -> None:
    found = check_text('By HARTWELL: "its  Filter is made" of parts for 450.0 litres at 3.5 bar.', MANUAL)
    assert (found.unsupported, found.score) == ((), 1.0)
    assert check_text("It cost 1,250 euros.", Source("bill", "total 1250")).score == 1.0


@pytest.mark.parametrize(("said", "is_there"), [("900", True), ("1575", True), ("446.5", True), ("777", False)])
def test_a_number_one_operation_away_is_computed_and_another_is_not(said: str, is_there: bool) -> None:
    found = check_text(f"That makes {said} in all.", MANUAL)  # 450 + 450, 450 * 3.5, 450 - 3.5
    assert [claim.is_supported for claim in found.claims] == [is_there]


def test_prices_add_up_as_they_do_on_paper() -> None:
    prices = Source("prices", "A mug costs 4.35 EUR, a card 0.10 EUR, a stamp 0.20 EUR.")
    (step,) = check_attempt(
        make_context("13.05 EUR, and 0.30 EUR.", prompt="What are 3 mugs?", sources=(prices,))
    ).steps
    assert [(claim.text, claim.is_supported) for claim in step.claims] == [("13.05", True), ("0.30", True)]


def test_what_a_step_computed_supports_the_next_and_what_it_made_up_does_not() -> None:
    checked = check_attempt(make_context("Twice 450 is 900.", "900 and 450 are 1350.", "It is 7777.", "As said, 7777."))
    assert [len(step.unsupported) for step in checked.steps] == [0, 0, 1, 1]


def test_a_tools_answer_supports_what_comes_after_it_and_not_before() -> None:
    call = ParsedStep(kind="call", text="stock", start=0, end=0, tool_name="stock", result="83 on the shelf")
    step = ParsedStep(kind="step", text="There are 83.", start=0, end=0, tool_name="", result=None)
    base = make_context(sources=())
    before = check_attempt(AttemptContext(**{**vars(base), "steps": (step, call)}))
    after = check_attempt(AttemptContext(**{**vars(base), "steps": (call, step)}))
    assert isinstance(before.score, Unscored)
    assert after.score == 1.0


def test_without_any_source_the_rules_abstain_and_say_why() -> None:
    found = check_attempt(make_context("The capital of France is Paris, of 2148000 people.", sources=()))
    assert isinstance(found.score, Unscored)
    assert "3 of 3 claims are not in the prompt" in found.score.reason
    assert found.unsupported == ()


def test_what_repeats_the_prompt_is_supported_without_any_source() -> None:
    assert check_attempt(make_context("It costs 48 euros.", prompt="A lamp for 48 euros.", sources=())).score == 1.0


def test_counts_first_words_of_sentences_and_weekdays_are_no_claims() -> None:
    found = check_text("Here are 3 reasons. Then we wait until Monday.", MANUAL)
    assert found.claims == ()
    assert isinstance(found.score, Unscored)


def test_among_very_many_numbers_a_computed_one_shows_nothing() -> None:
    table = Source("table", " ".join(str(number) for number in range(1000, 1200)))
    assert check_text("In all it is 2077.", table).claims == ()
    assert check_text("In all it is 987654.", table).score == 0.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_read_and_every_claim_lies_where_it_says(text: str, source: str) -> None:
    found = check_text(text, Source("s", source))
    for claim in found.claims:
        assert text[claim.start : claim.end] == claim.text
        assert claim.text


@given(st.text(max_size=200))
def test_a_text_is_never_unsupported_by_itself(text: str) -> None:
    assert check_text(text, Source("itself", text)).unsupported == ()


def test_a_source_may_be_json() -> None:
    assert read_text({"price": 48}) == '{"price": 48}'
    assert read_text(None) == ""
