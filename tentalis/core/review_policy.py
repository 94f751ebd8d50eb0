"""Which tasks wait for a reviewer, which kind, and what happens when nobody comes."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from tentalis.core.checked import Checked, FieldError, Number, Text, choice, flag, number, several, text

Who = Literal["none", "ai", "human", "both"]
OnTimeout = Literal["learn_without", "fail", "ai"]
Reviewer = Literal["ai", "human"]
SHARE = Number(low=0, high=1, is_whole=False, optional=True)


@dataclass(frozen=True, kw_only=True)
class ReviewPolicy(Checked):
    """A project's rule for reviews.

    A task in one of `environments` is reviewed when it is drawn at `rate`, or when its scores are uncertain.

    Args:
        who: reviews: nobody, an AI manager, a person, or both.
        rate: share of the tasks drawn, in [0, 1]. The draw is a hash of the task's id: asked again it answers the same,
            and raising the rate keeps every task drawn before.
        uncertain_spread: votes this far apart (max - min) or further are uncertain, in (0, 1]; None never looks.
        uncertain_margin: a score this close to 0.5 or closer is uncertain, in [0, 0.5]; None never looks. With either
            of the two set, a task nobody could score is uncertain too.
        environments: where the policy applies; empty: everywhere.
        patience_s: how long a review waits, 1 s to a year.
        on_timeout: then: learn from the scores without it, fail the task, or let an AI manager review.
        ai_manager: who reviews where an AI manager is asked: an environment's rule book (`rule-book`), a model (`llm`),
            the project's rubric, whose weights can be refitted to audits (`rubric`), the worker's own model with one
            word, which audits can train (`verdict`), or one that another package adds; "" takes whom the environment
            names, which is a model where it names nobody.
        model: of the `llm` manager: `SERVER/MODEL` of one of the project's model servers, or a model of the
            installation's; "" takes the installation's.
        hint_model: turns a reviewer's words into a hint: `SERVER/MODEL` of one of the project's model servers, or a
            model of the installation's; "" takes the installation's, and where there is none the words are the hint.
        human_rate: where both review, the share of the reviewed tasks that a person reviews as well, in [0, 1]; drawn
            like `rate`. Uncertain tasks always wait for a person, and so does a project's first.
        double_review_rate: share of the reviewed tasks that get a second reviewer of the scarcest kind (a person where
            persons review), in [0, 1]; drawn like `rate`, independently of it. Where both review: of what persons do.
        gold_rate: share of the reviews handed out that are gold items, whose right judgement is known and of which the
            reviewer is not told, in [0, 1]; 0.05 is usual.
        undo_s: how long a person may take a judgement back as if it had not been, 0 s to an hour; only then it is
            learned from.
        only_probed_judges: a model that judges trains nothing before a probe found it above its bar; else one that was
            never probed may. One that is below its bar never does.
        blind: people judge before they see adapters, scores and what others said; the answers stand in an order by lot.
    Raises:
        FieldError: naming the field.
    """

    NOUN: ClassVar[str] = "review policy"

    who: Who = choice("human", get_args(Who))
    rate: float = number(1.0, 0, 1)
    uncertain_spread: float | None = number(None, 0, 1, above=True)
    uncertain_margin: float | None = number(None, 0, 0.5)
    environments: tuple[str, ...] = several((), Text(32, 1), most=100, distinct=True)
    patience_s: int = number(86_400, 1, 365 * 24 * 3600)
    on_timeout: OnTimeout = choice("learn_without", get_args(OnTimeout))
    human_rate: float = number(1.0, 0, 1)
    double_review_rate: float = number(0.0, 0, 1)
    gold_rate: float = number(0.0, 0, 1)
    blind: bool = flag(True)
    undo_s: int = number(60, 0, 3600)
    ai_manager: str = text("", 32)
    model: str = text("", 200)
    hint_model: str = text("", 200)
    only_probed_judges: bool = flag(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_timeout == "ai" and self.who == "ai":
            raise self.refuse("on_timeout", wanted="learn_without or fail when who is 'ai'", found="ai")

    def reviews(self, environment: str) -> bool:
        """Whether the policy applies there."""
        return not self.environments or environment in self.environments


@dataclass(frozen=True)
class ReviewDecision:
    """Who is to review, one entry a review; nobody when empty. `reason` is what the manager reads."""

    reviewers: tuple[Reviewer, ...]
    reason: str


def decide(
    policy: ReviewPolicy,
    *,
    task_id: int | str,
    environment: str,
    spread: float | None,
    score: float | None,
    is_first: bool = False,
) -> ReviewDecision:
    """Who reviews this task; the same arguments always give the same decision.

    Args:
        is_first: no person was asked about any other task of the project yet.
        spread: max - min of the judge's votes; None when nothing was voted on.
        score: the combined score in [0, 1]; None when nobody could score it.
    Raises:
        FieldError: a spread or score out of [0, 1].
    """
    for name, value in (("spread", spread), ("score", score)):
        if not SHARE.accepts(value):
            raise FieldError.at(name, wanted=SHARE.wanted, found=value)
    if policy.who == "none":
        return ReviewDecision((), "the policy asks for no reviews")
    if not policy.reviews(environment):
        return ReviewDecision((), f"the policy does not review {environment}")
    uncertainty = reason = _find_uncertainty(policy, spread, score)
    if _is_drawn("review", task_id, policy.rate):
        reason = reason or f"sampled for review ({100 * policy.rate:g} %)"
    if reason is None:
        return ReviewDecision((), f"not sampled for review ({100 * policy.rate:g} %), and not uncertain")
    if policy.who == "both" and policy.human_rate < 1:
        # the same words whoever was drawn, so that a reason tells nobody which item is gold
        reason = f"{reason}; a person reviews {100 * policy.human_rate:.3g} % of these"
        if not (uncertainty or is_first or _is_drawn("person", task_id, policy.human_rate)):
            return ReviewDecision(("ai",), reason)
    reviewers: tuple[Reviewer, ...] = ("ai", "human") if policy.who == "both" else (policy.who,)
    if _is_drawn("double review", task_id, policy.double_review_rate):
        return ReviewDecision((*reviewers, reviewers[-1]), f"{reason}; sampled for a second opinion")
    return ReviewDecision(reviewers, reason)


def _find_uncertainty(policy: ReviewPolicy, spread: float | None, score: float | None) -> str | None:
    looks = policy.uncertain_spread is not None or policy.uncertain_margin is not None
    if looks and score is None:
        return "uncertain: nobody could score it"
    if policy.uncertain_spread is not None and spread is not None and spread >= policy.uncertain_spread:
        return f"uncertain: votes {spread:.2f} apart, the policy asks from {policy.uncertain_spread:.2f}"
    if policy.uncertain_margin is not None and score is not None and abs(score - 0.5) <= policy.uncertain_margin:
        return f"uncertain: score {score:.2f} lies within {policy.uncertain_margin:.2f} of 0.50"
    return None


def _is_drawn(purpose: str, task_id: int | str, rate: float) -> bool:
    """Whether the task is among the share `rate`, by SHA-256 of purpose and id."""
    digest = hashlib.sha256(f"{purpose}\x1f{task_id}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56 < rate  # 56 bits: exact in a float, and below 1
