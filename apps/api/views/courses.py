"""Courses: a worker learns a benchmark."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.lookup import find_row, find_worker
from apps.api.permissions import by_right, current_user
from apps.api.serializers.courses import CourseIn, CourseOut, LearningCurveOut
from apps.api.views.base import ResourceViewSet, command
from apps.evals.models import Benchmark
from apps.pipeline.courses import start_course
from apps.training import courses
from apps.training.models import Course


class CourseViewSet(ResourceViewSet):
    """Rounds of tasks of a benchmark, each followed by a training and the gate."""

    queryset = Course.objects.select_related("project", "worker", "benchmark")
    serializer_class = CourseOut
    filterset_class = filter_by(Course, "worker", "benchmark", "state")
    rights: ClassVar = by_right(
        {Right.RUNS_READ: "list retrieve curve", Right.RUNS_WRITE: "create pause resume cancel"}
    )

    @extend_schema(request=CourseIn, responses={201: CourseOut})
    def create(self, request: Request) -> Response:
        """Have a worker learn a benchmark: its train split is worked on, its held-out split is the gate's panel."""
        project, body = self.read_placed(CourseIn)
        body["worker"] = find_worker(project, body["worker"])
        rows = Benchmark.objects.filter(project=project).select_related("taskset")
        body["benchmark"] = find_row(request, rows, body["benchmark"], field="benchmark", right=Right.EVALS_READ)
        return self.show(start_course(by=current_user(request), **body), 201)

    @extend_schema(responses=LearningCurveOut, filters=False)
    @action(detail=True, filterset_class=None, serializer_class=LearningCurveOut)
    def curve(self, request: Request, pk: str) -> Response:
        """What the gate measured of the held-out items after each round, with intervals."""
        course = self.get_object()
        self.check_no_parameters()
        return Response(LearningCurveOut({"results": courses.list_curve(course)}).data)

    @command()
    def pause(self, request: Request, pk: str) -> Response:
        """Begin no further round; the one under way goes on to its end."""
        return self.show(courses.pause_course(course=self.take_row(), by=current_user(request)))

    @command()
    def resume(self, request: Request, pk: str) -> Response:
        """Let a paused or failed one go on."""
        return self.show(courses.resume_course(course=self.take_row(), by=current_user(request)))

    @command()
    def cancel(self, request: Request, pk: str) -> Response:
        """End it for good; what is under way goes on by itself."""
        return self.show(courses.cancel_course(course=self.take_row(), by=current_user(request)))
