"""Questions on pictures, whose rows come from files as the public data sets have them: bytes stay in Arrow columns."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import re2

from apps.evals.catalogue import CatalogueItem, Row
from apps.evals.catalogue.shapes import (
    ASK_CHOICE,
    LETTERS,
    MadeQuestion,
    ask_choice,
    from_file,
    make_choices,
    make_numbers,
    make_pairs,
    make_questions,
    read_index,
    read_letter,
    read_list,
    require_text,
)
from tentalis.core.graders.places import Mask

_ALONE: Final = "{question}\n\nAnswer with a word, a number or a short phrase alone."
_open = partial(from_file, group="pictures", grader="em", template=_ALONE, needs=frozenset({"pictures"}))
_SHOWN: Final = re2.compile(r"<image (\d)>")
_SOLVE: Final = "{question}\n\nReason step by step, then give your final answer in \\boxed{}."


def paint(red: int, green: int, blue: int, *, side: int = 8) -> bytes:
    """A PNG of one colour."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((red, green, blue)) * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def _show(one: int) -> dict[str, Any]:
    return {"bytes": paint(one * 7 % 256, one * 31 % 256, one * 53 % 256), "path": f"{one}.png"}


def _alone(question: str, answers: list[str], pictures: tuple[str, ...], *, category: str = "") -> CatalogueItem:
    kept = list(dict.fromkeys(one.strip() for one in answers if one.strip()))
    if not kept:
        raise ValueError("wanted an answer at least, found none")
    return CatalogueItem(
        prompt=_ALONE.replace("{question}", question),
        reference=kept,
        category=category[:64],
        oracle=kept[0],
        pictures=pictures,
    )


def _read_mmmu(row: Row) -> CatalogueItem:
    question, options = require_text(row, "question"), row["options"]
    texts = read_list(row, "options") if str(options).strip() not in {"", "[]"} else []
    told = " ".join([question, *map(str, texts)])
    shown = sorted({f"image_{number}" for number in _SHOWN.findall(told)}) or ["image_1"]
    pictures = tuple(name for name in shown if row.get(name) is not None)
    category = str(row.get("subfield") or "")
    if not texts:
        return replace(_alone(question, _list_texts(row["answer"]), pictures, category=category), grader="em")
    answer = str(row["answer"]).strip()
    if len(answer) != 1 or answer not in LETTERS:
        raise ValueError(f"answer: wanted a letter, found {answer!r:.40}")
    return ask_choice(question, texts, LETTERS.index(answer), category=category, pictures=pictures)


def _list_texts(found: Any) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list | tuple) else [str(found)]


def _read_math_vista(row: Row) -> CatalogueItem:
    question, answer = require_text(row, "question"), str(row["answer"]).strip()
    category = str((row.get("metadata") or {}).get("task") or "")
    if row["question_type"] == "multi_choice":
        choices = [str(one) for one in row["choices"]]
        if answer not in choices:
            raise ValueError(f"answer: wanted one of the choices, found {answer!r:.80}")
        return ask_choice(question, choices, choices.index(answer), category=category, pictures=("decoded_image",))
    item = _alone(question, [answer], ("decoded_image",), category=category)
    if row.get("answer_type") in {"integer", "float"}:
        float(answer)
        decimals = int(row.get("precision") or 0) if row["answer_type"] == "float" else 0
        tolerance = 0.5 * 10**-decimals if row["answer_type"] == "float" else 0
        return replace(item, grader="number", reference=answer, options={"tolerance": tolerance})
    return replace(item, grader="em")


def _read_math_vision(row: Row) -> CatalogueItem:
    question, answer = require_text(row, "question"), require_text(row, "answer")
    told = {"category": str(row.get("subject") or ""), "pictures": ("decoded_image",)}
    if options := [str(one) for one in row.get("options") or ()]:
        return ask_choice(question, options, read_letter(row, "answer"), **told)  # type: ignore[arg-type]
    return CatalogueItem(
        prompt=_SOLVE.replace("{question}", question), reference=answer, grader="math", oracle=f"\\boxed{{{answer}}}",
        **told,  # type: ignore[arg-type]
    )  # fmt: skip


def _read_ai2d(row: Row) -> CatalogueItem:
    right = read_index(row, "answer")
    return ask_choice(require_text(row, "question"), read_list(row, "options"), right, pictures=("image",))


def _read_chart(row: Row) -> CatalogueItem:
    """Numbers may be off by a twentieth, as is usual there."""
    texts = _list_texts(row["label"])
    item = _alone(require_text(row, "query"), texts, ("image",))
    number = texts[0].strip().replace(",", "").removesuffix("%")
    try:
        float(number)
    except ValueError:
        return item
    return replace(item, grader="number", reference=number, options={"relative": 0.05}, oracle=number)


def _read_answers(row: Row, *, answers: str) -> CatalogueItem:
    return _alone(
        require_text(row, "question"), _list_texts(row[answers]), ("image",), category=str(row.get("dataset") or "")
    )


def _read_star(row: Row) -> CatalogueItem:
    """Choices stand in the question already."""
    answer = str(row["answer"]).strip()
    if len(answer) != 1 or answer not in LETTERS[:8]:
        raise ValueError(f"answer: wanted a letter, found {answer!r:.40}")
    prompt = f'{require_text(row, "question")}\n\nEnd with a line "Answer: X", X being the letter of your choice.'
    return CatalogueItem(
        prompt=prompt,
        reference=answer,
        category=str(row.get("category") or ""),
        oracle=f"Answer: {answer}",
        pictures=("image",),
    )


def _read_box(row: Row) -> CatalogueItem:
    told = row["answer"]
    said = str(told[0]) if isinstance(told, list) else str(told)
    box = [float(one) for one in row["bbox"]]
    if len(box) != 4:
        raise ValueError(f"bbox: wanted four numbers, found {len(box)}")
    prompt = f"Where in the picture is this: {said}? Answer with its box in pixels as [x, y, width, height]."
    return CatalogueItem(
        prompt=prompt,
        reference=box,
        options={"form": "xywh"},
        oracle=str([round(one, 2) for one in box]),
        pictures=("image",),
    )


def _read_point(row: Row) -> CatalogueItem:
    told, flat = row["answer"], [float(one) for one in row["segmentation"]]
    said = str(told[0]) if isinstance(told, list) else str(told)
    if len(flat) < 6 or len(flat) % 2:
        raise ValueError(f"segmentation: wanted the corners of a polygon, found {len(flat)} numbers")
    corners = [list(one) for one in zip(flat[::2], flat[1::2], strict=True)]
    prompt = f"Point at this in the picture: {said}. Answer with one point in pixels as (x, y)."
    return CatalogueItem(
        prompt=prompt, reference={"polygon": corners}, pictures=("image",), oracle=_find_inside(corners)
    )


def _find_inside(corners: list[list[float]]) -> str | None:
    """The middle of a polygon, where it lies inside; of one with a bay, None."""
    x, y = (sum(one[axis] for one in corners) / len(corners) for axis in (0, 1))
    return f"({x:.2f}, {y:.2f})" if Mask({"polygon": corners}).holds(x, y) else None


def _read_geometry(row: Row) -> CatalogueItem:
    question = require_text(row, "problem").replace("<image>", "").strip()
    answer = require_text(row, "answer")
    return CatalogueItem(
        prompt=_SOLVE.replace("{question}", question),
        reference=answer,
        oracle=f"\\boxed{{{answer}}}",
        pictures=("images",),
    )


def _write_boxes(count: int, seed: int) -> Iterator[Row]:
    for one in make_questions(count, seed):
        x, y = 10.0 + 40 * (one.place % 5), 10.0 + 40 * (one.place // 5)
        yield {
            "question_id": str(one.place),
            "image": _show(one.place),
            "question": "Please locate it.",
            "answer": [f"the {one.answer}"],
            "bbox": [x, y, 30.0, 20.0],
            "segmentation": [x, y, x + 30, y, x + 30, y + 20, x, y + 20],
        }


_IMAGE: Final = {"image": "a picture"}
_BOXED: Final = {**_IMAGE, "answer": "what is meant, a list"}


def _write_answers(one: MadeQuestion, *, answers: str) -> Row:
    return {"image": _show(one.place), "question": one.question, answers: [one.answer], "dataset": "made"}


ENTRIES: Final = (
    _open(
        "mmmu",
        "Questions of university on pictures, 30 subjects.",
        "Apache-2.0",
        ("MMMU/MMMU", "Accounting", "validation"),
        {
            "question": "the question",
            "options": "choices, a list as text",
            "answer": "a letter, or words",
            "image_1": "a picture",
        },
        _read_mmmu,
        make_choices(
            lambda one, choices, right: {
                "id": str(one.place),
                "question": f"<image 1> {one.question}",
                "options": str(choices),
                "answer": LETTERS[right],
                "question_type": "multiple-choice",
                "image_1": _show(one.place),
                "subfield": "made",
            }
        ),
        grader="choice",
        template=ASK_CHOICE,
    ),
    _open(
        "math_vista",
        "Mathematics on pictures.",
        "CC-BY-SA-4.0",
        ("AI4Math/MathVista", "default", "testmini"),
        {
            "question": "the question",
            "decoded_image": "a picture",
            "answer": "what is right",
            "question_type": "multi_choice or free_form",
        },
        _read_math_vista,
        make_numbers(
            lambda text, number, place: {
                "pid": str(place),
                "question": text,
                "decoded_image": _show(place),
                "choices": None,
                "answer": str(number),
                "question_type": "free_form",
                "answer_type": "integer",
                "precision": None,
                "metadata": {"task": "made"},
            }
        ),
    ),
    _open(
        "math_vision",
        "Mathematics of competitions on pictures.",
        "MIT",
        ("MathLLMs/MathVision", "default", "testmini"),
        {
            "question": "the question",
            "decoded_image": "a picture",
            "answer": "a letter, or what is right",
            "options": "choices, a list or empty",
        },
        _read_math_vision,
        make_choices(
            lambda one, choices, right: {
                "id": str(one.place),
                "question": one.question,
                "options": choices,
                "decoded_image": _show(one.place),
                "answer": LETTERS[right],
                "level": 1,
                "subject": "made",
            }
        ),
        grader="choice",
        template=ASK_CHOICE,
    ),
    _open(
        "ai2d",
        "Diagrams of science at school.",
        "CC-BY-SA-4.0",
        ("lmms-lab/ai2d", "default", "test"),
        {"question": "the question", "options": "choices, a list", "answer": "the number of the right one", **_IMAGE},
        _read_ai2d,
        make_choices(
            lambda one, choices, right: {
                "question": one.question,
                "options": choices,
                "answer": str(right),
                "image": _show(one.place),
            }
        ),
        grader="choice",
        template=ASK_CHOICE,
    ),
    _open(
        "chart_qa",
        "Questions on charts; numbers may be off by a twentieth.",
        "GPL-3.0",
        ("HuggingFaceM4/ChartQA", "default", "test"),
        {"query": "the question", "label": "what is right, a list", **_IMAGE},
        _read_chart,
        make_pairs(
            lambda one: {"image": _show(one.place), "query": one.question, "label": [one.answer], "human_or_machine": 0}
        ),
    ),
    _open(
        "doc_vqa",
        "Questions on scanned documents, word for word.",
        "research only",
        ("lmms-lab/DocVQA", "DocVQA", "validation"),
        {"question": "the question", "answers": "those that are right, a list", **_IMAGE},
        partial(_read_answers, answers="answers"),
        make_pairs(partial(_write_answers, answers="answers")),
    ),
    _open(
        "text_vqa",
        "Questions on text in photographs.",
        "CC-BY-4.0",
        ("lmms-lab/textvqa", "default", "validation"),
        {"question": "the question", "answers": "of ten people, a list", **_IMAGE},
        partial(_read_answers, answers="answers"),
        make_pairs(partial(_write_answers, answers="answers")),
    ),
    _open(
        "ocr_bench",
        "Text in pictures, read and understood.",
        "MIT",
        ("echo840/OCRBench", "default", "test"),
        {"question": "the question", "answer": "those that are right, a list", **_IMAGE},
        partial(_read_answers, answers="answer"),
        make_pairs(partial(_write_answers, answers="answer")),
    ),
    _open(
        "real_world_qa",
        "Photographs, many out of cars.",
        "CC-BY-ND-4.0",
        ("xai-org/RealworldQA", "default", "test"),
        {"question": "the question", "answer": "what is right", **_IMAGE},
        partial(_read_answers, answers="answer"),
        make_pairs(lambda one: {"image": _show(one.place), "question": one.question, "answer": one.answer}),
    ),
    _open(
        "mm_star",
        "Questions that the picture is needed for.",
        "research only",
        ("Lin-Chen/MMStar", "val", "val"),
        {"question": "the question with its choices", "answer": "the right letter", **_IMAGE},
        _read_star,
        make_choices(
            lambda one, choices, right: {
                "index": one.place,
                "question": f"{one.question} "
                + " ".join(f"{LETTERS[n]}: {choice}" for n, choice in enumerate(choices)),
                "image": _show(one.place),
                "answer": LETTERS[right],
                "category": "made",
            }
        ),
        grader="choice",
    ),
    _open(
        "ref_coco",
        "Where something is in a photograph, by its box.",
        "Apache-2.0",
        ("lmms-lab/RefCOCO", "default", "val"),
        {**_BOXED, "bbox": "x, y, width and height"},
        _read_box,
        _write_boxes,
        grader="iou",
    ),
    _open(
        "ref_coco_points",
        "The same, by a point that must lie on it.",
        "Apache-2.0",
        ("lmms-lab/RefCOCO", "default", "val"),
        {**_BOXED, "segmentation": "corners, x and y by turns"},
        _read_point,
        _write_boxes,
        grader="point_in_mask",
    ),
    _open(
        "geometry3k",
        "Geometry with its figure.",
        "MIT",
        ("hiyouga/geometry3k", "default", "test"),
        {"images": "pictures, a list", "problem": "the problem", "answer": "what is right"},
        _read_geometry,
        make_numbers(
            lambda text, number, place: {"images": [_show(place)], "problem": f"<image>{text}", "answer": str(number)}
        ),
        grader="math",
        template=_SOLVE,
    ),
)
