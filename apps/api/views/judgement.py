"""Reviews: found, taken, given back, passed on, assigned, drafted, closed with a judgement."""

from collections.abc import Mapping
from typing import ClassVar

from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.api.filters import ProjectFilterSet
from apps.api.lookup import refuse
from apps.api.permissions import by_right, current_user
from apps.api.serializers.judgement import (
    AssignIn,
    ClaimIn,
    DraftIn,
    DraftOut,
    FeedbackOut,
    ReviewFeedbackIn,
    ReviewOut,
    SkipIn,
)
from apps.api.views.base import ResourceViewSet, command
from apps.api.views.feedback import read_words, show_feedback
from apps.feedback import claims, drafts
from apps.feedback.models import Review
from apps.feedback.queue import QueueFilter
from apps.finding.reviews import ReviewFilters
from apps.pipeline import flow

JUDGING = [
    OpenApiExample("A score", {"score": 0.5, "text": "Right, and not polite."}, request_only=True),
    OpenApiExample(
        "Steps, with a marked stretch",
        {
            "steps": [
                {"attempt": 0, "index": 1, "score": 0, "comment": "No such fee.", "spans": [[4, 11, "made up"]]},
                {"attempt": 0, "index": 2, "score": 1},
            ],
            "hint_text": "Look the fee up before you add it.",
        },
        request_only=True,
    ),
    OpenApiExample(
        "A ranking, none good", {"ranking": [[1], [0, 2]], "none_good": True, "undo_s": 60}, request_only=True
    ),
]
PASSING = [
    OpenApiExample("To the others", {"reason": "I know nothing of fees.", "then": "others"}, request_only=True),
    OpenApiExample("To an expert", {"reason": "A legal question.", "then": "expert"}, request_only=True),
]
DRAFTING = [OpenApiExample("The first", {"version": 0, "data": {"text": "Right, and"}}, request_only=True)]


class ReviewFilterSet(ReviewFilters, ProjectFilterSet):
    state = filters.ChoiceFilter(choices=Review.State.choices)
    audience = filters.ChoiceFilter(choices=Review.Audience.choices)
    task = filters.NumberFilter(field_name="task_id")


class ReviewViewSet(ResourceViewSet):
    """Places for managers' judgements, oldest first."""

    queryset = Review.objects.select_related("project", "claimed_by", "assigned_to", "task")
    serializer_class = ReviewOut
    filterset_class = ReviewFilterSet
    oldest_first = True
    rights: ClassVar = by_right(
        {
            Right.REVIEWS_READ: "list retrieve",
            Right.REVIEWS_WRITE: "claim_next claim renew release assign draft save_draft feedback skip",
        }
    )

    @extend_schema(request=ClaimIn, responses={200: ReviewOut, 204: None}, operation_id="reviews_claim_next")
    @action(detail=False, methods=["post"], url_path="claim")
    def claim_next(self, request: Request) -> Response:
        """Take the next open review that nobody has, by the queue's order; 204 when there is none."""
        project, body = self.read_placed(ClaimIn)
        review = claims.claim_review(project, current_user(request), QueueFilter(**body))
        return Response(status=204) if review is None else self.show(review)

    @command()
    def claim(self, request: Request, pk: str) -> Response:
        """Take this review; it is yours until the lease ends or you release it."""
        return self.show(claims.claim(self.take_row(), current_user(request)))

    @command()
    def renew(self, request: Request, pk: str) -> Response:
        """Keep a review that you have for another ten minutes; 409 when it is not yours any more."""
        return self.show(claims.renew_claim(self.take_row(), current_user(request)))

    @command()
    def release(self, request: Request, pk: str) -> Response:
        """Give a review back to the others."""
        return self.show(claims.release_review(self.take_row(), current_user(request)))

    @command(request=AssignIn, examples=[OpenApiExample("To Bob", {"to": "bob"}, request_only=True)])
    def assign(self, request: Request, pk: str) -> Response:
        """Say whose a review is: as a manager anybody's, else your own."""
        review = self.get_object()
        name = self.read_body(AssignIn)["to"]
        to = None
        if name is not None:
            to = User.objects.filter(username=name, memberships__project=review.project).first()
            if to is None:
                raise refuse("to", "member", name)
        return self.show(claims.assign_review(review=review, to=to, by=current_user(request)))

    @extend_schema(responses={200: DraftOut, 204: None}, operation_id="reviews_draft_read")
    @action(detail=True, methods=["get"])
    def draft(self, request: Request, pk: str) -> Response:
        """What you typed and have not sent; 204 when there is nothing."""
        self.check_no_parameters()
        draft = drafts.find_draft(self.get_object(), current_user(request))
        return Response(status=204) if draft is None else Response(DraftOut(draft).data)

    @extend_schema(request=DraftIn, responses=DraftOut, examples=DRAFTING, operation_id="reviews_draft_save")
    @draft.mapping.put
    def save_draft(self, request: Request, pk: str) -> Response:
        """Keep what you typed, whoever holds the review. 409 when a newer one stands, which `newer` is."""
        review = self.get_object()
        body = self.read_body(DraftIn)
        draft = drafts.save_draft(review=review, by=current_user(request), **body)
        return Response(DraftOut(draft).data)

    @command(request=ReviewFeedbackIn, responses={201: FeedbackOut}, examples=JUDGING)
    def feedback(self, request: Request, pk: str) -> Response:
        """Close a review with your judgement. With `undo_s` nothing learns from it before that is over."""
        review = self.get_object()
        body = self.read_body(ReviewFeedbackIn)
        undo_s = body.pop("undo_s", 0)
        by = current_user(request)
        return show_feedback(flow.give_feedback(review=review, by=by, undo_s=undo_s, **read_words(body)))

    @command(request=SkipIn, examples=PASSING)
    def skip(self, request: Request, pk: str) -> Response:
        """Pass a review over, with a reason: to nobody, to later, to the others, to an expert."""
        review = self.get_object()
        body: Mapping[str, str] = self.read_body(SkipIn)
        flow.skip_review(review=review, by=current_user(request), **body)
        review.refresh_from_db()
        return self.show(review)
