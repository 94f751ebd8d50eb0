"""Instructions that a rule looks at: made up over the 25 checks of IFEval, and IFEval's own rows.

Each made up names two words of its own that must occur, so that neither any text nor the answer to another follows it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row
from apps.evals.catalogue.shapes import FILE, require_text

PLACES: Final = [
    "harbour",
    "village",
    "library",
    "market",
    "station",
    "garden",
    "bakery",
    "museum",
    "bridge",
    "theatre",
    "lighthouse",
    "orchard",
]
THINGS: Final = [
    "lantern",
    "violin",
    "compass",
    "thimble",
    "saddle",
    "beacon",
    "kettle",
    "ribbon",
    "ladder",
    "candle",
    "anchor",
    "mirror",
    "blanket",
    "basket",
    "hammer",
    "whistle",
    "carpet",
    "trumpet",
    "barrel",
    "window",
]
SAID: Final = (
    "The {place} is quiet in the morning and the people there like it that way",
    "An old woman keeps the {thing} in a box near the door",
    "Every visitor asks about it and she tells the story again",
    "Nobody knows who made it or why it was left behind",
    "The children of the {place} draw pictures of the {thing} at school",
)
SPOKEN: Final[Mapping[str, tuple[str, Mapping[str, tuple[str, ...]], str]]] = {
    "de": (
        "German",
        {"place": ("Hafen", "Garten", "Bahnhof", "Markt"), "thing": ("Laterne", "Geige", "Leiter", "Kerze")},
        "Am frühen Morgen ist es hier sehr ruhig, und die Menschen mögen das. Eine alte Frau bewahrt das Wort {thing} "
        "in ihrem Gedächtnis, und das Wort {place} steht auf einem Schild neben der Tür. Niemand weiß, warum.",
    ),
    "fr": (
        "French",
        {"place": ("jardin", "marché", "village", "musée"), "thing": ("lanterne", "violon", "échelle", "bougie")},
        "Le matin, tout est calme ici et les gens aiment cette tranquillité. Une vieille femme garde le mot {thing} "
        "dans sa mémoire, et le mot {place} est écrit sur une pancarte près de la porte. Personne ne sait pourquoi.",
    ),
    "es": (
        "Spanish",
        {"place": ("puerto", "jardín", "mercado", "pueblo"), "thing": ("linterna", "violín", "escalera", "vela")},
        "Por la mañana todo está muy tranquilo aquí y a la gente le gusta así. Una mujer mayor guarda la palabra "
        "{thing} en su memoria, y la palabra {place} está escrita en un cartel junto a la puerta. Nadie sabe por qué.",
    ),
    "it": (
        "Italian",
        {"place": ("porto", "giardino", "mercato", "villaggio"), "thing": ("lanterna", "violino", "scala", "candela")},
        "La mattina qui è tutto molto tranquillo e alla gente piace così. Una vecchia signora custodisce la parola "
        "{thing} nella sua memoria, e la parola {place} è scritta su un cartello vicino alla porta. Nessuno sa perché.",
    ),
}
"""Code -> the language's name, words of it, and a text around them."""


class DrawnTheme(NamedTuple):
    """What an instruction is about."""

    place: str
    thing: str
    number: int

    @property
    def sentences(self) -> list[str]:
        """Without commas and full stops."""
        return [one.format(place=self.place, thing=self.thing) for one in SAID]

    @property
    def text(self) -> str:
        return " ".join(f"{one}." for one in self.sentences)


class AskedInstruction(NamedTuple):
    """An instruction in words, its arguments, and an answer that follows it."""

    words: str
    given: Mapping[str, Any]
    answer: str


def _repeat_words(drawn: DrawnTheme) -> AskedInstruction:
    said = f"Tell me what the {drawn.thing} of the {drawn.place} number {drawn.number} looks like"
    words = f'First repeat this sentence word for word, then answer it: "{said}"'
    return AskedInstruction(words, {"prompt_to_repeat": said}, f"{said}. {drawn.text}")


def _first_word(drawn: DrawnTheme) -> AskedInstruction:
    words = f"Write 3 paragraphs with an empty line between them. Paragraph 2 must begin with the word {drawn.thing}."
    told = drawn.sentences
    answer = f"{told[0]}.\n\n{drawn.thing} makers came later. {told[2]}.\n\n{told[4]}."
    return AskedInstruction(words, {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": drawn.thing}, answer)


def _speak(drawn: DrawnTheme) -> AskedInstruction:
    code = list(SPOKEN)[drawn.number % len(SPOKEN)]
    name, _, text = SPOKEN[code]
    return AskedInstruction(
        f"It is for page {drawn.number} of a book. Answer in {name} only.",
        {"language": code},
        text.format(place=drawn.place, thing=drawn.thing),
    )


def _stars(drawn: DrawnTheme) -> str:
    return "\n\n***\n\n".join(f"{one}." for one in drawn.sentences[2:])


CHECKS: Final[Mapping[str, Callable[[DrawnTheme], AskedInstruction]]] = {
    "keywords:existence": lambda d: AskedInstruction(
        f"Use the word archive{d.number}.",
        {"keywords": [f"archive{d.number}"]},
        f"{d.text} It is in archive{d.number}.",
    ),
    "keywords:frequency": lambda d: AskedInstruction(
        f"Use the word silver at least {3 + d.number % 3} times.",
        {"keyword": "silver", "frequency": 3 + d.number % 3, "relation": "at least"},
        f"{d.text} " + "It is made of silver. " * 5,
    ),
    "keywords:forbidden_words": lambda d: AskedInstruction(
        "Do not use the words treasure and pirate.", {"forbidden_words": ["treasure", "pirate"]}, d.text
    ),
    "keywords:letter_frequency": lambda d: AskedInstruction(
        f"Use the letter z at least {4 + d.number % 4} times.",
        {"letter": "z", "let_frequency": 4 + d.number % 4, "let_relation": "at least"},
        f"{d.text} " + "The bees there buzz. " * 4,
    ),
    "language:response_language": _speak,
    "length_constraints:number_sentences": lambda d: AskedInstruction(
        f"Write at least {3 + d.number % 3} sentences.",
        {"num_sentences": 3 + d.number % 3, "relation": "at least"},
        d.text,
    ),
    "length_constraints:number_paragraphs": lambda d: AskedInstruction(
        "Write 3 paragraphs, divided by lines of three stars: ***", {"num_paragraphs": 3}, _stars(d)
    ),
    "length_constraints:number_words": lambda d: AskedInstruction(
        f"Write at least {30 + d.number % 10} words.", {"num_words": 30 + d.number % 10, "relation": "at least"}, d.text
    ),
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_content:number_placeholders": lambda d: AskedInstruction(
        f"Leave at least {1 + d.number % 3} gaps in square brackets such as [name].",
        {"num_placeholders": 1 + d.number % 3},
        f"{d.text} Write to [name] at [address] before [date].",
    ),
    "detectable_content:postscript": lambda d: AskedInstruction(
        "At the end add a postscript that begins with P.S.",
        {"postscript_marker": "P.S."},
        f"{d.text}\n\nP.S. Come soon.",
    ),
    "detectable_format:number_bullet_lists": lambda d: AskedInstruction(
        "Answer with exactly 4 bullet points such as: * This is a point.",
        {"num_bullets": 4},
        "\n".join(f"* {one}." for one in d.sentences[1:]),
    ),
    "detectable_format:constrained_response": lambda d: AskedInstruction(
        'Say one of these sentences: "My answer is yes.", "My answer is no.", "My answer is maybe."',
        {},
        f"{d.text} My answer is maybe.",
    ),
    "detectable_format:number_highlighted_sections": lambda d: AskedInstruction(
        f"Mark at least {2 + d.number % 2} parts with stars, as *a marked part*.",
        {"num_highlights": 2 + d.number % 2},
        "\n".join(f"*{one}*" for one in d.sentences[1:]),
    ),
    "detectable_format:multiple_sections": lambda d: AskedInstruction(
        "Write 3 sections, and mark the beginning of each as SECTION 1, SECTION 2 and so on.",
        {"section_spliter": "SECTION", "num_sections": 3},
        "\n".join(f"SECTION {place}\n{one}." for place, one in enumerate(d.sentences[2:], start=1)),
    ),
    "detectable_format:json_format": lambda d: AskedInstruction(
        "Answer in JSON and in nothing else.", {}, json.dumps({"place": d.place, "thing": d.thing, "story": d.text})
    ),
    "detectable_format:title": lambda d: AskedInstruction(
        "Give it a title in double angular brackets, such as <<a title>>.", {}, f"<<The {d.thing}>>\n{d.text}"
    ),
    "combination:two_responses": lambda d: AskedInstruction(
        "Give two different answers, divided by six stars: ******",
        {},
        f"{d.sentences[0]}. {d.sentences[1]}.\n******\n{d.sentences[4]}.",
    ),
    "combination:repeat_prompt": _repeat_words,
    "startend:end_checker": lambda d: AskedInstruction(
        f"End with exactly these words: That is all about number {d.number}.",
        {"end_phrase": f"That is all about number {d.number}."},
        f"{d.text} That is all about number {d.number}.",
    ),
    "startend:quotation": lambda d: AskedInstruction(
        "Put all of your answer in double quotation marks.", {}, f'"{d.text}"'
    ),
    "change_case:capital_word_frequency": lambda d: AskedInstruction(
        "Write at least 4 words in capital letters only.",
        {"capital_frequency": 4, "capital_relation": "at least"},
        f"{d.text} IT IS VERY OLD INDEED.",
    ),
    "change_case:english_capital": lambda d: AskedInstruction(
        "Write in English and in capital letters only.", {}, d.text.upper()
    ),
    "change_case:english_lowercase": lambda d: AskedInstruction(
        "Write in English and in small letters only.", {}, d.text.lower()
    ),
    "punctuation:no_comma": lambda d: AskedInstruction("Use no commas.", {}, d.text),
}
_BEGIN: Final[Mapping[str, int]] = {"held_out": 0, "train": 1}
SIZES: Final[Mapping[str, int]] = {"held_out": 60, "train": 100}


def _draw(check: str, split: str, size: int, seed: int) -> Iterator[Row]:
    """Each of another place and thing; a split has numbers that no other has."""
    drawn = Random(f"{check} {seed}")
    pairs = [(place, thing) for place in PLACES for thing in THINGS]
    drawn.shuffle(pairs)
    for n, (place, thing) in enumerate(pairs[_BEGIN[split] :: 2][:size]):
        number = 100 + 2 * n + _BEGIN[split]
        if check == "language:response_language":
            words = SPOKEN[list(SPOKEN)[number % len(SPOKEN)]][1]
            place, thing = drawn.choice(words["place"]), drawn.choice(words["thing"])
        yield _write(check, DrawnTheme(place, thing, number))


def _write(check: str, drawn: DrawnTheme) -> dict[str, Any]:
    asked = CHECKS[check](drawn)
    prompt = (
        f"Write something short about the {drawn.place} and the {drawn.thing} there. {asked.words} "
        f"Somewhere write the words {drawn.place} and {drawn.thing}."
    )
    return {
        "prompt": prompt,
        "instruction_id_list": [check, "keywords:existence"],
        "kwargs": [dict(asked.given), {"keywords": [drawn.place, drawn.thing]}],
        "answer": asked.answer,
    }


def _draw_all(split: str, size: int, seed: int) -> Iterator[Row]:
    """Of each check in turn."""
    drawn = {check: _draw(check, split, size // len(CHECKS) + 1, seed) for check in CHECKS}
    names = list(CHECKS)
    for n in range(size):
        check = names[n % len(names)]
        if (row := next(drawn[check], None)) is not None:
            yield row


def _read(row: Row) -> CatalogueItem:
    names, kwargs = row["instruction_id_list"], row["kwargs"]
    if not isinstance(names, list) or not isinstance(kwargs, list):
        raise ValueError(f"instruction_id_list and kwargs: wanted lists, found {names!r:.60} and {kwargs!r:.60}")
    given = [{name: value for name, value in (one or {}).items() if value is not None} for one in kwargs]
    return CatalogueItem(
        prompt=require_text(row, "prompt"),
        reference={"instruction_id_list": names, "kwargs": given},
        category=str(names[0]).partition(":")[0] if names else "",
        oracle=row.get("answer"),
    )


_COLUMNS: Final = {
    "prompt": "what is asked",
    "instruction_id_list": "names of checks",
    "kwargs": "the arguments of each",
}


def _open(check: str) -> CatalogueEntry:
    name = check.partition(":")[2]
    return CatalogueEntry(
        name=f"instructions/{name}",
        version="1",
        about=f"Short texts to be written, by the check {check} of IFEval and two words that must occur.",
        group="instructions",
        licence="MIT",
        grader="ifeval",
        columns=_COLUMNS,
        read=_read,
        make=partial(_draw, check),
        sizes=SIZES,
    )


ENTRIES: Final = (
    *(_open(check) for check in CHECKS),
    CatalogueEntry(
        name="instructions/all",
        version="1",
        about="Short texts to be written, by each of the 25 checks of IFEval in turn.",
        group="instructions",
        licence="MIT",
        grader="ifeval",
        columns=_COLUMNS,
        read=_read,
        make=_draw_all,
        sizes={"held_out": 100, "train": 200},
    ),
    CatalogueEntry(
        name="ifeval",
        version="1",
        about="541 prompts with instructions that a rule can look at.",
        group="instructions",
        licence="Apache-2.0",
        grader="ifeval",
        columns={"key": "of the prompt"} | _COLUMNS,
        read=_read,
        needs=FILE,
        origin=("google/IFEval", "default", "train"),
        synthetic=lambda count, seed: ({"key": n, **row} for n, row in enumerate(_draw_all("held_out", count, seed))),
    ),
)
