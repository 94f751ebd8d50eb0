"""Turns of conversations, words on them, and forgetting a person."""

from dataclasses import asdict
from typing import Any, ClassVar

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import ProjectFilterSet
from apps.api.lookup import find_project_for, find_row
from apps.api.permissions import current_user
from apps.api.serializers.conversations import ForgetIn, ForgetOut, TurnOut
from apps.api.serializers.judgement import FeedbackIn, FeedbackOut
from apps.api.views.base import ApiView, ResourceViewSet
from apps.api.views.feedback import read_words, show_feedback
from apps.conversations.models import Turn
from apps.conversations.services import hash_subject
from apps.inference.models import Exchange, Session
from apps.pipeline import flow
from apps.pipeline.forgetting import find_person, forget_person


class TurnFilterSet(ProjectFilterSet):
    session = filters.NumberFilter(field_name="session_id")
    task = filters.NumberFilter(field_name="task_id")
    state = filters.ChoiceFilter(choices=Turn.State.choices)

    class Meta:
        model = Turn
        fields: ClassVar[list[str]] = []


class TurnViewSet(ResourceViewSet):
    """Turns of conversations, and what their next words showed. An agent sees its own."""

    queryset = Turn.objects.select_related("project").prefetch_related("signals")
    serializer_class = TurnOut
    filterset_class = TurnFilterSet
    rights: ClassVar = {"list": Right.SESSIONS_READ, "retrieve": Right.SESSIONS_READ}

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        user: Any = self.request.user
        return rows.filter(session__agent=user.handle) if getattr(user, "is_agent", False) else rows

    def retrieve(self, request: Request, pk: str) -> Response:
        return self.show(self.get_object())


SPEAKING = [OpenApiExample("The user was not content", {"score": 0, "text": "The fee was missing."}, request_only=True)]


class SessionFeedbackView(ApiView):
    """A word on a conversation's last answer."""

    rights: ClassVar = {"post": Right.FEEDBACK_WRITE}

    @extend_schema(request=FeedbackIn, responses={201: FeedbackOut}, examples=SPEAKING)
    def post(self, request: Request, pk: str) -> Response:
        """Judge the last answer of a conversation: what an agent or app sends when its user reacts. It beats what the
        user's next words show; 409 says why an answer cannot be learnt from."""
        session = find_row(
            request, own_of(request, Session.objects.select_related("project")), int(pk), field="session",
            right=Right.FEEDBACK_WRITE,
        )  # fmt: skip
        words = read_words(self.read_body(FeedbackIn))
        return show_feedback(flow.give_conversation_feedback(session=session, by=current_user(request), **words))


class ExchangeFeedbackView(ApiView):
    """A word on one answer."""

    rights: ClassVar = {"post": Right.FEEDBACK_WRITE}

    @extend_schema(request=FeedbackIn, responses={201: FeedbackOut}, examples=SPEAKING)
    def post(self, request: Request, pk: str) -> Response:
        """Judge one answer, by its exchange's number; see the session's."""
        rows = Exchange.objects.select_related("project", "session__project").filter(session__isnull=False)
        exchange = find_row(request, own_of(request, rows), int(pk), field="exchange", right=Right.FEEDBACK_WRITE)
        session: Any = exchange.session
        words = read_words(self.read_body(FeedbackIn))
        given = flow.give_conversation_feedback(session=session, exchange=exchange, by=current_user(request), **words)
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


def own_of(request: Request, rows: QuerySet[Any]) -> QuerySet[Any]:
    """An agent speaks of its own conversations only."""
    user = current_user(request)
    return rows.filter(agent=user.handle) if user.is_agent else rows
