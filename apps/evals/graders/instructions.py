"""Whether an answer follows instructions that a rule can look at."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from apps.checks.tongues import LANGUAGES, SURE, guess
from tentalis.core.graders.instructions import Reading, follows, read_instruction
from tentalis.core.graders.reading import read_flag
from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError
from tentalis.core.scoring.protocol import AttemptContext

MOST_INSTRUCTIONS: Final = 32
MOST_LOOKED_AT: Final = 400_000
"""Characters of an answer."""


def check_instructions(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    for name in ("loose", "partial"):
        read_flag(options, name, default=False)
    for name, arguments in _list_instructions(reference):
        _, given = read_instruction(name, arguments)
        if (language := given.get("language")) is not None and language not in LANGUAGES:
            raise ValueError(f"language: wanted a code of ISO 639-1, found {language!r:.80}")


def _list_instructions(reference: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """As rows of IFEval hold them: a list of names, and one of arguments."""
    keys = {"instruction_id_list", "kwargs"}
    if not isinstance(reference, Mapping) or reference.keys() != keys:
        raise ValueError(f"reference: wanted instruction_id_list and kwargs, found {reference!r:.120}")
    names, arguments = reference["instruction_id_list"], reference["kwargs"]
    if not isinstance(names, list) or not 1 <= len(names) <= MOST_INSTRUCTIONS:
        raise ValueError(f"instruction_id_list: wanted 1 to {MOST_INSTRUCTIONS} names, found {names!r:.120}")
    if not isinstance(arguments, list) or len(arguments) != len(names):
        raise ValueError(f"kwargs: wanted one object for each of {len(names)} names, found {arguments!r:.120}")
    for name, given in zip(names, arguments, strict=True):
        if not isinstance(name, str) or not isinstance(given, Mapping | None):
            raise ValueError(f"wanted a name and an object, found {name!r:.80} and {given!r:.80}")
        yield name, given or {}


@cache
def _open_punkt() -> Any:
    """As published: marks alone are a sentence too, which this library takes for a part of the one before."""
    from punkt import PunktSentenceTokenizer, load_model

    class Published(PunktSentenceTokenizer):
        __slots__ = ()

        def _is_only_sentence_punctuation(self, text: str) -> bool:
            return False

    return Published(load_model("english"))


def _split_sentences(text: str) -> Sequence[str]:
    sentences: list[str] = _open_punkt().tokenize(text)
    return sentences


def _is_in(text: str, language: str) -> bool | None:
    share = guess(text, {language}).share
    return None if share is None else share >= SURE


READING: Final = Reading(_split_sentences, _is_in)


def grade_instructions(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where all of them are followed; the share of them stands beside it."""
    answer = (episode.answer or "")[:MOST_LOOKED_AT]
    is_loose, told = read_flag(task.options, "loose", default=False), dict[str, bool | None]()
    for number, (name, arguments) in enumerate(_list_instructions(task.reference), start=1):
        told[f"{number} {name}"] = follows(name, arguments, answer, READING, is_loose=is_loose)
    is_partial = read_flag(task.options, "partial", default=False)
    unknown = [name for name, followed in told.items() if followed is None]
    if unknown and (is_partial or all(followed is not False for followed in told.values())):
        raise UngradedError(f"nobody can tell the language of the answer: {unknown[0].partition(' ')[2]}")
    share = sum(followed is True for followed in told.values()) / len(told)
    correct = share == 1.0
    return Grade(
        value=share if is_partial else float(correct),
        correct=correct,
        signals={"followed": share},
        evidence={"followed": told},
    )


GRADERS: Final = (
    Grader(
        name="ifeval",
        version="1",
        about="Instructions that are followed or not, by the 25 checks of IFEval.",
        grade=grade_instructions,
        options={
            "loose": "whether the answer may follow them without its first or last line, or without stars",
            "partial": "whether a share of them is worth that share",
        },
        check=check_instructions,
    ),
)
