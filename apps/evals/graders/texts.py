"""An answer beside the text that is right: the same, by SQuAD's rules, or as good as a translation."""

import string
from collections.abc import Callable, Mapping
from typing import Any, Final

from tentalis.core.graders import squad, translation
from tentalis.core.graders.reading import read_flag, read_least, read_share, read_texts, read_word
from tentalis.core.grading import Grade, GradedTask, GradeFunction, Grader, decide_grade
from tentalis.core.scoring.protocol import AttemptContext

_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_SHARES: Final = {
    "least": "the share from which on it counts as right; 1 where it is not given",
    "floor": "the share below which it is worth nothing",
}


def grade_share(share: float, options: Mapping[str, Any], signals: Mapping[str, float]) -> Grade:
    """A share of what is right, with the options `least` and `floor`."""
    value = share if share >= read_share(options, "floor", 0.0) else 0.0
    return Grade(value=value, correct=value > 0 and value >= read_least(options), signals=signals)


def check_shares(options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    read_least(options)
    if read_share(options, "floor", 0.0) == 1:
        raise ValueError("floor: wanted a share below 1, found 1")


# --- exact


def check_exact(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    for text in read_texts(reference):
        if not _fold(text, options):
            raise ValueError(f"reference: wanted more than punctuation, found {text!r:.80}")
    read_word(options, "of", ("whole", "last_line"))


def grade_exact(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the answer is one of the texts."""
    answer = (episode.answer or "").strip()
    if task.options.get("of") == "last_line":
        answer = answer.rpartition("\n")[2]
    folded = _fold(answer, task.options)
    return decide_grade(
        correct=bool(folded) and any(folded == _fold(text, task.options) for text in read_texts(task.reference))
    )


def _fold(text: str, options: Mapping[str, Any]) -> str:
    if not read_flag(options, "punctuation", default=True):
        text = text.translate(_NO_PUNCTUATION)
    return " ".join((text if read_flag(options, "case", default=False) else text.casefold()).split())


# --- SQuAD


def check_squad(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError. A lone "" says that the question has no answer, as SQuAD 2 does."""
    if reference not in ("", [""]):
        for text in read_texts(reference):
            if not squad.normalize_answer(text):
                raise ValueError(f"reference: wanted more than articles and punctuation, found {text!r:.80}")
    check_shares(options)


def grade_em(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the answer is one of the texts, articles, punctuation and case aside."""
    answer = episode.answer or ""
    return decide_grade(correct=any(squad.is_exact(answer, text) for text in _list_squad(task.reference)))


def grade_f1(task: GradedTask, episode: AttemptContext) -> Grade:
    """The words it shares with the text that it shares most with."""
    answer = episode.answer or ""
    best = max(squad.score_f1(answer, text) for text in _list_squad(task.reference))
    return grade_share(best, task.options, {"f1": best})


def _list_squad(reference: Any) -> list[str]:
    return reference if isinstance(reference, list) else [reference]


# --- translation


def check_translation(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    for text in read_texts(reference):
        if (count := len(text.split())) > translation.MOST_REFERENCE_WORDS:
            raise ValueError(f"reference: wanted at most {translation.MOST_REFERENCE_WORDS} words, found {count}")
    check_shares(options)
    read_flag(options, "lowercase", default=False)
    read_word(options, "tokenizer", tuple(translation.TOKENIZERS))
    if options.get("words", 0) not in (0, 2):
        raise ValueError(f"words: wanted 0, or 2 for chrF++, found {options['words']!r:.80}")


def grade_bleu(task: GradedTask, episode: AttemptContext) -> Grade:
    """BLEU of the sentence, its counts beside it as signals: a run has the mean of these, and no BLEU of a corpus."""
    counts = translation.count_bleu(
        episode.answer or "",
        read_texts(task.reference),
        tokenizer=read_word(task.options, "tokenizer", tuple(translation.TOKENIZERS)),
        lowercase=read_flag(task.options, "lowercase", default=False),
    )
    score = translation.score_bleu(counts)
    signals = {"bleu": score, "words": counts.words, "reference_words": counts.reference_words}
    for order in range(translation.BLEU_ORDER):
        signals |= {f"matched_{order + 1}": counts.matched[order], f"total_{order + 1}": counts.total[order]}
    return grade_share(_clip(score / 100), task.options, signals)


def grade_chrf(task: GradedTask, episode: AttemptContext) -> Grade:
    """chrF of the sentence, chrF++ where words count too."""
    counts = translation.count_chrf(
        episode.answer or "",
        read_texts(task.reference),
        word_order=task.options.get("words", 0),
        lowercase=read_flag(task.options, "lowercase", default=False),
    )
    score = translation.score_chrf(counts)
    return grade_share(_clip(score / 100), task.options, {"chrf": score})


def grade_ter(task: GradedTask, episode: AttemptContext) -> Grade:
    """What of the answer need not be edited: 1 less TER, and 0 where more than a whole reference is to be edited."""
    answer, references = episode.answer or "", read_texts(task.reference)
    lengths = [len(text.split()) for text in references]
    if len(answer.split()) >= max(lengths) + sum(lengths) / len(lengths):
        return Grade(value=0.0, correct=False, evidence={"words": "more than twice as many as wanted"})
    counts = translation.count_ter(answer, references, lowercase=read_flag(task.options, "lowercase", default=True))
    score = translation.score_ter(counts)
    signals = {"ter": score, "edits": counts.edits, "reference_words": counts.reference_words}
    return grade_share(_clip(1 - score / 100), task.options, signals)


def _clip(share: float) -> float:
    return min(1.0, max(0.0, share)) if abs(share - 1.0) > 1e-12 else 1.0


def _grader(
    name: str,
    about: str,
    grade: GradeFunction,
    check: Callable[[Any, Mapping[str, Any]], None],
    options: Mapping[str, str],
) -> Grader:
    return Grader(name=name, version="1", about=about, grade=grade, check=check, options=options)


_LOWERCASE: Final = {"lowercase": "whether case counts nothing"}
GRADERS: Final = (
    _grader(
        "exact",
        "The same text as one of those that are right, blanks aside.",
        grade_exact,
        check_exact,
        {
            "case": "whether case counts; it does not where this is not given",
            "punctuation": "whether punctuation counts; it does where this is not given",
            "of": "whole or last_line: what of the answer is compared",
        },
    ),
    _grader("em", "Exact match by SQuAD's rules.", grade_em, check_squad, {}),
    _grader("f1", "Words shared with what is right, by SQuAD's rules.", grade_f1, check_squad, _SHARES),
    _grader(
        "bleu",
        "A translation by BLEU, as sacrebleu has it.",
        grade_bleu,
        check_translation,
        {**_SHARES, **_LOWERCASE, "tokenizer": f"one of {', '.join(translation.TOKENIZERS)}"},
    ),
    _grader(
        "chrf",
        "A translation by chrF, as sacrebleu has it.",
        grade_chrf,
        check_translation,
        {**_SHARES, **_LOWERCASE, "words": "2 for chrF++, which counts words too"},
    ),
    _grader(
        "ter",
        "A translation by the edits it wants, as sacrebleu has it.",
        grade_ter,
        check_translation,
        {**_SHARES, **_LOWERCASE},
    ),
)
