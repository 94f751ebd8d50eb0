"""How long conversations are kept that taught nothing: where their project says so, they go in bounded parts."""

import logging
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.conversations.forgotten import HOLD_GATEWAYS
from apps.conversations.models import Conversation, Turn
from apps.conversations.policy import read_policy
from apps.inference.models import Exchange, Session
from apps.tasks.models import Attempt, EpisodeTurn, FurtherExchange, ShadowAttempt

logger = logging.getLogger(__name__)

AT_ONCE = 100
"""Sessions deleted in one transaction: gateways store nothing meanwhile."""
A_ROUND = 20
"""Transactions a round of the timetable at most, for each project."""


def delete_old_sessions(*, at_once: int = AT_ONCE, transactions: int = A_ROUND) -> int:
    """Delete a bounded part of what is kept no longer, and write how many. Returns how many sessions."""
    deleted = 0
    for project in Project.objects.filter(session_policy__has_key="keep_days").order_by("pk"):
        try:
            days = read_policy(project).keep_days
        except BadInputError as error:
            logger.warning("%s", error)
            continue
        for _ in range(transactions if days is not None else 0):
            assert days is not None
            count = _delete_part(project, days, at_once)
            deleted += count
            if count < at_once:
                break
    return deleted


def _delete_part(project: Project, days: int, most: int) -> int:
    if not _find_old(project, days).exists():
        return 0
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(HOLD_GATEWAYS)
        chosen = list(_find_old(project, days).order_by("pk").values_list("pk", flat=True)[:most])
        # who cuts a session or makes a task of a turn holds it: that is waited for, and looked at again
        list(Conversation.objects.select_for_update().filter(pk__in=chosen).order_by("pk").values_list("pk"))
        list(Turn.objects.select_for_update().filter(session__in=chosen).order_by("pk").values_list("pk"))
        chosen = list(_find_old(project, days).filter(pk__in=chosen).values_list("pk", flat=True))
        if not chosen:
            return 0
        exchanges = Exchange.objects.filter(session__in=chosen)
        payload = {
            "sessions": len(chosen),
            "exchanges": exchanges.count(),
            "turns": Turn.objects.filter(session__in=chosen).count(),
            "keep_days": days,
        }
        Session.objects.filter(pk__in=chosen).delete()
        record(Kind.SESSIONS_DELETED, subject=project, by="retention", payload=payload)
    return len(chosen)


def _find_old(project: Project, days: int) -> QuerySet[Session]:
    """Sessions of nobody's task, with nothing left to be read in them, that nothing was said in for so long."""
    theirs = Exchange.objects.filter(session=OuterRef("pk"))
    work = Q(task_id__isnull=False)
    for model in (Attempt, FurtherExchange, ShadowAttempt, EpisodeTurn):
        work |= Q(Exists(model._base_manager.filter(exchange=OuterRef("pk"))))
    elsewhere = Exchange.objects.filter(parent__session=OuterRef("pk")).filter(
        Q(session=None) | ~Q(session=OuterRef("pk"))
    )
    of_use = Turn.objects.filter(session=OuterRef("pk")).exclude(state=Turn.State.SETTLED, task=None)
    return Session.objects.filter(
        ~Exists(theirs.filter(work)),
        ~Exists(elsewhere),
        ~Exists(of_use),
        project=project,
        last_seen_at__lt=Now() - timedelta(days=days),
    )
