"""Places in pictures: boxes and points."""

from collections.abc import Mapping
from typing import Any, Final

import re2

from tentalis.core.graders.places import Box, Mask, find_iou, read_box
from tentalis.core.graders.reading import find_json, is_number, read_flag, read_least, read_number, read_word
from tentalis.core.grading import Grade, GradedTask, Grader, decide_grade
from tentalis.core.scoring.protocol import AttemptContext

FORMS: Final = ("xyxy", "xywh")
MOST_POINTS: Final = 256
LEAST_IOU: Final = 0.5
_NUMBER: Final = r"(-?\d{1,9}(?:\.\d{1,12})?)"
_FOUR: Final = re2.compile(rf"[\[(<{{]\s*{_NUMBER}\s*,\s*{_NUMBER}\s*,\s*{_NUMBER}\s*,\s*{_NUMBER}\s*[\])>}}]")
_TWO: Final = re2.compile(rf"[\[(<{{]\s*{_NUMBER}\s*,\s*{_NUMBER}\s*[\])>}}]")
_TAGGED: Final = re2.compile(
    rf"""(?i)\bx\d{{0,3}}["']?\s*[=:]\s*["']?\s*{_NUMBER}["']?[\s,;]+["']?y\d{{0,3}}["']?\s*[=:]\s*["']?\s*{_NUMBER}"""
)
_BARE: Final = re2.compile(rf"{_NUMBER}\s*,\s*{_NUMBER}")


def check_iou(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    _read_reference(reference, read_word(options, "form", FORMS))
    read_least(options, LEAST_IOU)


def grade_iou(task: GradedTask, episode: AttemptContext) -> Grade:
    """Intersection over union of the one box that the answer names; right from `least` on."""
    form = read_word(task.options, "form", FORMS)
    boxes = find_boxes(episode.answer or "", form)
    if len(boxes) != 1:
        return decide_grade(correct=False, boxes=len(boxes))
    iou = find_iou(boxes[0], _read_reference(task.reference, form))
    correct = iou >= read_least(task.options, LEAST_IOU)
    return Grade(value=iou, correct=correct, signals={"iou": iou}, evidence={"boxes": 1})


def _read_reference(reference: Any, form: str) -> Box:
    if not isinstance(reference, list) or len(reference) != 4 or not all(map(is_number, reference)):
        raise ValueError(f"reference: wanted the four numbers of a box, found {reference!r:.120}")
    return read_box(reference, form)


def find_boxes(answer: str, form: str) -> list[Box]:
    """The boxes that an answer names, each once: four numbers in brackets, or JSON."""
    quads = [[float(side) for side in found] for found in _FOUR.findall(answer)]
    if not quads:
        try:
            value = find_json(answer)
        except ValueError:
            return []
        if isinstance(value, dict):
            value = next((value[name] for name in ("bbox", "bbox_2d", "box") if name in value), list(value.values()))
        quads = [value] if isinstance(value, list) and len(value) == 4 and all(map(is_number, value)) else []
    boxes = []
    for quad in quads:
        try:
            boxes.append(read_box(quad, form))
        except ValueError:
            return []
    return list(dict.fromkeys(boxes))


# --- points


def check_points(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    Mask(reference)
    for name in ("width", "height"):
        read_number(options, name, 1, least=1e-6, most=1e6)
    read_flag(options, "several", default=False)


def grade_points(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where its point lies within the mask; of several points, where these are asked for, the share that does."""
    points = find_points(episode.answer or "")
    several = read_flag(task.options, "several", default=False)
    if not points or len(points) > MOST_POINTS or (len(points) > 1 and not several):
        return decide_grade(correct=False, points=len(points))
    mask = Mask(task.reference)
    width = read_number(task.options, "width", 1, least=1e-6, most=1e6)
    height = read_number(task.options, "height", 1, least=1e-6, most=1e6)
    inside = sum(mask.holds(x * width, y * height) for x, y in points)
    share = inside / len(points)
    return Grade(value=share, signals={"inside": inside, "points": len(points)})


def find_points(answer: str) -> list[tuple[float, float]]:
    """The points that an answer names, each once: x="1" y="2", {"x": 1, "y": 2}, (1, 2), or two numbers alone."""
    for pattern in (_TAGGED, _TWO, _BARE):
        if found := pattern.findall(answer):
            return list(dict.fromkeys((float(x), float(y)) for x, y in found))
    return []


GRADERS: Final = (
    Grader(
        name="iou",
        version="2",
        about="A box in a picture, by intersection over union.",
        grade=grade_iou,
        check=check_iou,
        options={"form": "xyxy, or xywh where boxes have a width and a height", "least": "right from there on; 0.5"},
    ),
    Grader(
        name="point_in_mask",
        version="1",
        about="A point in a picture that must lie within a mask.",
        grade=grade_points,
        check=check_points,
        options={
            "width": "pixels of what x counts as 1; 1 where x is in pixels",
            "height": "the same of y",
            "several": "whether several points may be named, of which the share inside counts",
        },
    ),
)
