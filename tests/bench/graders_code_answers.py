"""Answers to try the checks of instructions on: pieces that are odd each in its way, put together by chance."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

PIECES: Final = (
    "The meeting was moved to Friday. Nobody minded!",
    "Dr. Smith paid $3.50 to Mr. Jones at 5 p.m. on Jan. 5.",
    "It was late... Was it? \"Yes,\" she said. 'No.' He left.",
    "We cannot go. I'm gonna stay, 'tis late; gimme that.",
    "THIS IS VERY LOUD AND IT'S JOHN'S FAULT.",
    "U.S. SALES ROSE, R&D FELL: A/B-TEST (ONE OF TWO)!",
    "NASA and IBM.",
    "She said \"STOP!\" and 'GO'. O'NEIL CAN'T. WE'LL SEE--MAYBE.",
    "Ａ ＷＩＤＥ ＴＥＸＴ. Straße, naïve café, ΛΟΓΟΣ, İstanbul.",
    "* first point",
    "- second point",
    "*",
    "  * indented",
    "** not a point",
    "*no blank",
    "-",
    "\t- tab",
    "1. numbered",
    "*emphasis*",
    "**strong**",
    "***",
    " *** ",
    "******",
    "*a* *b* *c*",
    "**a**b**",
    "****",
    "*open",
    "***both***",
    "* *",
    "<<A title>>",
    "<< >>",
    "<<<>>>",
    "a <<b>> <<c>>",
    "<<open",
    "[address]",
    "[a] [b]",
    "[]",
    "[open",
    "]closed[",
    "[a\nb]",
    "P.S. Write soon.",
    "p. s. lower",
    "P.P.S more",
    "P. P. S. even more",
    "p.p.s",
    "PS: no points",
    "Section 1",
    "SECTION 2\nmore",
    "Section3",
    "Section  4",
    "Section Five",
    "Day 1 and Day 2",
    "My answer is yes.",
    "my answer is no.",
    "My answer is maybe",
    '{"a": [1, 2]}',
    '```json\n{"a": 1}\n```',
    "```\n[]\n```",
    "{'a': 1}",
    '"quoted"',
    '"',
    "Is there anything else I can help with?",
    "Any other questions?",
    "any other questions",
    "Write a poem about rain.",
    "write a poem about RAIN. Here it is:",
    "rain",
    "Rainy rain, raining",
    "RAIN",
    "brain-rain",
    "one two three four five six seven eight nine ten",
    "a,b,c",
    "x_y x-y x'y",
    "100,000.5 3:30",
    "é",
    "\u00a0",
    "…",
    "—dash—",
    "hello hello Hello",
    "xylophone zebra",
    "!!!",
    "@home #tag 50% off & more;",
    "e.g. this, i.e. that, etc. Then it ended.",
    "'Hello there' is first.",
    '"Rain" comes first.',
    "rain, and more",
    "NaN",
    "true",
    "",
    "   ",
)
JOINTS: Final = ("\n\n", "\n", " ", "\n\n\n", "\n\n \n\n", "", "\n***\n", "\n******\n", "***", "\r\n", ". ")
LANGUAGES: Final[Mapping[str, Sequence[str]]] = {
    "en": (
        "The committee will meet again next week to discuss the budget.",
        "Most people enjoy a quiet walk in the evening.",
    ),
    "de": (
        "Der Ausschuss trifft sich nächste Woche wieder, um den Haushalt zu besprechen.",
        "Die meisten gehen gern spazieren.",
    ),
    "fr": (
        "Le comité se réunira la semaine prochaine pour discuter du budget.",
        "La plupart des gens aiment se promener le soir.",
    ),
    "es": (
        "El comité se reunirá la próxima semana para hablar del presupuesto.",
        "A casi todos les gusta pasear por la tarde.",
    ),
    "it": (
        "Il comitato si riunirà la prossima settimana per discutere il bilancio.",
        "A molti piace passeggiare la sera.",
    ),
    "pt": (
        "O comitê vai se reunir na próxima semana para discutir o orçamento.",
        "Muitas pessoas gostam de caminhar à noite.",
    ),
    "ru": ("Комитет соберётся на следующей неделе, чтобы обсудить бюджет.", "Многие люди любят гулять по вечерам."),
    "ja": ("委員会は来週また集まって予算について話し合います。", "多くの人は夕方の静かな散歩が好きです。"),
    "ko": ("위원회는 다음 주에 다시 모여 예산을 논의할 것입니다.", "많은 사람들이 저녁 산책을 좋아합니다."),
    "ar": ("ستجتمع اللجنة مرة أخرى الأسبوع المقبل لمناقشة الميزانية.", "يحب معظم الناس المشي في المساء."),
    "hi": ("समिति बजट पर चर्चा करने के लिए अगले सप्ताह फिर मिलेगी।", "ज़्यादातर लोग शाम को टहलना पसंद करते हैं।"),
    "fi": (
        "Valiokunta kokoontuu ensi viikolla uudelleen keskustelemaan talousarviosta.",
        "Useimmat kävelevät mielellään.",
    ),
    "vi": ("Ủy ban sẽ họp lại vào tuần tới để thảo luận về ngân sách.", "Hầu hết mọi người thích đi dạo vào buổi tối."),
}

Draw = Callable[[random.Random], Mapping[str, Any]]


def _relation(rng: random.Random) -> str:
    return rng.choice(("less than", "at least"))


ARGUMENTS: Final[Mapping[str, Draw]] = {
    "keywords:existence": lambda rng: {"keywords": rng.sample(("rain", "hello", "x_y", "Straße", "three four"), 2)},
    "keywords:frequency": lambda rng: {
        "keyword": rng.choice(("rain", " a ", "hello", "o")),
        "frequency": rng.randint(1, 6),
        "relation": _relation(rng),
    },
    "keywords:forbidden_words": lambda rng: {
        "forbidden_words": rng.sample(("rain", "a", "x", "hello", "OF", "b-t"), 2)
    },
    "keywords:letter_frequency": lambda rng: {
        "letter": rng.choice("aexZ"),
        "let_frequency": rng.randint(1, 12),
        "let_relation": _relation(rng),
    },
    "language:response_language": lambda rng: {"language": rng.choice(list(LANGUAGES))},
    "length_constraints:number_sentences": lambda rng: {
        "num_sentences": rng.randint(1, 12),
        "relation": _relation(rng),
    },
    "length_constraints:number_paragraphs": lambda rng: {"num_paragraphs": rng.randint(1, 4)},
    "length_constraints:number_words": lambda rng: {"num_words": rng.randint(1, 60), "relation": _relation(rng)},
    "length_constraints:nth_paragraph_first_word": lambda rng: {
        "num_paragraphs": (most := rng.randint(1, 4)),
        "nth_paragraph": rng.randint(1, most),
        "first_word": rng.choice(("the", "Rain", "hello", "*", "one")),
    },
    "detectable_content:number_placeholders": lambda rng: {"num_placeholders": rng.randint(1, 3)},
    "detectable_content:postscript": lambda rng: {"postscript_marker": rng.choice(("P.S.", "P.P.S", "P.S."))},
    "detectable_format:number_bullet_lists": lambda rng: {"num_bullets": rng.randint(1, 4)},
    "detectable_format:constrained_response": lambda rng: {},
    "detectable_format:number_highlighted_sections": lambda rng: {"num_highlights": rng.randint(1, 5)},
    "detectable_format:multiple_sections": lambda rng: {
        "section_spliter": rng.choice(("Section", "SECTION", "Day", "Section ")),
        "num_sections": rng.randint(1, 3),
    },
    "detectable_format:json_format": lambda rng: {},
    "detectable_format:title": lambda rng: {},
    "combination:two_responses": lambda rng: {},
    "combination:repeat_prompt": lambda rng: {
        "prompt_to_repeat": rng.choice(("Write a poem about rain.", "rain", "The "))
    },
    "startend:end_checker": lambda rng: {"end_phrase": rng.choice(("Any other questions?", "more", "5.", "rain"))},
    "startend:quotation": lambda rng: {},
    "change_case:capital_word_frequency": lambda rng: {
        "capital_frequency": rng.randint(1, 25),
        "capital_relation": _relation(rng),
    },
    "change_case:english_capital": lambda rng: {},
    "change_case:english_lowercase": lambda rng: {},
    "punctuation:no_comma": lambda rng: {},
}
ABOUT_LANGUAGE: Final = ("language:response_language", "change_case:english_capital", "change_case:english_lowercase")
FAVOURED: Final[Mapping[str, Sequence[str]]] = {
    "existence": (
        "rain",
        "RAIN hello",
        "x_y x-y x'y Straße",
        "hello hello Hello",
        "one two three four",
        "STRASSE straße",
    ),
    "multiple_sections": (
        "Section 1",
        "SECTION 2\nmore",
        "Section3",
        "Section  4",
        "Day 1 and Day 2",
        "Section 1Section 2",
    ),
    "number_highlighted_sections": tuple(one for one in PIECES if "*" in one),
    "number_placeholders": tuple(one for one in PIECES if "[" in one),
    "title": tuple(one for one in PIECES if "<" in one),
    "postscript": tuple(one for one in PIECES if one.lower().startswith("p")),
    "constrained_response": tuple(one for one in PIECES if "answer is" in one),
    "number_bullet_lists": tuple(one for one in PIECES if one.lstrip()[:1] in "*-"),
    "nth_paragraph_first_word": (
        "rain, and more",
        "'Hello there' is first.",
        '"Rain" comes first.',
        "one two",
        "The end",
    ),
}
_FIT: Final[Mapping[str, Sequence[str]]] = {
    "number_paragraphs": ("\n***\n", "***"),
    "two_responses": ("\n******\n", "******"),
    "number_bullet_lists": ("\n", "\n\n"),
    "nth_paragraph_first_word": ("\n\n", "\n\n\n\n"),
}


def draw_answer(rng: random.Random, name: str) -> str:
    """One that a check has something to say about now and then."""
    short = name.partition(":")[2]
    if name in ABOUT_LANGUAGE:
        text = " ".join(rng.choices(LANGUAGES[rng.choice(list(LANGUAGES))], k=rng.randint(1, 3)))
        return rng.choice((text, text.upper(), text.lower(), rng.choice(PIECES)))
    if short == "json_format" and rng.random() < 0.7:
        return (
            rng.choice(("", " \n"))
            + rng.choice([one for one in PIECES if one[:1] in '{[`"NtT'])
            + rng.choice(("", "\n"))
        )
    count = rng.choice((1, 1, 2, 3, 4, 6, 9))
    joints = _FIT.get(short, JOINTS) if rng.random() < 0.6 else JOINTS
    pieces = FAVOURED.get(short, PIECES) if rng.random() < 0.7 else PIECES
    text = rng.choice(pieces)
    for _ in range(count - 1):
        text += rng.choice(joints) + rng.choice(pieces)
    if short == "quotation" and rng.random() < 0.5:
        text = f'"{text}"'
    if short in {"end_checker", "repeat_prompt"} and rng.random() < 0.4:
        first, last = (
            rng.choice(("Write a poem about rain.", "rain", " ")),
            rng.choice(("Any other questions?", "rain", "5.")),
        )
        text = f"{first} {text} {last}"
    return text


def find_language(answer: str) -> str:
    """What it was written in; "" where it is no text of one language."""
    folded = answer.lower()
    return next((code for code, texts in LANGUAGES.items() if any(one.lower() in folded for one in texts)), "")


def draw_rows(count: int, seed: int) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """So many of each check: name, arguments, answer. Answers are none twice."""
    rng = random.Random(seed)
    for name, draw in ARGUMENTS.items():
        seen = set[str]()
        while len(seen) < count:
            arguments, answer = draw(rng), draw_answer(rng, name)
            key = f"{arguments} {answer}"
            if key not in seen:
                seen.add(key)
                yield name, arguments, answer
