"""How long each table is kept: what only steered the work goes after a while, what learning can be traced by stays."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import ApiToken, BrowserSession
from apps.outbox.models import Segment
from apps.pipeline.file_retention import DIRECTORY_RULES
from apps.webhooks.models import Delivery
from tentalis.env import PREFIX, VARIABLES

logger = logging.getLogger(__name__)

AT_ONCE = 500
"""Rows deleted in one transaction."""
A_ROUND = 20
"""Transactions a round of the timetable at most; the next one goes on."""


@dataclass(frozen=True)
class KeepingRule:
    """What becomes of a table's rows.

    Args:
        words: what is kept and why, or when it goes.
        find: rows that are kept no longer, by the database's clock; None: its app deletes them, or nobody does.
        setting: name of the setting of its days, without prefix; "" where there is none.
    """

    words: str
    find: Callable[[], QuerySet[Any]] | None = None
    setting: str = ""


WORK, DELIVERIES, TOKENS = "RETENTION_WORK_DAYS", "RETENTION_DELIVERY_DAYS", "RETENTION_TOKEN_DAYS"


def _older(setting: str) -> Any:
    return Now() - timedelta(days=settings.TENTALIS[setting])


def _ended_segments() -> QuerySet[Any]:
    ended = Segment.objects.filter(state__in=(Segment.State.DONE, Segment.State.CANCELLED))
    return ended.filter(finished_at__lt=_older(WORK)).order_by("finished_at")


def _dead_deliveries() -> QuerySet[Any]:
    return Delivery.objects.filter(state=Delivery.State.DEAD, ended_at__lt=_older(DELIVERIES)).order_by("pk")


def _ended_tokens() -> QuerySet[Any]:
    is_over = Q(expires_at__lt=_older(TOKENS)) | Q(revoked_at__lt=_older(TOKENS))
    return ApiToken.objects.filter(is_over).order_by("pk")


def _ended_sessions() -> QuerySet[Any]:
    return BrowserSession.objects.filter(expire_date__lt=Now()).order_by("expire_date")


SETTING = KeepingRule("a person's or a project's own setting: kept until it is deleted")
TRACED = KeepingRule("every number is traced by it, from adapter to person: kept; `forget` deletes a person's")
EVIDENCE = KeepingRule("evidence of what was done and by whom: kept")
CONVERSED = KeepingRule(
    "kept, as all that is traced; what taught nothing goes after `keep_days` of its project's `session_policy`, where "
    "that says any"
)
FEW = KeepingRule("one row for each thing that is: does not grow with use")

RULES: Mapping[str, KeepingRule] = {
    "outbox.Segment": KeepingRule(
        "done and cancelled: that long; failed work until somebody replays it", _ended_segments, WORK
    ),
    "webhooks.Delivery": KeepingRule("delivered: 30 days (its app); given up: that long", _dead_deliveries, DELIVERIES),
    "accounts.ApiToken": KeepingRule(
        "that long after it expired or was revoked; the audit keeps who made it", _ended_tokens, TOKENS
    ),
    "accounts.BrowserSession": KeepingRule("until it expires", _ended_sessions),
    "api.IdempotencyKey": KeepingRule("72 hours (its app)"),
    "conversations.Forgetting": KeepingRule("kept as evidence; its sealed subject goes after 72 hours (its app)"),
    "accounts.Invitation": KeepingRule("kept: who was offered what, and what became of it"),
    "evals.TryRecord": KeepingRule(
        "what came of each try that people asked for: kept with it, looked at and graded anew, never trained on; "
        "`forget` deletes its project's"
    ),
    "feedback.ReviewDraft": KeepingRule("until the review is closed for good (its app)"),
    **dict.fromkeys(("inference.Session", "inference.Exchange"), CONVERSED),
    **dict.fromkeys(("audit.AuditEntry", "audit.AuditEpoch", "audit.AuditSeal", "admin.LogEntry"), EVIDENCE),
    **dict.fromkeys(
        (
            *("accounts.AuthenticatorApp", "accounts.Passkey", "accounts.RecoveryCode"),
            *("accounts.Member", "accounts.Project", "accounts.User", "auth.Group", "console.Preference"),
            *("console.SavedView", "inference.Price", "inference.Provider", "inference.ProviderGrant"),
            *(
                "checks.NamedCheck",
                "skills.Skill",
                "webhooks.Webhook",
                "workers.Ensemble",
                "workers.Worker",
                *("evals.Benchmark", "evals.ChosenPanel", "evals.Taskset"),
                "feedback.GoldItem",
            ),
        ),
        SETTING,
    ),
    **dict.fromkeys(
        (
            *("adapters.Deployment", "auth.Permission", "contenttypes.ContentType", "inference.SpoolPosition"),
            *("operations.Alarm", "operations.ServerLook", "operations.SpanCursor", "training.GpuLease"),
            *("calibration.FavourScreen", "calibration.Rater"),
        ),
        FEW,
    ),
    **dict.fromkeys(
        (
            *("adapters.Adapter", "adapters.Shadow", "adapters.Verdict", "evals.Evaluation", "evals.ItemTry"),
            *("evals.HumanGrade", "evals.RegressionCase"),
            *("regrading.Regrading", "regrading.Regrade"),
            "judges.JudgeProbe",
            "gate.AnswerPair",
            *("calibration.Comparison", "conversations.Conversation", "conversations.Turn"),
            *("conversations.TurnExchange", "conversations.TurnSignal", "evals.Item"),
            *("evals.Experiment", "evals.Scenario", "feedback.BulkJudgement"),
            *("feedback.Feedback", "feedback.Hint", "feedback.Review", "feedback.ReviewSkip"),
            *("feedback.RowImport", "feedback.StepFeedback", "rollouts.Batch"),
            *("rollouts.Demonstration", "rollouts.PreferencePair", "rollouts.Rollout", "rollouts.TrainingUse"),
            *("scoring.RewardModel", "scoring.StepLabel", "scoring.StepScore", "supervision.Proposal"),
            *(
                "tasks.Attempt",
                "tasks.FurtherExchange",
                "tasks.ShadowAttempt",
                "tasks.Step",
                "tasks.Task",
                "tasks.EpisodeTurn",
            ),
            *(
                "training.Course",
                "training.CourseRound",
                "training.ManagerRun",
                "training.RewardAnswer",
                "training.RewardEndpoint",
                "training.TrainingRun",
            ),
            "worlds.WorldCertificate",
            "worlds.RepoTaskAdmission",
        ),
        TRACED,
    ),
}
"""Model -> its rule. A model without one fails a test."""


def delete_old(*, at_once: int = AT_ONCE, transactions: int = A_ROUND) -> dict[str, int]:
    """Delete what is kept no longer, a bounded part of it. Returns how many rows of each table."""
    deleted: dict[str, int] = {}
    for label, rule in RULES.items():
        for _ in range(transactions if rule.find is not None else 0):
            assert rule.find is not None
            chosen = list(rule.find().values_list("pk", flat=True)[:at_once])
            if chosen:
                deleted[label] = deleted.get(label, 0) + len(chosen)
                rule.find().model.objects.filter(pk__in=chosen).delete()
            if len(chosen) < at_once:
                break
    if deleted:
        logger.info("kept no longer: %s", ", ".join(f"{count} of {label}" for label, count in deleted.items()))
    return deleted


def describe() -> str:
    """All rules as tables in Markdown, for the manual."""
    lines = ["| rows of | kept | days |", "|---|---|---|"]
    by_rule: dict[KeepingRule, list[str]] = {}
    for label, rule in RULES.items():
        by_rule.setdefault(rule, []).append(f"`{label}`")
    for rule, labels in by_rule.items():
        lines.append(f"| {', '.join(sorted(labels))} | {rule.words} | {_describe_days(rule.setting)} |")
    lines += ["", "| files in | kept | days |", "|---|---|---|"]
    for name, directory in DIRECTORY_RULES.items():
        lines.append(f"| `{name}/` | {directory.words} | {_describe_days(directory.setting)} |")
    return "\n".join(lines) + "\n"


def _describe_days(setting: str) -> str:
    return f"`{PREFIX}{setting}`, {VARIABLES[PREFIX + setting].default}" if setting else ""
