"""Questions answered in words, from a text or from what is known, whose rows come from files."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row, render
from apps.evals.catalogue.shapes import (
    MadeQuestion,
    from_file,
    make_numbers,
    make_pairs,
    make_questions,
    read_list,
    require_text,
)

_ASK: Final = "{question}\n\nAnswer with the words of the answer alone."
_READ: Final = "{context}\n\n{question}\n\nAnswer with words of the text, or a number, alone."
_READ_OR_NOT: Final = (
    "{context}\n\n{question}\n\nAnswer with words of the text alone, or with the word unanswerable if it does not say."
)
_DO: Final = "{question}\n\nThink about it as long as you want, then end with a line that holds the answer alone."
_open = partial(from_file, group="reading")
NONE: Final = "unanswerable"


def _ask(
    template: str, words: Mapping[str, str], answers: list[str], *, category: str = "", **more: Any
) -> CatalogueItem:
    kept = list(dict.fromkeys(str(one).strip() for one in answers if str(one).strip()))
    if not kept:
        raise ValueError("wanted an answer at least, found none")
    return CatalogueItem(prompt=render(template, words), reference=kept, category=category[:64], oracle=kept[0], **more)


def _read_squad(row: Row, *, template: str) -> CatalogueItem:
    texts = list(row["answers"]["text"])
    if not texts and template == _READ_OR_NOT:
        texts = [NONE]
    words = {"context": require_text(row, "context"), "question": require_text(row, "question")}
    return _ask(template, words, texts)


def _read_drop(row: Row) -> CatalogueItem:
    told = row.get("answers_spans")
    if told:
        texts = list(told["spans"])
    else:
        answer = row["answer"]
        date = answer.get("date") or {}
        day = " ".join(str(date[part]) for part in ("day", "month", "year") if date.get(part))
        texts = [answer.get("number") or day or " ".join(answer.get("spans") or ())]
    return _ask(_READ, {"context": require_text(row, "passage"), "question": require_text(row, "question")}, texts)


def _read_hotpot(row: Row) -> CatalogueItem:
    context = row["context"]
    pages = [
        f"{title}\n{''.join(sentences)}"
        for title, sentences in zip(context["title"], context["sentences"], strict=True)
    ]
    words = {"context": "\n\n".join(pages), "question": require_text(row, "question")}
    return _ask(_READ, words, [require_text(row, "answer")], category=str(row.get("type") or ""))


def _read_trivia(row: Row) -> CatalogueItem:
    answer = row["answer"]
    return _ask(_ASK, {"question": require_text(row, "question")}, [answer["value"], *answer.get("aliases", ())])


def _read_open(row: Row, *, question: str, answers: str) -> CatalogueItem:
    found = row[answers]
    texts = list(found) if isinstance(found, list | tuple) else [found]
    return _ask(_ASK, {"question": require_text(row, question)}, texts)


def _read_task(
    row: Row, *, question: str, answer: str, options: Mapping[str, Any], category: str = ""
) -> CatalogueItem:
    words = {"question": require_text(row, question)}
    return _ask(_DO, words, [str(row[answer])], category=str(row.get(category) or ""), options=options)


def _read_translation(row: Row, *, source: str, target: str, language: str) -> CatalogueItem:
    text = require_text(row, source)
    prompt = f"Translate into {language}. Answer with the translation alone.\n\n{text}"
    reference = require_text(row, target)
    return CatalogueItem(prompt=prompt, reference=reference, options={"floor": FLOOR}, oracle=reference)


FLOOR: Final = 0.35
"""A share of chrF below this is what any two texts have in common."""
_PAIRS: Final = (
    ("The {thing} was sold at the market in spring.", "Im Frühling wurde die Sache {thing} auf dem Markt verkauft."),
    (
        "Nobody knew how old the house near keeper {number} was.",
        "Wie alt das Haus beim Wärter {number} war, wusste keiner.",
    ),
    (
        "{number} visitors came although it rained all day.",
        "Obwohl es ganztags regnete, kamen {number} Besucher vorbei.",
    ),
    ("She wrote a long letter about {thing} {number}.", "Einen langen Brief über {thing} {number} hat sie verfasst."),
)


def _write_translation(count: int, seed: int, *, source: str, target: str) -> Iterator[Row]:
    for one in make_questions(count, seed):
        words, number = one.answer.split()
        for_source, for_target = _PAIRS[one.place % len(_PAIRS)]
        yield {
            "id": one.place,
            source: for_source.format(thing=words, number=number),
            target: for_target.format(thing=words, number=number),
        }


def _write_squad(one: MadeQuestion, *, may_lack: bool = False) -> Row:
    lacks = may_lack and one.place % 2
    answers: dict[str, list[Any]] = {"text": [], "answer_start": []}
    if not lacks:
        answers = {"text": [one.answer], "answer_start": [one.context.index(one.answer)]}
    context = one.context if not lacks else "On a cold day the keepers stayed at home."
    return {"id": str(one.place), "title": "made", "context": context, "question": one.question, "answers": answers}


def _translated(
    name: str, about: str, licence: str, origin: tuple[str, str, str], source: str, target: str, language: str
) -> CatalogueEntry:
    return _open(
        name,
        about,
        licence,
        origin,
        {source: "the text", target: "its translation"},
        partial(_read_translation, source=source, target=target, language=language),
        partial(_write_translation, source=source, target=target),
        grader="chrf",
        group="translation",
        shared=0.2,
    )


_SQUAD: Final = {"context": "the text", "question": "the question", "answers": "text, a list"}
_BBH: Final = {"of": "last_line", "punctuation": False}
_TASK: Final = {"input": "the task", "target": "what is right"}
ENTRIES: Final = (
    _open(
        "squad",
        "Questions on passages of Wikipedia.",
        "CC-BY-SA-4.0",
        ("rajpurkar/squad", "plain_text", "validation"),
        _SQUAD,
        partial(_read_squad, template=_READ),
        make_pairs(_write_squad),
        grader="f1",
        template=_READ,
    ),
    _open(
        "squad_v2",
        "The same, and questions that the passage does not answer.",
        "CC-BY-SA-4.0",
        ("rajpurkar/squad_v2", "squad_v2", "validation"),
        _SQUAD,
        partial(_read_squad, template=_READ_OR_NOT),
        make_pairs(partial(_write_squad, may_lack=True)),
        grader="f1",
        template=_READ_OR_NOT,
    ),
    _open(
        "drop",
        "Counting, comparing and adding up what a passage says.",
        "CC-BY-SA-4.0",
        ("ucinlp/drop", "default", "validation"),
        {"passage": "the text", "question": "the question", "answers_spans": "spans, a list"},
        _read_drop,
        make_numbers(
            lambda question, number, place: {
                "section_id": "made",
                "query_id": str(place),
                "passage": question,
                "question": "How many in both?",
                "answers_spans": {"spans": [str(number)], "types": ["number"]},
            }
        ),
        grader="f1",
        template=_READ,
    ),
    _open(
        "hotpotqa",
        "Questions whose answer takes two of ten pages.",
        "CC-BY-SA-4.0",
        ("hotpotqa/hotpot_qa", "distractor", "validation"),
        {"question": "the question", "answer": "what is right", "context": "title and sentences, lists"},
        _read_hotpot,
        make_pairs(
            lambda one: {
                "id": str(one.place),
                "question": one.question,
                "answer": one.answer,
                "type": "bridge",
                "level": "hard",
                "context": {"title": ["Keepers"], "sentences": [[one.context]]},
            }
        ),
        grader="f1",
        template=_READ,
    ),
    _open(
        "triviaqa",
        "Questions of quiz players.",
        "Apache-2.0",
        ("mandarjoshi/trivia_qa", "rc.nocontext", "validation"),
        {"question": "the question", "answer": "value and aliases"},
        _read_trivia,
        make_pairs(
            lambda one: {
                "question": one.question,
                "answer": {"value": one.answer, "aliases": [one.answer, f"a {one.answer}"]},
            }
        ),
        grader="em",
        template=_ASK,
    ),
    _open(
        "nq_open",
        "Questions that people asked a search engine.",
        "CC-BY-SA-3.0",
        ("google-research-datasets/nq_open", "nq_open", "validation"),
        {"question": "the question", "answer": "those that are right, a list"},
        partial(_read_open, question="question", answers="answer"),
        make_pairs(lambda one: {"question": one.question, "answer": [one.answer]}),
        grader="em",
        template=_ASK,
    ),
    _open(
        "web_questions",
        "Questions that Freebase answers.",
        "CC-BY-4.0",
        ("stanfordnlp/web_questions", "default", "test"),
        {"question": "the question", "answers": "those that are right, a list"},
        partial(_read_open, question="question", answers="answers"),
        make_pairs(lambda one: {"url": "", "question": one.question, "answers": [one.answer]}),
        grader="em",
        template=_ASK,
    ),
    _open(
        "popqa",
        "Facts about things of more and less fame.",
        "MIT",
        ("akariasai/PopQA", "default", "test"),
        {"question": "the question", "possible_answers": "those that are right, as JSON"},
        lambda row: _ask(_ASK, {"question": require_text(row, "question")}, read_list(row, "possible_answers")),
        make_pairs(lambda one: {"question": one.question, "possible_answers": f'["{one.answer}"]'}),
        grader="em",
        template=_ASK,
    ),
    _open(
        "bbh",
        "23 tasks that were hard for models once.",
        "MIT",
        ("lukaemon/bbh", "boolean_expressions", "test"),
        _TASK,
        partial(_read_task, question="input", answer="target", options=_BBH),
        make_pairs(lambda one: {"input": one.question, "target": one.answer}),
        grader="exact",
        template=_DO,
        group="reasoning",
    ),
    _open(
        "musique",
        "Questions of two to four steps over passages.",
        "CC-BY-4.0",
        ("dgslibisey/MuSiQue", "default", "validation"),
        {"question": "the question", "answer": "what is right", "paragraphs": "paragraph_text of each"},
        lambda row: _ask(
            _READ,
            {
                "context": "\n\n".join(str(one["paragraph_text"]) for one in row["paragraphs"]),
                "question": require_text(row, "question"),
            },
            [require_text(row, "answer"), *(row.get("answer_aliases") or ())],
        ),
        make_pairs(
            lambda one: {
                "id": str(one.place),
                "question": one.question,
                "answer": one.answer,
                "answer_aliases": [],
                "answerable": True,
                "paragraphs": [{"idx": 0, "title": "Keepers", "paragraph_text": one.context, "is_supporting": True}],
            }
        ),
        grader="f1",
        template=_READ,
    ),
    _translated(
        "flores_en_de",
        "Sentences of FLORES-200, English into German, by chrF.",
        "CC-BY-SA-4.0",
        ("facebook/flores", "eng_Latn-deu_Latn", "devtest"),
        "sentence_eng_Latn",
        "sentence_deu_Latn",
        "German",
    ),
    _translated(
        "flores_en_fr",
        "Sentences of FLORES-200, English into French, by chrF.",
        "CC-BY-SA-4.0",
        ("facebook/flores", "eng_Latn-fra_Latn", "devtest"),
        "sentence_eng_Latn",
        "sentence_fra_Latn",
        "French",
    ),
    _translated(
        "wmt24pp_en_de",
        "Texts of WMT 2024, English into German, by chrF.",
        "Apache-2.0",
        ("google/wmt24pp", "en-de_DE", "train"),
        "source",
        "target",
        "German",
    ),
)
