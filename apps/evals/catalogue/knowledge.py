"""Questions with choices, whose rows come from files as the public data sets have them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import re2

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row
from apps.evals.catalogue.shapes import (
    ASK_CHOICE,
    LETTERS,
    MadeQuestion,
    ask_choice,
    from_file,
    make_choices,
    make_questions,
    mix,
    read_index,
    read_letter,
    read_list,
    require_text,
)

_open = partial(from_file, group="knowledge", grader="choice", template=ASK_CHOICE)
_BRACKETS: Final = re2.compile(r"\[.*?\]")


def _read_labelled(row: Row, *, question: str) -> CatalogueItem:
    """Choices as {text: [...], label: [...]} with the label of the right one."""
    choices, key = row["choices"], str(row["answerKey"]).strip()
    labels, texts = [str(one) for one in choices["label"]], list(choices["text"])
    if key not in labels or len(labels) != len(texts):
        raise ValueError(f"answerKey: wanted one of {', '.join(labels)}, found {key!r:.40}")
    return ask_choice(require_text(row, question), texts, labels.index(key))


def _write_labelled(one: MadeQuestion, choices: list[str], right: int, *, question: str) -> Row:
    return {
        "id": f"made-{one.place}",
        question: one.question,
        "choices": {"text": choices, "label": list(LETTERS[: len(choices)])},
        "answerKey": LETTERS[right],
    }


def _read_listed(
    row: Row,
    *,
    question: str,
    choices: str,
    answer: str,
    by: Callable[[Row, str], int],
    category: str = "",
    before: str = "",
) -> CatalogueItem:
    """Choices as a list, with the number or the letter of the right one."""
    text = require_text(row, question)
    if before and str(row.get(before) or "").strip():
        text = f"{row[before]}\n\n{text}"
    return ask_choice(text, read_list(row, choices), by(row, answer), category=str(row.get(category) or ""))


def _write_listed(
    one: MadeQuestion,
    choices: list[str],
    right: int,
    *,
    names: tuple[str, str, str],
    letter: bool,
    more: Mapping[str, Any],
) -> Row:
    question, listed, answer = names
    told = LETTERS[right] if letter else right
    context = {name: one.context if value is Ellipsis else value for name, value in more.items()}
    return {question: one.question, listed: choices, answer: told, **context}


def _read_columns(
    row: Row,
    *,
    question: str,
    columns: tuple[str, ...],
    answer: str,
    by: Callable[[Row, str], int],
    first: int = 0,
    category: str = "",
    before: str = "",
) -> CatalogueItem:
    """Choices in columns of their own."""
    text = require_text(row, question)
    if before and str(row.get(before) or "").strip():
        text = f"{row[before]}\n\n{text}"
    choices = [str(row[one]) for one in columns]
    return ask_choice(text, choices, by(row, answer) - first, category=str(row.get(category) or ""))


def _write_columns(
    one: MadeQuestion,
    choices: list[str],
    right: int,
    *,
    question: str,
    columns: tuple[str, ...],
    answer: str,
    told: Callable[[int], Any],
    more: Mapping[str, Any],
) -> Row:
    if len(columns) < len(choices):  # a column less for each: the right one stays
        kept = [choice for place, choice in enumerate(choices) if place == right or place != (right + 1) % len(choices)]
        kept = kept if len(kept) == len(columns) else [choices[right], choices[(right + 1) % len(choices)]]
        right = kept.index(choices[right])
        choices = kept
    context = {name: one.context if value is Ellipsis else value for name, value in more.items()}
    return {question: one.question, **dict(zip(columns, choices, strict=True)), answer: told(right), **context}


def _read_hellaswag(row: Row) -> CatalogueItem:
    def clean(text: str) -> str:
        return str(_BRACKETS.sub("", text.replace(" [title]", ". "))).replace("  ", " ").strip()

    begun = f"{row['activity_label']}: {require_text(row, 'ctx')}"
    endings = [clean(str(one)) for one in read_list(row, "endings")]
    return ask_choice(f"How does this go on?\n\n{clean(begun)}", endings, read_index(row, "label"))


def _read_truthful(row: Row) -> CatalogueItem:
    told = row["mc1_targets"]
    right = [text for text, label in zip(told["choices"], told["labels"], strict=True) if label]
    if len(right) != 1:
        raise ValueError(f"mc1_targets: wanted one right choice, found {len(right)}")
    wrong = [text for text, label in zip(told["choices"], told["labels"], strict=True) if not label]
    question = require_text(row, "question")
    return ask_choice(question, *mix(right[0], wrong, by=question))


def _read_gpqa(row: Row) -> CatalogueItem:
    question = require_text(row, "Question")
    wrong = [require_text(row, f"Incorrect Answer {place}").strip() for place in (1, 2, 3)]
    choices = mix(require_text(row, "Correct Answer").strip(), wrong, by=question)
    return ask_choice(question, *choices, category=str(row.get("High-level domain") or ""))


def _read_sciq(row: Row) -> CatalogueItem:
    question = require_text(row, "question")
    wrong = [require_text(row, f"distractor{place}") for place in (1, 2, 3)]
    return ask_choice(question, *mix(require_text(row, "correct_answer"), wrong, by=question))


def _read_yes_no(row: Row) -> CatalogueItem:
    label = row["answer"] if "answer" in row else row["label"]
    if label not in (0, 1, True, False):
        raise ValueError(f"answer: wanted true or false, found {label!r:.80}")
    return ask_choice(f"{require_text(row, 'passage')}\n\n{require_text(row, 'question')}?", ["no", "yes"], int(label))


def _read_winogrande(row: Row) -> CatalogueItem:
    text = f"Which of the two belongs in the gap?\n\n{require_text(row, 'sentence')}"
    return ask_choice(text, [row["option1"], row["option2"]], read_index(row, "answer") - 1)


def _read_pubmed(row: Row) -> CatalogueItem:
    context = row["context"]
    texts = context["contexts"] if isinstance(context, Mapping) else [str(context)]
    decided = require_text(row, "final_decision")
    choices = ["yes", "no", "maybe"]
    if decided not in choices:
        raise ValueError(f"final_decision: wanted yes, no or maybe, found {decided!r:.40}")
    text = "\n\n".join([*map(str, texts), require_text(row, "question")])
    return ask_choice(text, choices, choices.index(decided))


def _write_two(count: int, seed: int, write: Callable[[MadeQuestion, bool], Row]) -> Iterator[Row]:
    return (write(one, bool((one.place + seed) % 2)) for one in make_questions(count, seed))


def _listed(
    name: str,
    about: str,
    licence: str,
    origin: tuple[str, str, str],
    names: tuple[str, str, str],
    *,
    letter: bool,
    category: str = "",
    before: str = "",
) -> CatalogueEntry:
    question, listed, answer = names
    by = read_letter if letter else read_index
    more = ({category: "made"} if category else {}) | ({before: Ellipsis} if before else {})
    columns = {
        question: "the question",
        listed: "its choices",
        answer: f"the {'letter' if letter else 'number'} of the right one",
    }
    return _open(
        name,
        about,
        licence,
        origin,
        columns | ({before: "what it is about"} if before else {}),
        partial(
            _read_listed, question=question, choices=listed, answer=answer, by=by, category=category, before=before
        ),
        make_choices(partial(_write_listed, names=names, letter=letter, more=more)),
    )


def _columned(
    name: str,
    about: str,
    licence: str,
    origin: tuple[str, str, str],
    question: str,
    columns: tuple[str, ...],
    answer: str,
    *,
    letter: bool,
    first: int = 0,
    category: str = "",
    before: str = "",
    as_text: bool = False,
) -> CatalogueEntry:
    by = read_letter if letter else read_index

    def tell(right: int) -> Any:
        told = LETTERS[right] if letter else right + first
        return str(told) if as_text else told

    more = ({category: "made"} if category else {}) | ({before: Ellipsis} if before else {})
    told = {question: "the question", **dict.fromkeys(columns, "a choice"), answer: "the right one"}
    return _open(
        name,
        about,
        licence,
        origin,
        told | ({before: "what it is about"} if before else {}),
        partial(
            _read_columns,
            question=question,
            columns=columns,
            answer=answer,
            by=by,
            first=first,
            category=category,
            before=before,
        ),
        make_choices(partial(_write_columns, question=question, columns=columns, answer=answer, told=tell, more=more)),
    )


_ARC: Final = {"question": "the question", "choices": "text and label, lists", "answerKey": "the right label"}
ENTRIES: Final = (
    _listed(
        "mmlu",
        "57 subjects of school and university.",
        "MIT",
        ("cais/mmlu", "all", "test"),
        ("question", "choices", "answer"),
        letter=False,
        category="subject",
    ),
    _listed(
        "mmlu_pro",
        "Harder questions of 14 subjects, with up to ten choices.",
        "MIT",
        ("TIGER-Lab/MMLU-Pro", "default", "test"),
        ("question", "options", "answer"),
        letter=True,
        category="category",
    ),
    _listed(
        "mmlu_redux",
        "MMLU, looked through for errors.",
        "CC-BY-4.0",
        ("edinburgh-dawg/mmlu-redux", "anatomy", "test"),
        ("question", "choices", "answer"),
        letter=False,
    ),
    _listed(
        "super_gpqa",
        "Questions of graduates in 285 disciplines.",
        "ODC-BY",
        ("m-a-p/SuperGPQA", "default", "train"),
        ("question", "options", "answer_letter"),
        letter=True,
        category="discipline",
    ),
    _listed(
        "race",
        "English exams: a text and a question on it.",
        "research only",
        ("EleutherAI/race", "high", "test"),
        ("question", "options", "answer"),
        letter=True,
        before="article",
    ),
    _listed(
        "musr",
        "Long stories that a few steps of reasoning solve.",
        "CC-BY-4.0",
        ("TAUR-Lab/MuSR", "default", "murder_mysteries"),
        ("question", "choices", "answer_index"),
        letter=False,
        before="narrative",
    ),
    _listed(
        "logiqa2",
        "Logic in exams of the civil service.",
        "CC-BY-NC-SA-4.0",
        ("baber/logiqa2", "logiqa2", "test"),
        ("question", "options", "answer"),
        letter=False,
        before="text",
    ),
    _columned(
        "medmcqa",
        "Entrance exams of medicine.",
        "Apache-2.0",
        ("openlifescienceai/medmcqa", "default", "validation"),
        "question",
        ("opa", "opb", "opc", "opd"),
        "cop",
        letter=False,
        category="subject_name",
    ),
    _columned(
        "medqa",
        "The United States' licensing exam of medicine.",
        "CC-BY-4.0",
        ("GBaker/MedQA-USMLE-4-options-hf", "default", "test"),
        "sent1",
        ("ending0", "ending1", "ending2", "ending3"),
        "label",
        letter=False,
    ),
    _columned(
        "ceval",
        "Chinese exams of 52 subjects.",
        "CC-BY-NC-SA-4.0",
        ("ceval/ceval-exam", "accountant", "val"),
        "question",
        ("A", "B", "C", "D"),
        "answer",
        letter=True,
    ),
    _columned(
        "cmmlu",
        "Chinese questions of 67 subjects.",
        "CC-BY-NC-4.0",
        ("haonan-li/cmmlu", "agronomy", "test"),
        "Question",
        ("A", "B", "C", "D"),
        "Answer",
        letter=True,
    ),
    _columned(
        "piqa",
        "Which of two ways to do something works.",
        "AFL-3.0",
        ("baber/piqa", "plain_text", "validation"),
        "goal",
        ("sol1", "sol2"),
        "label",
        letter=False,
    ),
    _columned(
        "social_iqa",
        "What people do and feel in everyday life.",
        "CC-BY-4.0",
        ("lighteval/siqa", "default", "validation"),
        "question",
        ("answerA", "answerB", "answerC"),
        "label",
        letter=False,
        first=1,
        as_text=True,
        before="context",
    ),
    _columned(
        "swag",
        "How a scene goes on.",
        "MIT",
        ("allenai/swag", "regular", "validation"),
        "startphrase",
        ("ending0", "ending1", "ending2", "ending3"),
        "label",
        letter=False,
    ),
    _open(
        "arc_easy",
        "Science at school, the easy part.",
        "CC-BY-SA-4.0",
        ("allenai/ai2_arc", "ARC-Easy", "test"),
        _ARC,
        partial(_read_labelled, question="question"),
        make_choices(partial(_write_labelled, question="question")),
    ),
    _open(
        "arc_challenge",
        "Science at school, the part that word counts do not solve.",
        "CC-BY-SA-4.0",
        ("allenai/ai2_arc", "ARC-Challenge", "test"),
        _ARC,
        partial(_read_labelled, question="question"),
        make_choices(partial(_write_labelled, question="question")),
    ),
    _open(
        "commonsense_qa",
        "What everybody knows.",
        "MIT",
        ("tau/commonsense_qa", "default", "validation"),
        _ARC,
        partial(_read_labelled, question="question"),
        make_choices(partial(_write_labelled, question="question")),
    ),
    _open(
        "openbookqa",
        "Elementary science, with what everybody knows.",
        "Apache-2.0",
        ("allenai/openbookqa", "main", "test"),
        {"question_stem": "the question", **{name: _ARC[name] for name in ("choices", "answerKey")}},
        partial(_read_labelled, question="question_stem"),
        make_choices(partial(_write_labelled, question="question_stem")),
    ),
    _open(
        "hellaswag",
        "How a story goes on.",
        "MIT",
        ("Rowan/hellaswag", "default", "validation"),
        {
            "activity_label": "what it is about",
            "ctx": "how it begins",
            "endings": "four endings",
            "label": "the number of the right one",
        },
        _read_hellaswag,
        make_choices(
            lambda one, choices, right: {
                "activity_label": "Finding things",
                "ctx": one.question,
                "endings": choices,
                "label": str(right),
            }
        ),
    ),
    _open(
        "truthfulqa",
        "What many people believe and is wrong.",
        "Apache-2.0",
        ("truthfulqa/truthful_qa", "multiple_choice", "validation"),
        {"question": "the question", "mc1_targets": "choices and labels, lists"},
        _read_truthful,
        make_choices(
            lambda one, choices, right: {
                "question": one.question,
                "mc1_targets": {
                    "choices": [choices[right], *(c for c in choices if c != choices[right])],
                    "labels": [1, 0, 0, 0],
                },
            }
        ),
    ),
    _open(
        "gpqa_diamond",
        "Questions of doctors of science that a search does not answer.",
        "CC-BY-4.0",
        ("Idavidrein/gpqa", "gpqa_diamond", "train"),
        {
            "Question": "the question",
            "Correct Answer": "the right answer",
            **{f"Incorrect Answer {n}": "a wrong one" for n in (1, 2, 3)},
        },
        _read_gpqa,
        make_choices(
            lambda one, choices, right: {
                "Question": one.question,
                "Correct Answer": one.answer,
                **{f"Incorrect Answer {n}": wrong for n, wrong in enumerate(one.wrong, start=1)},
            }
        ),
    ),
    _open(
        "sciq",
        "Exams of science.",
        "CC-BY-NC-3.0",
        ("allenai/sciq", "default", "test"),
        {
            "question": "the question",
            "correct_answer": "the right answer",
            **{f"distractor{n}": "a wrong one" for n in (1, 2, 3)},
        },
        _read_sciq,
        make_choices(
            lambda one, choices, right: {
                "question": one.question,
                "correct_answer": one.answer,
                "support": "",
                **{f"distractor{n}": wrong for n, wrong in enumerate(one.wrong, start=1)},
            }
        ),
    ),
    _open(
        "boolq",
        "Questions people asked, answered by yes or no from a text.",
        "CC-BY-SA-3.0",
        ("google/boolq", "default", "validation"),
        {"question": "the question", "passage": "the text", "answer": "true or false"},
        _read_yes_no,
        partial(
            _write_two,
            write=lambda one, right: {
                "question": f"did keeper {one.place} find {one.answer if right else one.wrong[0]}",
                "passage": one.context,
                "answer": right,
            },
        ),
    ),
    _open(
        "winogrande",
        "What a gap in a sentence stands for.",
        "Apache-2.0",
        ("allenai/winogrande", "winogrande_xl", "validation"),
        {"sentence": "with a gap", "option1": "a choice", "option2": "a choice", "answer": "1 or 2"},
        _read_winogrande,
        partial(
            _write_two,
            write=lambda one, right: {
                "sentence": f"{one.context} They kept the _ {one.place}.",
                "option1": one.wrong[0] if right else one.answer,
                "option2": one.answer if right else one.wrong[0],
                "answer": "2" if right else "1",
            },
        ),
    ),
    _open(
        "pubmedqa",
        "Questions of medicine, answered from an abstract.",
        "MIT",
        ("qiaojin/PubMedQA", "pqa_labeled", "train"),
        {"question": "the question", "context": "contexts, a list", "final_decision": "yes, no or maybe"},
        _read_pubmed,
        partial(
            _write_two,
            write=lambda one, right: {
                "question": f"Is it {one.answer if right else one.wrong[0]}?",
                "context": {"contexts": [one.context]},
                "final_decision": "yes" if right else "no",
            },
        ),
    ),
)
