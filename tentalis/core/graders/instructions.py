"""Instructions that an answer either follows or does not, by the 25 checks of IFEval.

Source:
    Instruction-Following Evaluation for Large Language Models, arXiv:2311.07911, table 4 and its published checks.
    Differences: words to look for are words and no patterns; what an instruction needs is never drawn by chance; a
    letter to count may be any character.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tentalis.core.graders.words import find_all, has_word, is_word_sign, split_words

Arguments = Mapping[str, Any]
RELATIONS: Final = ("less than", "at least")
CHOICES: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
"""Of a constrained response."""
MOST_COUNTED: Final = 1_000_000
_BREAKS: Final = frozenset(".,?!'\"")


class Reading(NamedTuple):
    """What is asked of libraries.

    Args:
        split_sentences: by Punkt's English model.
        is_in: whether a text is in a language, by its code; None: nobody can tell.
    """

    split_sentences: Callable[[str], Sequence[str]]
    is_in: Callable[[str, str], bool | None]


@dataclass(frozen=True)
class Instruction:
    """One of them.

    Args:
        takes: argument -> raises ValueError for what it cannot be.
        follows: whether an answer, which is not empty, follows it; None: nobody can tell.
        check: raises ValueError for arguments that do not go together.
    """

    takes: Mapping[str, Callable[[Any], None]]
    follows: Callable[[str, Arguments, Reading], bool | None]
    check: Callable[[Arguments], None] = lambda arguments: None


# what arguments may be


def _count(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
        raise ValueError(f"wanted a whole number from 0, found {value!r:.80}")
    if value > MOST_COUNTED:
        raise ValueError(f"wanted a number up to {MOST_COUNTED:,}, found {value!r:.80}")


def _relation(value: Any) -> None:
    if value not in RELATIONS:
        raise ValueError(f"wanted {' or '.join(RELATIONS)}, found {value!r:.80}")


def _text(value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"wanted a text, found {value!r:.80}")


def _letter(value: Any) -> None:
    if not isinstance(value, str) or len(value.strip()) != 1:
        raise ValueError(f"wanted one character, found {value!r:.80}")


def _texts(value: Any) -> None:
    if not isinstance(value, list) or not value:
        raise ValueError(f"wanted a list of texts, found {value!r:.80}")
    for item in value:
        _text(item)


def _check_paragraph(arguments: Arguments) -> None:
    if not 1 <= arguments["nth_paragraph"] <= arguments["num_paragraphs"]:
        raise ValueError(
            f"nth_paragraph: wanted one of {arguments['num_paragraphs']}, found {arguments['nth_paragraph']}"
        )


# how an answer follows them


def _compare(count: int, relation: str, wanted: float) -> bool:
    return count < wanted if relation == RELATIONS[0] else count >= wanted


def _has_keywords(answer: str, given: Arguments, _: Reading) -> bool:
    folded = _fold(answer)
    return all(_fold(one) in folded for one in given["keywords"])


def _has_often(answer: str, given: Arguments, _: Reading) -> bool:
    count = _fold(answer).count(_fold(given["keyword"].strip()))
    return _compare(count, given["relation"], given["frequency"])


def _lacks_words(answer: str, given: Arguments, _: Reading) -> bool:
    folded = _fold(answer)
    return not any(has_word(folded, _fold(one)) for one in given["forbidden_words"])


def _has_letters(answer: str, given: Arguments, _: Reading) -> bool:
    count = answer.lower().count(given["letter"].strip().lower())
    return _compare(count, given["let_relation"], given["let_frequency"])


def _is_in(answer: str, given: Arguments, reading: Reading) -> bool | None:
    return reading.is_in(answer, given["language"])


def _count_sentences(answer: str, given: Arguments, reading: Reading) -> bool:
    return _compare(len(reading.split_sentences(answer)), given["relation"], given["num_sentences"])


def _count_paragraphs(answer: str, given: Arguments, _: Reading) -> bool:
    return bool(len(_part(answer, "***")) == given["num_paragraphs"])


def _count_words(answer: str, given: Arguments, _: Reading) -> bool:
    parted = "".join(sign if is_word_sign(sign) else " " for sign in answer)
    return _compare(len(parted.split()), given["relation"], given["num_words"])


def _begins_paragraph(answer: str, given: Arguments, _: Reading) -> bool:
    """Empty paragraphs count where the n-th is looked for, and do not where they are counted."""
    paragraphs = answer.split("\n\n")
    count = sum(bool(one.strip()) for one in paragraphs)
    nth = int(given["nth_paragraph"])
    words = paragraphs[nth - 1].split() if nth <= count else []
    if not words:
        return False
    word = words[0].lstrip("'").lstrip('"')
    end = next((place for place, sign in enumerate(word) if sign in _BREAKS), len(word))
    return bool(count == given["num_paragraphs"] and word[:end].lower() == given["first_word"].lower())


def _has_placeholders(answer: str, given: Arguments, _: Reading) -> bool:
    count = 0
    for line in answer.split("\n"):
        place = 0
        while (start := line.find("[", place)) >= 0 and (end := line.find("]", start)) >= 0:
            count, place = count + 1, end + 1
    return bool(count >= given["num_placeholders"])


def _has_postscript(answer: str, given: Arguments, _: Reading) -> bool:
    text, marker = answer.lower(), given["postscript_marker"].strip()
    if marker in {"P.S.", "P.P.S"}:
        parts = ["p.", "s."] if marker == "P.S." else ["p.", "p.", "s"]
        return any(_goes_on(text, place, parts) for place in find_all(text, parts[0]))
    return marker.lower() in text


def _count_bullets(answer: str, given: Arguments, _: Reading) -> bool:
    stars = _count_marked(answer, "*", leaves="*")
    return bool(stars + _count_marked(answer, "-", leaves=None) == given["num_bullets"])


def _is_choice(answer: str, _: Arguments, __: Reading) -> bool:
    return any(choice in answer for choice in CHOICES)


def _has_highlights(answer: str, given: Arguments, _: Reading) -> bool:
    """`*this*` counts, and `**that**` once more."""
    count = 0
    for line in answer.split("\n"):
        stars = [place for place, sign in enumerate(line) if sign == "*"]
        place = 0
        while place + 1 < len(stars):  # from a star to the next
            count += bool(line[stars[place] + 1 : stars[place + 1]].strip())
            place += 2
        count += _count_double(line, stars)
    return bool(count >= given["num_highlights"])


def _has_sections(answer: str, given: Arguments, _: Reading) -> bool:
    mark, count, place = given["section_spliter"].strip(), 0, 0
    while (start := answer.find(mark, place)) >= 0:
        end = start + len(mark)
        end += answer[end : end + 1].isspace()
        if answer[end : end + 1].isdecimal():
            while answer[end : end + 1].isdecimal():
                end += 1
            count, place = count + 1, end
        else:
            place = start + 1
    return bool(count >= given["num_sections"])


def _is_json(answer: str, _: Arguments, __: Reading) -> bool:
    text = answer.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _has_title(answer: str, _: Arguments, __: Reading) -> bool:
    for line in answer.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if start >= 0 and end >= start + 3 and line[start : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


def _has_two(answer: str, _: Arguments, __: Reading) -> bool:
    told = _part(answer, "******")
    return len(told) == 2 and told[0] != told[1]


def _repeats(answer: str, given: Arguments, _: Reading) -> bool:
    return answer.strip().lower().startswith(given["prompt_to_repeat"].strip().lower())


def _ends(answer: str, given: Arguments, _: Reading) -> bool:
    return answer.strip().strip('"').lower().endswith(given["end_phrase"].strip().lower())


def _count_capitals(answer: str, given: Arguments, reading: Reading) -> bool:
    count = sum(word.isupper() for sentence in reading.split_sentences(answer) for word in split_words(sentence))
    return _compare(count, given["capital_relation"], given["capital_frequency"])


def _is_upper(answer: str, _: Arguments, reading: Reading) -> bool | None:
    return answer.isupper() and reading.is_in(answer.lower(), "en")


def _is_lower(answer: str, _: Arguments, reading: Reading) -> bool | None:
    return answer.islower() and reading.is_in(answer, "en")


def _lacks_commas(answer: str, _: Arguments, __: Reading) -> bool:
    return "," not in answer


def _is_quoted(answer: str, _: Arguments, __: Reading) -> bool:
    text = answer.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


# looking


def _fold(text: str) -> str:
    """Without case, each character by itself."""
    if text.isascii():
        return text.lower()
    return "".join(folded if len(folded := sign.casefold()) == 1 else sign for sign in text)


def _goes_on(text: str, place: int, parts: Sequence[str]) -> bool:
    """Whether these stand there one behind the other, with at most one blank between."""
    for number, part in enumerate(parts):
        place += bool(number) and text[place : place + 1].isspace()
        if not text.startswith(part, place):
            return False
        place += len(part)
    return True


def _part(text: str, mark: str) -> list[str]:
    """What stands between marks; nothing where two of them have nothing between."""
    first, *between = [one.strip() for one in text.split(mark)]
    if not all(between[:-1]):
        return []
    return [one for one in (first, *between) if one]


def _count_marked(text: str, mark: str, *, leaves: str | None) -> int:
    """Lines that begin with a mark. Blank lines before one are part of it.

    Args:
        leaves: what may not stand behind the mark; anything else must, even the next line; None: nothing need.
    """
    count = place = 0
    while place <= len(text):
        start = place
        while text[start : start + 1].isspace():
            start += 1
        end = start + 1
        is_one = text.startswith(mark, start)
        if is_one and leaves is not None:
            is_one, end = end < len(text) and text[end] != leaves, end + 1
        count += is_one
        following = text.find("\n", end if is_one else start)
        if following < 0:
            break
        place = following + 1
    return count


def _count_double(line: str, stars: Sequence[int]) -> int:
    """How often two stars stand on both sides of something, each pair used once."""
    pairs = {one for one, other in pairwise(stars) if other == one + 1}
    count, at = 0, -1
    for place, star in enumerate(stars):
        if star < at or star not in pairs:
            continue
        inside = place + 2
        if inside < len(stars) and stars[inside] in pairs:
            count += bool(line[star + 2 : stars[inside]].strip())
            at = stars[inside] + 2
    return count


INSTRUCTIONS: Final[Mapping[str, Instruction]] = {
    "keywords:existence": Instruction({"keywords": _texts}, _has_keywords),
    "keywords:frequency": Instruction({"keyword": _text, "frequency": _count, "relation": _relation}, _has_often),
    "keywords:forbidden_words": Instruction({"forbidden_words": _texts}, _lacks_words),
    "keywords:letter_frequency": Instruction(
        {"letter": _letter, "let_frequency": _count, "let_relation": _relation}, _has_letters
    ),
    "language:response_language": Instruction({"language": _text}, _is_in),
    "length_constraints:number_sentences": Instruction(
        {"num_sentences": _count, "relation": _relation}, _count_sentences
    ),
    "length_constraints:number_paragraphs": Instruction({"num_paragraphs": _count}, _count_paragraphs),
    "length_constraints:number_words": Instruction({"num_words": _count, "relation": _relation}, _count_words),
    "length_constraints:nth_paragraph_first_word": Instruction(
        {"num_paragraphs": _count, "nth_paragraph": _count, "first_word": _text}, _begins_paragraph, _check_paragraph
    ),
    "detectable_content:number_placeholders": Instruction({"num_placeholders": _count}, _has_placeholders),
    "detectable_content:postscript": Instruction({"postscript_marker": _text}, _has_postscript),
    "detectable_format:number_bullet_lists": Instruction({"num_bullets": _count}, _count_bullets),
    "detectable_format:constrained_response": Instruction({}, _is_choice),
    "detectable_format:number_highlighted_sections": Instruction({"num_highlights": _count}, _has_highlights),
    "detectable_format:multiple_sections": Instruction(
        {"section_spliter": _text, "num_sections": _count}, _has_sections
    ),
    "detectable_format:json_format": Instruction({}, _is_json),
    "detectable_format:title": Instruction({}, _has_title),
    "combination:two_responses": Instruction({}, _has_two),
    "combination:repeat_prompt": Instruction({"prompt_to_repeat": _text}, _repeats),
    "startend:end_checker": Instruction({"end_phrase": _text}, _ends),
    "startend:quotation": Instruction({}, _is_quoted),
    "change_case:capital_word_frequency": Instruction(
        {"capital_frequency": _count, "capital_relation": _relation}, _count_capitals
    ),
    "change_case:english_capital": Instruction({}, _is_upper),
    "change_case:english_lowercase": Instruction({}, _is_lower),
    "punctuation:no_comma": Instruction({}, _lacks_commas),
}


def read_instruction(name: str, arguments: Mapping[str, Any]) -> tuple[Instruction, dict[str, Any]]:
    """One of them, and what it is given; arguments that are None are none.

    Raises:
        ValueError: there is none of that name, or it cannot be given that.
    """
    if (known := INSTRUCTIONS.get(name)) is None:
        raise ValueError(f"instruction: wanted one of {', '.join(sorted(INSTRUCTIONS))}, found {name!r:.80}")
    given = {key: value for key, value in arguments.items() if value is not None}
    if given.keys() != known.takes.keys():
        wanted, found = ", ".join(known.takes) or "nothing", ", ".join(map(str, given)) or "nothing"
        raise ValueError(f"{name}: wanted {wanted}, found {found:.200}")
    for key, check in known.takes.items():
        try:
            check(given[key])
        except ValueError as error:
            raise ValueError(f"{name}: {key}: {error}") from None
    known.check(given)
    return known, given


def loosen(answer: str) -> list[str]:
    """The answer, and what is left of it without its first line, its last, both, and all stars."""
    lines = answer.split("\n")
    parts = [answer, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*parts, *(part.replace("*", "") for part in parts)]


def follows(name: str, arguments: Mapping[str, Any], answer: str, reading: Reading, *, is_loose: bool) -> bool | None:
    """Whether an answer follows an instruction; an empty one follows none. None: nobody can tell.

    Args:
        is_loose: one of what `loosen` gives suffices.
    Raises:
        ValueError: as `read_instruction`.
    """
    instruction, given = read_instruction(name, arguments)
    told: bool | None = False
    for text in loosen(answer) if is_loose else [answer]:
        if text.strip() and (said := instruction.follows(text, given, reading)) is not False:
            if said:
                return True
            told = None
    return told
