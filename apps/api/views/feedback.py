"""What managers said: read, given unasked, taken back, disputed."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import ProjectFilterSet
from apps.api.lookup import find_row
from apps.api.permissions import by_right, current_user
from apps.api.serializers.evaluations import RegressionCaseOut, RightAnswerIn
from apps.api.serializers.judgement import (
    AppealIn,
    EffectOut,
    FeedbackDetailOut,
    FeedbackOut,
    ReasonIn,
    ReviewOut,
    TaskFeedbackIn,
)
from apps.api.views.base import ResourceViewSet, command
from apps.feedback import appeals, submit
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback
from apps.finding.feedback import FeedbackFilters
from apps.pipeline import judging
from apps.rollouts.regressions import keep_feedback
from apps.tasks.models import Task


class FeedbackFilterSet(FeedbackFilters, ProjectFilterSet):
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
    rights: ClassVar = by_right(
        {
            Right.FEEDBACK_READ: "list retrieve",
            Right.FEEDBACK_WRITE: "create retract appeal",
            Right.REVIEWS_WRITE: "undo",
            Right.EVALS_WRITE: "keep",
        }
    )

    def get_queryset(self) -> QuerySet[Any]:
        """What is visible, but for others' words on a task while somebody is asked about it blindly."""
        rows: Any = super().get_queryset()
        if not getattr(self, "swagger_fake_view", False):
            rows = rows.readable_by(current_user(self.request))
        visible: QuerySet[Any] = rows
        return visible

    def get_serializer_class(self) -> Any:
        return FeedbackDetailOut if self.action == "retrieve" else super().get_serializer_class()

    @extend_schema(request=TaskFeedbackIn, responses={201: FeedbackOut})
    def create(self, request: Request) -> Response:
        """Judge a task that nobody asked about: what an agent or app sends when its user reacts."""
        body = self.read_body(TaskFeedbackIn)
        tasks = Task.objects.select_related("project", "worker")
        task = find_row(request, tasks, body.pop("task"), field="task", right=Right.FEEDBACK_WRITE)
        return show_feedback(submit.give_task_feedback(task=task, by=current_user(request), **read_words(body)))

    @command(responses=ReviewOut)
    def undo(self, request: Request, pk: str) -> Response:
        """Take your judgement back as if it had not been, until `undo_until`: the review is yours again, with its
        draft. 409 when it is too late; it can be retracted then."""
        feedback = self.take_row()
        review = judging.undo(feedback, by=current_user(request))
        return Response(ReviewOut(review).data)

    @command(
        request=ReasonIn,
        responses=EffectOut,
        examples=[OpenApiExample("A mistake", {"reason": "I read the wrong rubric."}, request_only=True)],
    )
    def retract(self, request: Request, pk: str) -> Response:
        """Let a judgement count for nothing from now on: your own, or as a manager anybody's. `effect` says what had
        learnt from it. Sent again it answers the same."""
        feedback = self.get_object()
        reason = self.read_body(ReasonIn)["reason"]
        effect = judging.retract(feedback, by=current_user(request), reason=reason)
        return Response({"feedback": FeedbackOut(FEEDBACK.get(pk=feedback.pk)).data, "effect": effect})

    @command(request=RightAnswerIn, responses={201: RegressionCaseOut})
    def keep(self, request: Request, pk: str) -> Response:
        """Make a person's correction a regression case: an item that is only ever measured on."""
        feedback = self.get_object()
        body = self.read_body(RightAnswerIn)
        case = keep_feedback(feedback=feedback, by=current_user(request), **body)
        return Response(RegressionCaseOut(case, context=self.get_serializer_context()).data, status=201)

    @command(
        request=AppealIn,
        responses={201: ReviewOut},
        examples=[OpenApiExample("A wrong judgement", {"reason": "Step 2 is right: the fee is 5."}, request_only=True)],
    )
    def appeal(self, request: Request, pk: str) -> Response:
        """Ask a third person about a judgement. Theirs retracts it where the two contradict each other."""
        feedback = self.get_object()
        reason = self.read_body(AppealIn)["reason"]
        review = appeals.open_appeal(feedback=feedback, by=current_user(request), reason=reason)
        return Response(ReviewOut(review).data, status=201)


def read_words(body: dict[str, Any]) -> dict[str, Any]:
    """The body in the service's terms."""
    steps = [
        StepRating(attempt_index=word.pop("attempt", 0), step_index=word.pop("index", None), **word)
        for word in body.get("steps", ())
    ]
    return {**body, "steps": steps}


def show_feedback(given: Feedback) -> Response:
    return Response(FeedbackOut(FEEDBACK.get(pk=given.pk)).data, status=201)
