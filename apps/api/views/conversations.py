"""Turns of conversations, words on them, and forgetting a person."""

import time
from dataclasses import asdict
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.lookup import find_project_for, find_row, refuse
from apps.api.permissions import current_user, visible_projects
from apps.api.serializers.conversations import ForgetIn, ForgetOut, TurnOut
from apps.api.serializers.judgement import FeedbackIn, FeedbackOut
from apps.api.views.base import ApiView, ResourceViewSet
from apps.api.views.feedback import read_words, show_feedback
from apps.api.views.sessions import WHICH, match_exchange
from apps.base.errors import BadInputError
from apps.conversations.forgotten import hash_subject
from apps.conversations.models import Turn
from apps.erasure.erase import find_person, forget_person
from apps.finding.search import MAX_DIGITS
from apps.inference.models import Exchange, Session
from apps.pipeline import conversing


class TurnViewSet(ResourceViewSet):
    """Turns of conversations, and what their next words showed. An agent sees its own."""

    queryset = Turn.objects.select_related("project").prefetch_related("signals")
    serializer_class = TurnOut
    filterset_class = filter_by(Turn, "session", "task", "state")
    rights: ClassVar = {"list": Right.SESSIONS_READ, "retrieve": Right.SESSIONS_READ}

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        user: Any = self.request.user
        return rows.filter(session__agent=user.handle) if getattr(user, "is_agent", False) else rows


SESSION = OpenApiParameter(
    "id", OpenApiTypes.STR, OpenApiParameter.PATH, description="Its number, or the key that its caller named it by."
)
EXCHANGE = OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, description=WHICH)
STORED_WITHIN_S = 1.0
"""The gateway answers a moment before what it answered is stored."""
LOOK_EVERY_S = 0.1
MOST_NAMED = 10
SPEAKING = [OpenApiExample("The user was not content", {"score": 0, "text": "The fee was missing."}, request_only=True)]


class SessionFeedbackView(ApiView):
    """A word on a conversation's last answer."""

    rights: ClassVar = {"post": Right.FEEDBACK_WRITE}

    @extend_schema(parameters=[SESSION], request=FeedbackIn, responses={201: FeedbackOut}, examples=SPEAKING)
    def post(self, request: Request, pk: str) -> Response:
        """Judge the last answer of a conversation: what an agent or app sends when its user reacts. It beats what the
        user's next words show; 409 says why an answer cannot be learnt from."""
        session = find_session(request, pk, right=Right.FEEDBACK_WRITE)
        words = read_words(self.read_body(FeedbackIn))
        return show_feedback(conversing.give_conversation_feedback(session=session, by=current_user(request), **words))


class ExchangeFeedbackView(ApiView):
    """A word on one answer."""

    rights: ClassVar = {"post": Right.FEEDBACK_WRITE}

    @extend_schema(parameters=[EXCHANGE], request=FeedbackIn, responses={201: FeedbackOut}, examples=SPEAKING)
    def post(self, request: Request, pk: str) -> Response:
        """Judge one answer, by any id that its caller has of it; see the session's."""
        exchange = find_exchange(request, pk, right=Right.FEEDBACK_WRITE)
        session: Any = exchange.session
        words = read_words(self.read_body(FeedbackIn))
        given = conversing.give_conversation_feedback(
            session=session, exchange=exchange, by=current_user(request), **words
        )
        return show_feedback(given)


class ForgetView(ApiView):
    """Deleting what is known of a person."""

    takes_proof = frozenset({"post"})
    rights: ClassVar = {"post": Right.PROJECTS_WRITE}

    @extend_schema(
        request=ForgetIn,
        responses=ForgetOut,
        examples=[OpenApiExample("Look first", {"end_user": "grace", "dry_run": True}, request_only=True)],
    )
    def post(self, request: Request, slug: str) -> Response:
        """Delete a person's conversations, and the tasks, feedback, hints and rollouts made of them; have the adapters
        that learnt from them made again without. Without `"dry_run": false` it only counts. Owners alone."""
        project = find_project_for(request, slug, Right.PROJECTS_WRITE)
        body = self.read_body(ForgetIn)
        dry_run = body.pop("dry_run", True)
        subject = body.get("end_user") or body.get("text", "")
        by = current_user(request)
        if dry_run:
            found = find_person(project=project, by=by, **body)
        else:
            found = forget_person(project=project, by=by, **body)
        data = {"dry_run": dry_run, "subject_hash": hash_subject(subject), **asdict(found)}
        return Response(ForgetOut(data).data)


def find_session(request: Request, text: str, *, right: Right) -> Session:
    """By its number, or by its caller's key where one session alone has that.

    Raises:
        NotFoundError, NotAllowedError: as `find_row`. BadInputError: several have the key.
    """
    rows: QuerySet[Session] = own_of(request, Session.objects.select_related("project"))
    seen = rows.filter(project__in=visible_projects(request))
    is_number = text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS
    found = list(seen.filter(pk=int(text))) if is_number else []
    found = found or list(seen.filter(key=text).order_by("pk")[:MOST_NAMED])
    if len(found) > 1:
        numbers = ", ".join(str(session.pk) for session in found)
        message = f"session: several have the key {text[:80]!r}; name one by its number: {numbers}"
        raise BadInputError(message, errors={"session": [message]})
    if not found:
        raise refuse("session", "session", text)
    return find_row(request, rows, found[0].pk, field="session", right=right)


def find_exchange(request: Request, text: str, *, right: Right) -> Exchange:
    """By any id that `match_exchange` knows. What was just answered is given a moment to be stored.

    Raises:
        NotFoundError, NotAllowedError: as `find_row`.
    """
    try:
        wanted = match_exchange(text)
    except Http404:
        raise refuse("exchange", "exchange", text) from None
    rows = Exchange.objects.select_related("project", "session__project").filter(session__isnull=False)
    seen = own_of(request, rows).filter(wanted, project__in=visible_projects(request)).order_by("pk")
    until = time.monotonic() + (0 if text.isdecimal() else STORED_WITHIN_S)
    while (found := seen.first()) is None and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
    if found is None:
        raise refuse("exchange", "exchange", text)
    return find_row(request, rows, found.pk, field="exchange", right=right)


def own_of(request: Request, rows: QuerySet[Any]) -> QuerySet[Any]:
    """An agent speaks of its own conversations only."""
    user = current_user(request)
    return rows.filter(agent=user.handle) if user.is_agent else rows
