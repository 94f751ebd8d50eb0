"""Reviews and feedback."""

from typing import Any, ClassVar

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import ProjectFilterSet
from apps.api.lookup import find_project_for, find_row
from apps.api.permissions import current_user
from apps.api.serializers.judgement import (
    ClaimIn,
    FeedbackIn,
    FeedbackOut,
    ReviewOut,
    SkipIn,
    TaskFeedbackIn,
)
from apps.api.serializers.strict import NoFields
from apps.api.views.base import ResourceViewSet
from apps.feedback import services as feedback
from apps.feedback.models import Feedback, Review
from apps.feedback.services import StepWord
from apps.pipeline import flow
from apps.tasks.models import Task


class ReviewFilterSet(ProjectFilterSet):
    state = filters.ChoiceFilter(choices=Review.State.choices)
    audience = filters.ChoiceFilter(choices=Review.Audience.choices)
    task = filters.NumberFilter(field_name="task_id")

    class Meta:
        model = Review
        fields: ClassVar[list[str]] = []


class ReviewViewSet(ResourceViewSet):
    """Places for managers' judgements, oldest first."""

    queryset = Review.objects.select_related("project", "claimed_by", "task")
    serializer_class = ReviewOut
    filterset_class = ReviewFilterSet
    oldest_first = True
    rights: ClassVar = {
        "list": Right.REVIEWS_READ,
        "retrieve": Right.REVIEWS_READ,
        "claim_next": Right.REVIEWS_WRITE,
        "claim": Right.REVIEWS_WRITE,
        "release": Right.REVIEWS_WRITE,
        "feedback": Right.REVIEWS_WRITE,
        "skip": Right.REVIEWS_WRITE,
    }

    def retrieve(self, request: Request, pk: str) -> Response:
        return self.show(self.get_object())

    @extend_schema(request=ClaimIn, responses={200: ReviewOut, 204: None}, operation_id="reviews_claim_next")
    @action(detail=False, methods=["post"], url_path="claim")
    def claim_next(self, request: Request) -> Response:
        """Take the oldest open review that nobody has; 204 when there is none."""
        project = find_project_for(request, self.read_body(ClaimIn)["project"], Right.REVIEWS_WRITE)
        review = feedback.claim_review(project, current_user(request))
        return Response(status=204) if review is None else self.show(review)

    @extend_schema(request=NoFields)
    @action(detail=True, methods=["post"])
    def claim(self, request: Request, pk: str) -> Response:
        """Take this review; it is yours until the lease ends or you release it."""
        review = self.get_object()
        self.read_body(NoFields)
        return self.show(feedback.claim(review, current_user(request)))

    @extend_schema(request=NoFields)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str) -> Response:
        """Give a review back to the others."""
        review = self.get_object()
        self.read_body(NoFields)
        return self.show(feedback.release_review(review, current_user(request)))

    @extend_schema(request=FeedbackIn, responses={201: FeedbackOut})
    @action(detail=True, methods=["post"])
    def feedback(self, request: Request, pk: str) -> Response:
        """Close a review with your judgement."""
        review = self.get_object()
        words = read_words(self.read_body(FeedbackIn))
        return show_feedback(flow.give_feedback(review=review, by=current_user(request), **words))

    @extend_schema(request=SkipIn)
    @action(detail=True, methods=["post"])
    def skip(self, request: Request, pk: str) -> Response:
        """Leave a review to nobody."""
        review = self.get_object()
        reason = self.read_body(SkipIn)["reason"]
        flow.skip_review(review=review, by=current_user(request), reason=reason)
        review.refresh_from_db()
        return self.show(review)


class FeedbackFilterSet(ProjectFilterSet):
    source = filters.ChoiceFilter(choices=Feedback.Source.choices)
    task = filters.NumberFilter(field_name="task_id")
    author = filters.CharFilter()

    class Meta:
        model = Feedback
        fields: ClassVar[list[str]] = []


FEEDBACK = Feedback.objects.select_related("project", "preferred_attempt").prefetch_related(
    "steps__attempt", "steps__step"
)


class FeedbackViewSet(ResourceViewSet):
    """What managers said."""

    queryset = FEEDBACK
    serializer_class = FeedbackOut
    filterset_class = FeedbackFilterSet
    rights: ClassVar = {
        "list": Right.FEEDBACK_READ,
        "retrieve": Right.FEEDBACK_READ,
        "create": Right.FEEDBACK_WRITE,
    }

    def retrieve(self, request: Request, pk: str) -> Response:
        return self.show(self.get_object())

    @extend_schema(request=TaskFeedbackIn, responses={201: FeedbackOut})
    def create(self, request: Request) -> Response:
        """Judge a task that nobody asked about: what an agent or app sends when its user reacts."""
        body = self.read_body(TaskFeedbackIn)
        tasks = Task.objects.select_related("project", "worker")
        task = find_row(request, tasks, body.pop("task"), field="task", right=Right.FEEDBACK_WRITE)
        return show_feedback(flow.give_task_feedback(task=task, by=current_user(request), **read_words(body)))


def read_words(body: dict[str, Any]) -> dict[str, Any]:
    """The body in the service's terms."""
    steps = [
        StepWord(
            attempt_index=word.get("attempt", 0),
            step_index=word.get("index"),
            score=word.get("score"),
            comment=word.get("comment", ""),
        )
        for word in body.get("steps", ())
    ]
    return {
        "score": body.get("score"),
        "text": body.get("text", ""),
        "steps": steps,
        "preferred_attempt": body.get("preferred_attempt"),
        "edited_answer": body.get("edited_answer", ""),
    }


def show_feedback(given: Feedback) -> Response:
    return Response(FeedbackOut(FEEDBACK.get(pk=given.pk)).data, status=201)
