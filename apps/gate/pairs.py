"""Which of two answers is better, where nothing says what is right: by a judge whose error is known, or by people who
do not know whose the answers are."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any, Protocol

from django.db import transaction
from django.db.models import Count, QuerySet

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter, Verdict
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import ConflictError, TentalisError
from apps.base.inserting import insert
from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import weights_of
from apps.calibration.services import JudgedRow, Sitting, record_comparisons
from apps.evals.comparing import require_scored
from apps.evals.models import ItemTry
from apps.evals.panels import LEAST_OWN, ItemSet, choose_unchecked_panel
from apps.evals.results import Measured
from apps.feedback.comparing import TRUSTED_AS_TRUTH
from apps.feedback.expiry import expire_reviews_of
from apps.feedback.managers import find_judge
from apps.feedback.managers.llm import LlmManager, PairQuestion
from apps.feedback.rules import validate_review_policy
from apps.feedback.side_by_side import find_due, find_judged_pairs, open_pair, read_answer, read_preferences
from apps.gate.models import AnswerPair
from apps.inference.errors import ProviderBusyError
from apps.inference.metering import charge
from apps.tasks.models import Task
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.learning.gate_course import Pairs
from tentalis.core.learning.judged_pairs import Calibration, count_agreement
from tentalis.core.scoring.protocol import Unscored

BLOCK = 32
"""Pairs that a judge is asked about, and whose words are committed, together."""
MOST_CALIBRATED = 300
"""Pairs of people's that a judge is measured by, the last ones."""
USUAL_PAIRS = 60
"""Pairs that people compare of one adapter where somebody asks for it and the policy does not."""
TIE = 0.5
TwoIds = tuple[int, int]
TryPair = tuple[ItemTry, ItemTry]


class WaitsForPeopleError(ConflictError):
    """People have yet to say which answers are better; the gate goes on when they did, or when their time is over."""

    code = "waits_for_people"


class SideBySide(Protocol):
    """Evidence of one kind."""

    @property
    def known(self) -> Calibration | None:
        """How often who is asked errs; None of people, who do not."""
        ...

    def prefer(self, tries: Sequence[TryPair], asked: ItemSet) -> dict[TwoIds, float]:
        """How far the first of each pair is better, in [0, 1], of those that were told apart.

        Raises:
            WaitsForPeopleError: people have yet to say so.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What the verdict stands on: its kind, in words, and in numbers."""
        ...


@dataclass(frozen=True)
class ByJudge:
    """A model's word, asked for in both orders, corrected for how often it errs against this project's people."""

    adapter: Adapter
    judge: LlmManager
    known: Calibration

    def prefer(self, tries: Sequence[TryPair], asked: ItemSet) -> dict[TwoIds, float]:
        said = read_known(tries, by=self.judge.rater)
        open_tries = [one for one in tries if ids_of(one) not in said and _are_kept(one)]
        for start in range(0, len(open_tries), BLOCK):
            said |= self._ask(open_tries[start : start + BLOCK], asked)
        return said

    def _ask(self, tries: Sequence[TryPair], asked: ItemSet) -> dict[TwoIds, float]:
        project = self.adapter.project
        told = [one for one in tries if one[0].answer != one[1].answer]
        questions = [
            PairQuestion(project, asked.items[mine.place].told, mine.answer, theirs.answer) for mine, theirs in told
        ]
        with charge(project=project, turn="judge", adapter_name=self.adapter.name):
            words = self.judge.prefer(questions) if questions else []
        said = {ids_of(one): TIE for one in tries if one not in told}
        said |= {ids_of(one): word for one, word in zip(told, words, strict=True) if not isinstance(word, Unscored)}
        AnswerPair.objects.bulk_create(
            [
                AnswerPair(adapter=self.adapter, mine_id=mine, theirs_id=theirs, said=word, by=self.judge.rater)
                for (mine, theirs), word in said.items()
            ],
            ignore_conflicts=True,
        )
        return said

    def describe(self) -> dict[str, Any]:
        known, error = self.known, self.known.error or 0.0
        words = f"by {self.judge.model}, asked in both orders, which errs on {error:.0%} of {known.pairs} pairs that "
        words += "people judged"
        return {"kind": "judge", "words": words, "human_pairs": known.pairs, "judge_error": round(error, 4)}


@dataclass(frozen=True)
class ByPeople:
    """The project's reviewers, who see two answers and not whose they are."""

    adapter: Adapter
    people: int
    by: str
    known: None = None

    def prefer(self, tries: Sequence[TryPair], asked: ItemSet) -> dict[TwoIds, float]:
        gather_words(self.adapter)
        rows = {(row.mine_id, row.theirs_id): row for row in _find_pairs(tries, by="")}
        self._open([one for one in tries if ids_of(one) not in rows and _are_kept(one)], asked)
        if left := AnswerPair.objects.that_wait().filter(adapter=self.adapter).count():
            raise WaitsForPeopleError(f"{left} pairs of answers wait for people")
        return read_known(tries, by="")

    def _open(self, tries: Sequence[TryPair], asked: ItemSet) -> None:
        with transaction.atomic():
            rows = []
            for mine, theirs in tries:
                row = AnswerPair(adapter=self.adapter, mine=mine, theirs=theirs, said=TIE)
                if mine.answer != theirs.answer:
                    row.is_swapped = hashlib.sha256(f"{mine.pk}:{theirs.pk}".encode()).digest()[0] % 2 == 1
                    answers = [theirs.answer, mine.answer] if row.is_swapped else [mine.answer, theirs.answer]
                    item, environment = asked.items[mine.place], asked.world.name
                    row.task = open_pair(
                        self.adapter.worker, environment, item, answers, people=self.people, by=self.by
                    )
                    row.said = None
                rows.append(row)
            insert(rows)

    def describe(self) -> dict[str, Any]:
        asked = AnswerPair.objects.filter(adapter=self.adapter, by="", task__isnull=False)
        counts = asked.aggregate(pairs=Count("pk"), judged=Count("said"))
        words = f"by people, who judged {counts['judged']} of {counts['pairs']} pairs without knowing whose they were"
        return {"kind": "people", "words": words, **counts}


def ids_of(pair: TryPair) -> TwoIds:
    return pair[0].pk, pair[1].pk


def pair_tries(mine: Measured, theirs: Measured, count: int) -> list[TryPair]:
    """The tries of both sides at the first so many items, each with the other side's of the same place and number."""
    both = sorted(place for place in mine.tries.keys() & theirs.tries.keys() if place[0] < count)
    found = [(mine.tries[place], theirs.tries[place]) for place in both]
    lost = ItemTry.Cause.INFRASTRUCTURE
    return [one for one in found if all(row.cause != lost for row in one)]


def _are_kept(pair: TryPair) -> bool:
    """Whether both answers are still there: of those that were deleted nobody can say which is better."""
    return any(one.answer for one in pair) and all(one.reason != ItemTry.NOT_KEPT for one in pair)


def _find_pairs(tries: Sequence[TryPair], *, by: str) -> QuerySet[AnswerPair]:
    mine, theirs = ([row.pk for row in side] for side in zip(*tries, strict=True)) if tries else ([], [])
    return AnswerPair.objects.filter(mine__in=mine, theirs__in=theirs, by=by)


def read_known(tries: Sequence[TryPair], *, by: str) -> dict[TwoIds, float]:
    """What was said of these pairs. One query."""
    rows = _find_pairs(tries, by=by).values_list("mine", "theirs", "said")
    return {(mine, theirs): said for mine, theirs, said in rows if said is not None}


def compare(evidence: SideBySide, mine: Measured, theirs: Measured, asked: ItemSet, count: int) -> Pairs:
    """Which side's answers to the first so many items are better; a tie is half a win.

    Raises:
        TooFewScoredError: of too few items something was said.
        WaitsForPeopleError: people have yet to say so.
    """
    tries = pair_tries(mine, theirs, count)
    preferences = evidence.prefer(tries, asked)
    words: dict[int, list[float]] = defaultdict(list)
    weights = {one.key: one.weight for one, _ in tries}
    for one in tries:
        if (word := preferences.get(ids_of(one))) is not None:
            words[one[0].key].append(word)
    require_scored(planned=count, scored=len(words), reasons=["nobody told their answers apart"])
    won = [fmean(found) for found in words.values()]
    counts = [weights[key] for key in words]
    return Pairs(mine=won, theirs=[1 - one for one in won], weights=counts, judge=evidence.known)


# --- people's pairs: gathered, waited for, withdrawn -----------------------------------------------------------------


def gather_words(adapter: Adapter) -> None:
    """Take what people said of the pairs that wait for nobody any more."""
    over = list(AnswerPair.objects.filter(adapter=adapter, said=None, task__state__in=Task.FINAL))
    said = read_preferences([row.task_id for row in over if row.task_id is not None]) if over else {}
    known = [row for row in over if row.task_id in said]
    for row in known:
        word = said[row.task_id or 0]
        row.said = 1 - word if row.is_swapped else word
    AnswerPair.objects.bulk_update(known, ["said"])


def withdraw_pairs(adapter_ids: Sequence[int], *, by: str) -> None:
    """Take pairs of these adapters out of the queue, in the running transaction."""
    tasks = list(Task.objects.filter(answer_pair__adapter__in=adapter_ids, state=Task.State.IN_REVIEW))
    expire_reviews_of(tasks, by=by)
    for task in tasks:
        move(task, Task.State.CANCELLED, by=by, payload={"reason": "its adapter was decided about"})


# --- the judge: measured by people, and what it lacks ----------------------------------------------------------------


def why_no_people(adapter: Adapter) -> str:
    """Why people cannot be asked to compare its answers with those of what serves; "" where they can. Three queries."""
    if adapter.state != Adapter.State.CANDIDATE:
        return f"wanted {Adapter.State.CANDIDATE}, found {adapter.state}"
    if not adapter.verdicts.filter(outcome=Verdict.Outcome.INCONCLUSIVE).exists():
        return "the gate is looking at it"
    if adapter.asks_people:
        return "they were asked already"
    if choose_unchecked_panel(adapter.worker, size=USUAL_PAIRS) is None:
        return f"wanted at least {LEAST_OWN} held-out items that nothing checks, found fewer"
    return ""


def ask_people(*, adapter: Adapter, by: User) -> None:
    """Have people compare its answers blindly, in the running transaction: the gate is to begin anew.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: it cannot be compared so.
    """
    require_right(by, adapter.project, Right.ADAPTERS_WRITE)
    if why := why_no_people(adapter):
        raise ConflictError(f"the answers of {adapter.name} cannot be compared by people: {why}")
    adapter.verdicts.all().delete()
    Adapter.objects.filter(pk=adapter.pk).update(asks_people=True)
    record(Kind.ADAPTER_COMPARED, subject=adapter, by=by.handle, payload={"words": "people compare its answers"})


def size_of(adapter: Adapter, policy: GatePolicy) -> int:
    """How many pairs of answers are compared at most."""
    return policy.blind_pairs or (USUAL_PAIRS if adapter.asks_people else policy.panel_size)


@dataclass(frozen=True)
class Waiting:
    """What a candidate waits for.

    Args:
        pairs, judged: that people are asked about, and that they said which answer is better of; due: when the first of
            the others is waited for no more.
    """

    pairs: int
    judged: int
    due: datetime | None


def find_waiting(adapter: Adapter) -> Waiting | None:
    """None where it waits for nobody. Two queries at most, none of what is no candidate."""
    if adapter.state != Adapter.State.CANDIDATE:
        return None
    asked = AnswerPair.objects.filter(adapter=adapter, task__isnull=False)
    rows = list(asked.values_list("task", "task__state"))
    waiting = [task for task, state in rows if state not in Task.FINAL]
    return Waiting(len(rows), len(rows) - len(waiting), find_due(waiting)) if waiting else None


@dataclass(frozen=True)
class NoEvidence:
    """Why two answers cannot be told apart here.

    Args:
        missing: pairs that people have yet to judge before the judge's error is known; 0 where that is not it.
    """

    words: str
    missing: int = 0

    @property
    def details(self) -> dict[str, Any]:
        return {"missing_pairs": self.missing} if self.missing else {}


def choose_evidence(adapter: Adapter, policy: GatePolicy, *, by: str) -> SideBySide | NoEvidence:
    """What tells answers apart where no check does: people where the policy wants them, else a judge whose error is
    known."""
    if policy.blind_pairs or adapter.asks_people:
        return ByPeople(adapter, policy.people_per_pair, by)
    project = adapter.project
    judge = find_judge(validate_review_policy(project.review_policy), project)
    if not judge.model:
        return NoEvidence("no check says what is right, and no model is configured as a judge")
    try:
        known = calibrate(project, judge, adapter_name=adapter.name)
    except ProviderBusyError:
        raise
    except TentalisError as error:
        return NoEvidence(f"the judge {judge.model} cannot be asked: {error}")
    if known.missing:
        words = f"the judge {judge.model} was compared with people on {known.pairs} pairs of answers: "
        return NoEvidence(f"{words}wanted {known.missing} more", known.missing)
    if not known.is_enough(policy.confidence):
        words = f"the judge {judge.model} agrees with people on {known.agreed} of {known.pairs} pairs of answers: "
        return NoEvidence(f"{words}no better than a guess, for all that is known")
    return ByJudge(adapter, judge, known)


def calibrate(project: Project, judge: LlmManager, *, adapter_name: str = "") -> Calibration:
    """How often the judge agrees with this project's people; pairs that it was not asked about yet are asked about.

    Its words are kept beside theirs and move no weight: to prefer is not to approve. Of who is not trusted any more no
    word counts.

    Raises:
        ProviderBusyError: it cannot be asked now.
    """
    judged = find_judged_pairs(project.pk)[:MOST_CALIBRATED]
    rows = Comparison.objects.filter(project=project, rater__handle=judge.rater, source=Comparison.Source.HUMAN)
    people = {one.by for one in judged} | set(rows.order_by().values_list("against", flat=True))
    trust = weights_of(project.pk, people)
    rows = rows.filter(against__in=[handle for handle in people if trust[handle] >= TRUSTED_AS_TRUTH])
    there = set(rows.values_list("attempt_id", flat=True))
    new = [one for one in judged if one.first.pk not in there]
    questions = [PairQuestion(project, one.task.prompt, read_answer(one.first), read_answer(one.second)) for one in new]
    if questions:
        with charge(project=project, turn="judge", adapter_name=adapter_name):
            words = judge.prefer(questions)
        sittings = [
            Sitting(
                judge.rater,
                Rater.Kind.AI,
                [JudgedRow(one.first.pk, None, word, one.truth, Comparison.Source.HUMAN, one.by, counts=False)],
            )
            for one, word in zip(new, words, strict=True)
            if not isinstance(word, Unscored)
        ]
        record_comparisons(project_id=project.pk, sittings=sittings)
    return count_agreement(list(rows.order_by("-id").values_list("said", "truth")[:MOST_CALIBRATED]))
