"""How far what was said counts, and what judges said that are below their bar by now: set aside, and said to be."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from apps.calibration.selectors import weights_of
from apps.checks.withholding import withhold_fallen
from apps.feedback.models import Feedback
from apps.judges.models import JudgeProbe, name_llm_manager
from apps.judges.selectors import JudgeKey, find_below, find_fallen, say_below
from apps.tasks.models import Attempt
from tentalis.core.scoring.protocol import Score, Unscored
from tentalis.core.scoring.weights import WeightProfile, combine

UNSCORED = Unscored("it gave none")
SUPERVISOR = "supervisor"
"""How the author of feedback begins who spoke while the work was done."""
MOST_AUTHOR_CHARS = 120
OUTCOME_SCORERS = frozenset({"outcome", "step_verifier"})
"""Those that say what the checks found."""
_VERIFIED = ("pk", "outcome", "verification__checks")


class Aside(NamedTuple):
    """What of an attempt is the word of a judge that is below its bar.

    Args:
        scorers: that asked it, or say what it said in the checks.
        words: which judge that is.
        checks: what the checks found without it, as a verification keeps it; None: it was not asked there.
        has_outcome: whether nobody knows without it what they come to.
    """

    scorers: frozenset[str]
    words: str
    checks: Sequence[Mapping[str, Any]] | None = None
    has_outcome: bool = False


@dataclass(frozen=True)
class Trust:
    """How far what is said in a project counts, by its authors' weights and its judges that are below their bar.

    One query where anybody spoke, and one where any judge had a word; what was read once stays.
    """

    project_id: int
    _weights: dict[str, float] = field(default_factory=dict)

    @cached_property
    def _below(self) -> Mapping[JudgeKey, JudgeProbe]:
        return find_below(self.project_id)

    def find_asides(self, score_details: Mapping[int, Mapping[str, Any]]) -> dict[int, Aside]:
        """Attempt id -> what is set aside of its scores, of those where anything is. One query more where a judge had a
        word in checks.

        Args:
            score_details: attempt id -> as it is stored; `judge` and `checked_by` are enough.
        """
        found: dict[int, Aside] = {}
        for pk, details in score_details.items():
            judge = details.get("judge", {})
            if judge and (probe := find_fallen(self._below, [judge])) is not None:
                found[pk] = Aside(frozenset(judge["scorers"]), say_below(probe))
        checked = {pk: judges for pk, details in score_details.items() if (judges := details.get("checked_by"))}
        fallen = [pk for pk, judges in checked.items() if find_fallen(self._below, judges) is not None]
        for pk, outcome, checks in Attempt.objects.filter(pk__in=fallen).values_list(*_VERIFIED) if fallen else ():
            without = withhold_fallen(self._below, checked[pk], outcome=outcome, checks=checks or [])
            assert without is not None
            is_lost = without.outcome is None
            of_scorers = found.get(pk, Aside(frozenset(), without.words))
            scorers = of_scorers.scorers | OUTCOME_SCORERS if is_lost else of_scorers.scorers
            found[pk] = Aside(scorers, of_scorers.words, without.checks, is_lost)
        return found

    def find_lost(self, score_details: Mapping[int, Mapping[str, Any]]) -> set[int]:
        """Those of these attempts whose outcome is no truth any more. Queries and arguments as `find_asides`."""
        return {pk for pk, aside in self.find_asides(score_details).items() if aside.has_outcome}

    def silence(self, feedback: Feedback, *, of_hint: bool = False) -> str:
        """Why what a judge said does not count, or does not teach as a hint; "" where it does.

        Of what was kept without the judge, only AI managers' handles name a model, without its server. The judge that
        was found out is asked no more: what came later under its name is another's.
        """
        if judge := feedback.judge:
            probe = find_fallen(self._below, [judge]) if of_hint or judge.get("of") != "hint" else None
            return say_below(probe) if probe else ""
        author = _name_rater(feedback)
        if not author.startswith(name_llm_manager("")):
            return ""
        for (_, model), probe in self._below.items():
            is_before = probe.finished_at is not None and feedback.created_at <= probe.finished_at
            if is_before and author == name_llm_manager(model):
                return say_below(probe)
        return ""

    def weigh(self, given: Collection[Feedback]) -> dict[int, float]:
        """Feedback id -> how far it counts, in [0, 1]: its trust times its author's weight (how often they were right).

        What counts 0 teaches nothing: said by who is quarantined or only audited yet, or by a judge below its bar.
        """
        raters = {one.pk: _name_rater(one) for one in given}
        if unknown := set(raters.values()) - self._weights.keys():
            self._weights.update(weights_of(self.project_id, unknown))
        return {one.pk: 0.0 if self.silence(one) else one.trust * self._weights[raters[one.pk]] for one in given}


def name_supervisor(decider: str) -> str:
    """Author of what `decider`, a handle, said while the work was done: `supervisor:alice` of a person, who may still
    be given its review, `supervisor:judge` of an agent, `supervisor:program:boss` of a program of another package."""
    return f"{SUPERVISOR}:{decider.partition(':')[2]}"[:MOST_AUTHOR_CHARS]


def _name_rater(feedback: Feedback) -> str:
    """The handle by which its author is weighed: who spoke while the work was done is weighed by what they say of it in
    reviews."""
    kind, _, name = feedback.author.partition(":")
    if kind != SUPERVISOR:
        return feedback.author
    return f"{'user' if feedback.source == Feedback.Source.HUMAN else 'agent'}:{name}"


def combine_others(attempt: Attempt, scores: Mapping[str, float | None], aside: Aside) -> float | None:
    """The score of an attempt as if the scorers that are set aside had none.

    Args:
        scores: scorer -> what it gave the whole; None where it gave nothing.
    """
    details = attempt.score_details
    profile = WeightProfile("kept", details["profile"])
    kept: dict[str, Score] = {
        name: UNSCORED if (value := scores.get(name)) is None else value
        for name in profile.weights
        if name not in aside.scorers
    }
    return combine(kept, profile, trust=details.get("trust")).value
