"""What a feedback says, beside what is known of the same attempts and steps: the ground on which raters are trusted.

Whoever stores feedback that stands calls `compare([feedback])` last in its transaction; whoever takes some back calls
`forget([feedback])` there. Either may be called again and changes nothing then.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import weights_of
from apps.calibration.services import JudgedRow, Sitting, forget_judgements, record_comparisons
from apps.feedback.gold import find_all_expected
from apps.feedback.models import Feedback
from apps.feedback.set_aside import Trust
from apps.tasks.models import Attempt
from tentalis.core.scoring.calibration import approves

JUDGING = ("prm", "hallucination")
"""Scorers that judge; the others compute or check."""
VERIFIER = "step_verifier"
MACHINES = frozenset({Feedback.Source.AI.value, Feedback.Source.IMPLICIT.value})
"""Whose words are held against people's."""
TRUSTED_AS_TRUTH = 0.5
"""A machine is measured by a person's word where nothing is verified, unless that person's own weight is below."""

Item = tuple[int, int | None]
"""(attempt id, step id), or (attempt id, None): the attempt as a whole."""
Scores = dict[Item, float]
Attempts = Mapping[int, tuple[int, float | None]]
"""Index -> (id, verified outcome) of the attempts at a task that gave an answer."""


@dataclass
class GivenWord:
    """One feedback's numbers."""

    author: str
    source: str
    score: float | None
    none_good: bool
    preferred: int | None
    ranking: list[list[int]]
    scores: Scores = field(default_factory=dict)

    @property
    def kind(self) -> str:
        if self.source == Feedback.Source.HUMAN:
            return Rater.Kind.PERSON
        return Rater.Kind.SCORER if self.source == Feedback.Source.IMPLICIT else Rater.Kind.AI


_Heard = tuple[dict[str, Sitting], list[tuple[str, str, Scores, Scores, GivenWord]]]
"""What a word says beside what is known and what peers say; and what is held against whose word when that is trusted:
(handle, its kind, its scores, the truth, the person's word)."""


def compare(standing: Sequence[Feedback], *, expected: Mapping[int, Mapping[str, Any]] | None = None) -> None:
    """Hold feedback against what is known and against others' words; raters' weights follow.

    Seven statements, however many; five more for each that somebody's trust decides about.

    A person or an AI manager is held against the known answer of a gold item, else against the verified outcome and
    steps. An AI manager and the judging scorers are held against people too, which counts where nothing is verified
    and the person is trusted. Two people's words on the same are kept as a pair, which counts for neither.

    Args:
        standing: stands, and its words on steps are stored.
        expected: feedback id -> what is known of its gold item (`gold.find_all_expected`).
    """
    for project_id, some in groupby(_hear(standing, expected or {}), key=lambda one: one[0]):
        sittings: list[Sitting] = []
        for _, (gathered, by_person) in some:
            if by_person:
                record_comparisons(project_id=project_id, sittings=sittings)  # they may move the trust read here
                sittings = []
                trust = weights_of(project_id, {person.author for *_, person in by_person})
                for handle, kind, given, truth, person in by_person:
                    is_trusted = trust[person.author] >= TRUSTED_AS_TRUTH
                    _note(gathered, handle, kind, _against_person(given, person, truth, is_trusted=is_trusted))
            sittings += gathered.values()
        record_comparisons(project_id=project_id, sittings=sittings)


def _hear(standing: Sequence[Feedback], expected: Mapping[int, Mapping[str, Any]]) -> Iterator[tuple[int, _Heard]]:
    """Project id and what there is to compare of each feedback that stands, by project."""
    tasks = {feedback.task_id for feedback in standing}
    attempts, words, scores = _load_attempts(tasks), load_words(tasks), _load_scores(tasks)
    for feedback in sorted(standing, key=lambda one: one.project_id):
        answered, others = attempts[feedback.task_id], dict(words[feedback.task_id])
        mine = others.pop(feedback.pk, None)
        if mine is not None and answered:
            known = expected.get(feedback.pk) or {}
            judged = dict(scores[feedback.task_id])
            yield feedback.project_id, _gather(mine, others.values(), answered, judged, known)


def _gather(
    mine: GivenWord,
    others: Iterable[GivenWord],
    attempts: Attempts,
    judged: dict[str, Scores],
    known: Mapping[str, Any],
) -> _Heard:
    verified = judged.pop(VERIFIER, {}) | {
        (pk, None): outcome for pk, outcome in attempts.values() if outcome is not None
    }
    gold: Scores = {}
    for index, score in known.get("attempts", {}).items():
        if int(index) in attempts:
            gold[attempts[int(index)][0], None] = score
    truth = verified | gold
    mine, *heard = (replace(word, scores=read_scores(word, attempts, truth)) for word in (mine, *others))
    gathered: dict[str, Sitting] = {}
    _note(gathered, mine.author, mine.kind, _against_known(mine.scores, verified, gold))
    people = [word for word in heard if word.source == Feedback.Source.HUMAN]
    if mine.source == Feedback.Source.HUMAN:
        _note(gathered, mine.author, mine.kind, _against_peers(mine, people))
        machines = [(word.author, word.kind, word.scores) for word in heard if word.source in MACHINES]
        machines += [(f"scorer:{name}", Rater.Kind.SCORER, scores) for name, scores in judged.items()]
        return gathered, [(*machine, truth, mine) for machine in machines]
    if mine.source in MACHINES:
        return gathered, [(mine.author, mine.kind, mine.scores, truth, word) for word in people]
    return gathered, []


def forget(taken_back: Iterable[Feedback]) -> None:
    """Take back what came of feedback that was undone or retracted; the weights are counted anew.

    What its author still says on the task stays compared, and is compared now where the other word stood before it.
    In as many statements for many of one author as for one, but for the weight of each rater it touches.
    """
    by_author: dict[tuple[int, str], list[int]] = defaultdict(list)
    gone = []
    for feedback in taken_back:
        by_author[feedback.project_id, feedback.author].append(feedback.task_id)
        gone.append(feedback.pk)
    for (project_id, author), tasks in by_author.items():
        attempts = Attempt.objects.filter(task__in=tasks).values_list("pk", flat=True)
        said = Feedback.objects.standing().filter(task__in=tasks, author=author, undo_until__isnull=True)
        standing = list(said.exclude(pk__in=gone).select_related("review").order_by("pk"))
        expected = find_all_expected(standing)
        kept = _list_rows(heard for _, heard in _hear(standing, expected))
        forget_judgements(project_id=project_id, handle=author, attempt_ids=attempts, kept=kept)
        compare(standing, expected=expected)


def _list_rows(heard: Iterable[_Heard]) -> set[tuple[str, JudgedRow]]:
    """The handle and comparison of all that comes of words, whoever is trusted."""
    rows: set[tuple[str, JudgedRow]] = set()
    for gathered, by_person in heard:
        rows |= {(handle, row) for handle, one in gathered.items() for row in one.rows}
        for handle, _, given, truth, person in by_person:
            rows |= {(handle, row) for row in _against_person(given, person, truth, is_trusted=True)}
    return rows


def _load_attempts(tasks: Collection[int]) -> Mapping[int, Attempts]:
    """Task id -> its attempts that gave an answer."""
    rows = Attempt.objects.filter(task__in=tasks, state=Attempt.State.ANSWERED).order_by("index")
    attempts: dict[int, dict[int, tuple[int, float | None]]] = defaultdict(dict)
    columns = ("task_id", "task__project_id", "index", "pk", "outcome", "score_details__checked_by")
    told = list(rows.values_list(*columns))
    judged: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for _, project, _, pk, _, judges in told:
        if judges:
            judged[project][pk] = {"checked_by": judges}
    lost = {pk for project, of_it in judged.items() for pk in Trust(project).find_lost(of_it)}
    for task, _, index, pk, outcome, _ in told:
        attempts[task][index] = pk, None if pk in lost else outcome  # a judge that is below its bar said it
    return attempts


def load_words(tasks: Collection[int]) -> dict[int, dict[int, GivenWord]]:
    """Task id -> feedback id -> what it says, of all that stand. One statement."""
    rows = Feedback.objects.filter(task__in=tasks, retracted_at__isnull=True).order_by("id")
    words: dict[int, dict[int, GivenWord]] = defaultdict(dict)
    columns = ("author", "source", "score", "none_good", "preferred_attempt__index", "ranking")
    for task, pk, *values, attempt, step, score in rows.values_list(
        "task_id", "pk", *columns, "steps__attempt", "steps__step", "steps__score"
    ):
        word = words[task].setdefault(pk, GivenWord(*values))
        if attempt is not None and score is not None:
            word.scores[attempt, step] = score
    return words


def _load_scores(tasks: Collection[int]) -> dict[int, dict[str, Scores]]:
    """Task id -> scorer -> what was verified of steps, and what each judging scorer said. One statement."""
    rows: Iterable[tuple[int, str, int, int | None, float]] = (
        Attempt.objects.filter(
            task__in=tasks, step_scores__scorer__in=(VERIFIER, *JUDGING), step_scores__score__isnull=False
        )
        .order_by()
        .values_list(  # type: ignore[assignment]  # the filter leaves no empty scorer or score
            "task_id", "step_scores__scorer", "pk", "step_scores__step", "step_scores__score"
        )
    )
    scores: dict[int, dict[str, Scores]] = defaultdict(lambda: defaultdict(dict))
    for task, scorer, attempt, step, score in rows:
        if scorer != VERIFIER or step is not None:
            scores[task][scorer][attempt, step] = score
    return scores


def read_scores(word: GivenWord, attempts: Attempts, truth: Scores) -> Scores:
    """A feedback's scores of attempts and steps, with what it says of attempts without a number.

    None is good: all are rejected. The score of the whole task is that of its attempts where it has one attempt, or
    where all have the same truth, of the first then. A preference or a ranking approves its best and rejects its worst
    where their truths differ.
    """
    answered = [pk for pk, _ in attempts.values()]
    said: Scores = {}
    if word.none_good:
        said |= {(pk, None): 0.0 for pk in answered}
    sides = {approves(truth[pk, None]) for pk in answered if (pk, None) in truth}
    if word.score is not None and (len(answered) == 1 or (len(sides) == 1 and len(answered) > 1)):
        said[answered[0], None] = word.score
    elif not word.none_good:
        said |= _read_order(word, attempts, truth)
    return said | word.scores


def _read_order(word: GivenWord, attempts: Attempts, truth: Scores) -> Scores:
    ordered = [[attempts[index][0] for index in tier if index in attempts] for tier in word.ranking]
    if len(ordered) < 2 and word.preferred is not None and word.preferred in attempts:
        rest = [pk for index, (pk, _) in attempts.items() if index != word.preferred]
        best, worst, speaks_of_worst = [attempts[word.preferred][0]], rest, False
    elif len(ordered) >= 2:
        best, worst, speaks_of_worst = ordered[0], ordered[-1], True
    else:
        return {}
    known = {pk: approves(truth[pk, None]) for pk in (*best, *worst) if (pk, None) in truth}
    if len(set(known.values())) < 2:
        return {}
    said: Scores = {(pk, None): 1.0 for pk in best if pk in known}
    if speaks_of_worst:
        said |= {(pk, None): 0.0 for pk in worst if pk in known}
    return said


def _note(gathered: dict[str, Sitting], handle: str, kind: str, rows: Iterable[JudgedRow]) -> None:
    before = gathered.get(handle)
    gathered[handle] = Sitting(handle, kind, [*(before.rows if before else ()), *rows])


def _against_known(said: Scores, verified: Scores, gold: Scores) -> Iterable[JudgedRow]:
    for item, score in said.items():
        if item in gold:
            yield JudgedRow(*item, score, gold[item], Comparison.Source.GOLD)
        elif item in verified:
            yield JudgedRow(*item, score, verified[item], Comparison.Source.VERIFIED)


def _against_peers(mine: GivenWord, people: Iterable[GivenWord]) -> Iterable[JudgedRow]:
    for word in people:
        if word.author != mine.author:
            for item in sorted(mine.scores.keys() & word.scores.keys(), key=str):
                yield JudgedRow(*item, mine.scores[item], word.scores[item], Comparison.Source.PEER, word.author)


def _against_person(said: Scores, person: GivenWord, truth: Scores, *, is_trusted: bool) -> Iterable[JudgedRow]:
    for item, score in said.items():
        if item in person.scores:
            counts = is_trusted and item not in truth
            yield JudgedRow(*item, score, person.scores[item], Comparison.Source.HUMAN, person.author, counts)
