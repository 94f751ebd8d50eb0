"""The 25 checks of IFEval, and what no check is made of."""

from typing import Any, Final

import pytest

from tentalis.core.graders.instructions import INSTRUCTIONS
from tentalis.core.graders.words import split_words
from tests.apps.evals.graders.asking import ask_grader

LONG: Final = "The committee will meet again next week to discuss the budget of the coming year."
CASES: tuple[tuple[str, dict[str, Any], str, bool], ...] = (
    ("keywords:existence", {"keywords": ["rain", "sun"]}, "Sunny, then RAINY", True),
    ("keywords:existence", {"keywords": ["rain", "sun"]}, "Rain", False),
    ("keywords:existence", {"keywords": ["C++"]}, "I like c++", True),
    ("keywords:frequency", {"keyword": "rain", "frequency": 2, "relation": "at least"}, "rain, brain", True),
    ("keywords:frequency", {"keyword": "rain", "frequency": 2, "relation": "less than"}, "rain, brain", False),
    ("keywords:frequency", {"keyword": "rain", "frequency": 0, "relation": "at least"}, "dry", True),
    ("keywords:forbidden_words", {"forbidden_words": ["rain"]}, "brain rains", True),
    ("keywords:forbidden_words", {"forbidden_words": ["rain"]}, "the rain-coat", False),
    ("keywords:forbidden_words", {"forbidden_words": ["a-a"]}, "xa-a-a", False),
    ("keywords:letter_frequency", {"letter": "A", "let_frequency": 2, "let_relation": "at least"}, "Anna", True),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}, "# one", False),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "Dr. Who went.", False),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "Go. Dr. Who went.", True),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "Wow!!!", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***a***b***", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a******b", False),
    ("length_constraints:number_words", {"num_words": 4, "relation": "at least"}, "it's x_y, no", True),
    ("length_constraints:number_words", {"num_words": 4, "relation": "less than"}, "it's x_y, no", False),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Rain"},
        "Sun.\n\n'\"rain's\" gone",
        True,
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "rain"},
        "Sun.\n\n\n\nrain",
        False,
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] [b]", True),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a\nb] [c]", False),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Yes.\np. s. no", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "PS no", False),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P.P.S no", True),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P.S. no", False),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n\n  - b", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "** a\n- b", False),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "*\n* a", True),
    ("detectable_format:constrained_response", {}, "Well: My answer is no.", True),
    ("detectable_format:constrained_response", {}, "My answer is no", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* *b*", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "* * *a*", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "**a**", True),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section1Section 2",
        True,
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1 SECTION 2",
        False,
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', True),
    ("detectable_format:json_format", {}, "{'a': 1}", False),
    ("detectable_format:json_format", {}, "[" * 100_000, False),
    ("detectable_format:title", {}, "x <<a>> y", True),
    ("detectable_format:title", {}, "<<<>>> <<\n>>", False),
    ("combination:two_responses", {}, "a******b", True),
    ("combination:two_responses", {}, "a******a", False),
    ("combination:two_responses", {}, "a************b", False),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."}, " say it. Done.", True),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."}, "I say it.", False),
    ("startend:end_checker", {"end_phrase": "Bye."}, 'So "bye." ', True),
    ("startend:end_checker", {"end_phrase": "Bye."}, "Bye. Now", False),
    ("startend:quotation", {}, ' "a" ', True),
    ("startend:quotation", {}, '"', False),
    ("change_case:capital_word_frequency", {"capital_frequency": 4, "capital_relation": "at least"}, "IT'S R&D", True),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"}, "A-B-TEST", False),
    ("change_case:english_capital", {}, LONG.upper(), True),
    ("change_case:english_capital", {}, LONG, False),
    ("change_case:english_lowercase", {}, LONG.lower(), True),
    ("change_case:english_lowercase", {}, LONG, False),
    ("language:response_language", {"language": "en"}, LONG, True),
    ("language:response_language", {"language": "de"}, LONG, False),
    ("punctuation:no_comma", {}, "no; comma", True),
    ("punctuation:no_comma", {}, "a, comma", False),
)


def ask(name: str, arguments: Any, answer: str | None, **options: Any) -> Any:
    return ask_grader("ifeval", {"instruction_id_list": [name], "kwargs": [arguments]}, answer, **options)


@pytest.mark.parametrize(("name", "arguments", "answer", "follows"), CASES)
def test_an_instruction_is_followed_or_not(name: str, arguments: dict[str, Any], answer: str, follows: bool) -> None:
    assert ask(name, {"unused": None, **arguments}, answer).is_correct is follows


def test_each_of_the_25_is_tried_both_ways_and_nobody_follows_one_by_saying_nothing() -> None:
    assert len(INSTRUCTIONS) == 25
    for name in INSTRUCTIONS:
        verdicts = {follows: arguments for one, arguments, _, follows in CASES if one == name}
        assert set(verdicts) == {True, False}, name
        for answer in ("", " \n", None):
            assert ask(name, verdicts[True], answer).value == 0.0


def test_a_loose_answer_may_have_a_line_too_many_or_stars() -> None:
    for answer in ('Sure:\n{"a": 1}', '{"a": 1}\nDone', 'Sure:\n{"a": 1}\nDone', '**{"a": 1}**'):
        assert ask("detectable_format:json_format", {}, answer).value == 0.0
        assert ask("detectable_format:json_format", {}, answer, loose=True).value == 1.0


def test_all_instructions_must_be_followed_unless_a_share_counts() -> None:
    names = ["punctuation:no_comma", "startend:quotation"]
    reference = {"instruction_id_list": names, "kwargs": [{}, None]}
    strict = ask_grader("ifeval", reference, '"a, b"')
    assert (strict.value, strict.signals) == (0.0, {"followed": 0.5})
    assert strict.evidence == {"followed": {"1 punctuation:no_comma": False, "2 startend:quotation": True}}
    partial = ask_grader("ifeval", reference, '"a, b"', partial=True)
    assert (partial.value, partial.correct) == (0.5, False)


def test_a_language_that_nobody_can_tell_is_neither_right_nor_wrong() -> None:
    grade = ask("language:response_language", {"language": "en"}, "42")
    assert grade.value is None
    assert "nobody can tell" in grade.cause
    both = {
        "instruction_id_list": ["language:response_language", "punctuation:no_comma"],
        "kwargs": [{"language": "en"}, {}],
    }
    assert ask_grader("ifeval", both, "4,2").value == 0.0


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("keywords:exists", {"keywords": ["a"]}, "instruction: wanted one of"),
        ("keywords:existence", {}, "wanted keywords, found nothing"),
        ("keywords:existence", {"keywords": []}, "wanted a list of texts"),
        ("keywords:existence", {"keywords": ["a"], "language": "en"}, "wanted keywords, found keywords, language"),
        ("punctuation:no_comma", {"commas": 0}, "wanted nothing, found commas"),
        ("length_constraints:number_words", {"num_words": 3, "relation": "at most"}, "wanted less than or at least"),
        ("length_constraints:number_words", {"num_words": -1, "relation": "at least"}, "wanted a whole number from 0"),
        ("language:response_language", {"language": "xx"}, "language: wanted a code of ISO 639-1"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            "nth_paragraph: wanted one of 2, found 3",
        ),
    ],
)
def test_an_instruction_that_is_none_is_refused_and_never_followed(name: str, arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ask(name, arguments, "anything")


@pytest.mark.parametrize(
    "reference",
    [None, {}, [], {"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, {"instruction_id_list": []}],
)
def test_a_reference_of_another_shape_is_refused(reference: Any) -> None:
    with pytest.raises(ValueError, match="wanted"):
        ask_grader("ifeval", reference, "anything")


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("I can't, he'll; 'tis JOHN'S.", "I ca n't , he 'll ; ' tis JOHN 'S ."),
        ('She said "go" (now)...', "She said `` go '' ( now ) ..."),
        ("3,5 at 5:30, cannot--gonna", "3,5 at 5:30 , can not -- gon na"),
        ("U.S. and e.g. this", "U.S. and e.g. this"),
        ("“R&D” 50% off!", "“ R & D ” 50 % off !"),
    ],
)
def test_a_sentence_is_split_as_the_treebank_is(sentence: str, words: str) -> None:
    assert split_words(sentence) == words.split()
