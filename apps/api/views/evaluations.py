"""Evaluations, comparisons, experiments."""

from typing import ClassVar

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.adapters.models import Adapter
from apps.api.filters import filter_by
from apps.api.lookup import find_row, find_worker, refuse
from apps.api.permissions import by_right, current_user
from apps.api.serializers.evaluations import (
    ComparedTogetherOut,
    ConfoundsOut,
    EvaluationComparisonOut,
    EvaluationFiguresOut,
    EvaluationGoOnIn,
    EvaluationIn,
    EvaluationOut,
    ExperimentIn,
    ExperimentOut,
    HumanAgreementOut,
    HumanGradeIn,
    HumanGradeOut,
    ImportedRunOut,
    ItemTryOut,
    RecordedTryOut,
    RegressionCaseOut,
    RightAnswerIn,
    RunFileIn,
    ScenarioOut,
)
from apps.api.serializers.regradings import RegradingOut, RescoreIn
from apps.api.views.base import ApiView, ResourceViewSet, command
from apps.api.views.regradings import take_rule
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.packed_rows import read_base64
from apps.base.streaming import stream
from apps.evals import asking
from apps.evals.comparing import compare_evaluations, compare_together
from apps.evals.experiments import MOST_SCENARIOS, AskedScenario, answer_scenarios, make_experiment
from apps.evals.exporting import FORMS, export_run
from apps.evals.figures import find_figures
from apps.evals.human_grades import NOBODY, find_agreement, grade_try
from apps.evals.limits import RunLimits
from apps.evals.models import Benchmark, Evaluation, Experiment, ItemTry, Taskset
from apps.feedback.rights import find_managed
from apps.pipeline import flow
from apps.regrading.models import Regrading
from apps.reports.confounds import compare_lengths, find_confounds
from apps.rollouts.regressions import keep_try

EVALUATION = Evaluation.objects.select_related("project", "worker", "adapter", "taskset", "benchmark")


class EvaluationViewSet(ResourceViewSet):
    """How models did on sets of items: the gate's, and what people asked for."""

    queryset = EVALUATION
    serializer_class = EvaluationOut
    filterset_class = filter_by(Evaluation, "worker", "adapter", "purpose", "state", "taskset")
    rights: ClassVar = by_right(
        {
            Right.EVALS_READ: "list retrieve tries one_try figures agreement confounds export",
            Right.REVIEWS_WRITE: "grade",
            Right.EVALS_WRITE: "create import_run keep pause resume replay rescore cancel",
        }
    )

    @extend_schema(request=EvaluationIn, responses={201: EvaluationOut})
    def create(self, request: Request) -> Response:
        """Have a model try items. The very same is measured once: asked again, the answer is the one there is."""
        project, body = self.read_placed(EvaluationIn)
        body["worker"] = find_worker(project, body["worker"])
        if name := body.pop("adapter", ""):
            adapter = Adapter.objects.filter(project=project, name=name).first()
            if adapter is None:
                raise refuse("adapter", "adapter", name)
            body["adapter"] = adapter
        if (pk := body.pop("taskset", None)) is not None:
            body["taskset"] = find_row(
                request, Taskset.objects.filter(project=project), pk, field="taskset", right=Right.EVALS_READ
            )
        if (pk := body.pop("benchmark", None)) is not None:
            rows = Benchmark.objects.filter(project=project).select_related("taskset")
            body["benchmark"] = find_row(request, rows, pk, field="benchmark", right=Right.EVALS_READ)
        body["limits"] = RunLimits(**body.get("limits", {}))
        return self.show(flow.ask_evaluation(by=current_user(request), **body), 201)

    @extend_schema(responses=ItemTryOut(many=True), filters=False)
    @action(detail=True, filterset_class=None, serializer_class=ItemTryOut)
    def tries(self, request: Request, pk: str) -> Response:
        """Each try at an item, with its outcome or why there is none."""
        evaluation = self.get_object()
        self.check_no_parameters()
        return self.show_page(evaluation.item_tries.all(), ItemTryOut)

    @extend_schema(responses=RecordedTryOut, filters=False)
    @action(
        detail=True,
        url_path=r"tries/(?P<item_try>[0-9]{1,18})",
        filterset_class=None,
        serializer_class=RecordedTryOut,
    )
    def one_try(self, request: Request, pk: str, item_try: str) -> Response:
        """One try at an item, with its conversation, what was verified, and what it took."""
        self.check_no_parameters()
        return self.show(self._find_try(item_try))

    @extend_schema(request=HumanGradeIn, responses=HumanGradeOut, filters=False)
    @action(
        detail=True,
        methods=["post"],
        url_path=r"tries/(?P<item_try>[0-9]{1,18})/grade",
        pagination_class=None,
        filterset_class=None,
        serializer_class=HumanGradeOut,
    )
    def grade(self, request: Request, pk: str, item_try: str) -> Response:
        """Say how right a try's answer is. It stands beside the grader's word, which stays; said again, it is
        changed."""
        row = self._find_try(item_try)
        return self.show(grade_try(item_try=row, by=current_user(request), **self.read_body(HumanGradeIn)))

    @extend_schema(request=RightAnswerIn, responses={201: RegressionCaseOut}, filters=False)
    @action(
        detail=True,
        methods=["post"],
        url_path=r"tries/(?P<item_try>[0-9]{1,18})/keep",
        pagination_class=None,
        filterset_class=None,
        serializer_class=RegressionCaseOut,
    )
    def keep(self, request: Request, pk: str, item_try: str) -> Response:
        """Make its item a regression case, where a person's grade contradicts the grader's."""
        row = self._find_try(item_try)
        return self.show(keep_try(item_try=row, by=current_user(request), **self.read_body(RightAnswerIn)), 201)

    def _find_try(self, item_try: str) -> ItemTry:
        rows = self.get_object().item_tries.select_related(
            "record", "evaluation__project", "evaluation__worker", "evaluation__adapter", "evaluation__taskset"
        )
        row: ItemTry | None = rows.filter(pk=item_try).prefetch_related("human_grades").first()
        if row is None:
            raise refuse("try", "try", item_try)
        return row

    @extend_schema(responses=HumanAgreementOut, filters=False)
    @action(detail=True, filterset_class=None, serializer_class=HumanAgreementOut)
    def agreement(self, request: Request, pk: str) -> Response:
        """How far its graders agree with what people say of the same tries, and where they differ."""
        evaluation = self.get_object()
        self.check_no_parameters()
        return Response(HumanAgreementOut(find_agreement(evaluation) or NOBODY).data)

    @extend_schema(responses=EvaluationFiguresOut, filters=False)
    @action(detail=True, filterset_class=None, serializer_class=EvaluationFiguresOut)
    def figures(self, request: Request, pk: str) -> Response:
        """How sure the mean is, what k tries would do, and what is not known."""
        evaluation = self.get_object()
        self.check_no_parameters()
        return Response(EvaluationFiguresOut(find_figures(evaluation)).data)

    @extend_schema(responses=ConfoundsOut, filters=False)
    @action(detail=True, filterset_class=None, serializer_class=ConfoundsOut)
    def confounds(self, request: Request, pk: str) -> Response:
        """What may mislead: items that its adapter learnt, and outcomes that follow length."""
        evaluation = self.get_object()
        self.check_no_parameters()
        return Response(ConfoundsOut(find_confounds(evaluation)).data)

    @extend_schema(request=RunFileIn, responses={201: ImportedRunOut}, filters=False)
    @action(
        detail=False,
        methods=["post"],
        url_path="import",
        pagination_class=None,
        filterset_class=None,
        serializer_class=ImportedRunOut,
    )
    def import_run(self, request: Request) -> Response:
        """Take in a run that another tool made, all of it or nothing; of the very same file the answer is the run there
        is. Graded anew where a grader is named."""
        project, body = self.read_placed(RunFileIn)
        body["data"] = read_base64(body.pop("file"), field="file")
        if (results := body.pop("results", None)) is not None:
            body["results"] = results.encode()
        if name := body.pop("worker", ""):
            body["worker"] = find_worker(project, name)
        if name := body.pop("adapter", ""):
            adapter = Adapter.objects.filter(project=project, name=name).first()
            if adapter is None:
                raise refuse("adapter", "adapter", name)
            body["adapter"] = adapter
        made = flow.import_run(project=project, by=current_user(request), **body)
        return Response(ImportedRunOut(made, context=self.get_serializer_context()).data, status=201)

    @extend_schema(
        parameters=[OpenApiParameter("form", str, enum=list(FORMS), default="inspect")],
        responses={
            (200, media_type): OpenApiResponse(
                OpenApiTypes.OBJECT if media_type == "application/json" else OpenApiTypes.BINARY, f"The run as {name}."
            )
            for name, (_, media_type, _) in FORMS.items()
        },
        filters=False,
    )
    @action(detail=True, pagination_class=None, filterset_class=None)
    def export(self, request: Request, pk: str) -> StreamingHttpResponse:
        """The run as a file: a log of inspect_ai, a table, or a page to read. What is right is told to owners and
        managers of the project alone."""
        self.extra_parameters = {"form"}
        form = request.query_params.get("form", "inspect")
        if form not in FORMS:
            raise ValidationError({"form": [f"wanted one of {', '.join(FORMS)}, found {form[:40]!r}"]})
        evaluation = self.get_object()
        managed = find_managed(current_user(request))
        parts = export_run(evaluation, form, knows=managed is None or evaluation.project_id in managed)
        payload = {"source": "evaluation", "evaluation": evaluation.pk, "format": form}
        record(Kind.EXPORT_MADE, subject=evaluation.project, by=current_user(request).handle, payload=payload)
        _, media_type, ending = FORMS[form]
        filename = f"evaluation-{evaluation.pk}.{ending}"
        return stream(request._request, parts, media_type=media_type, filename=filename)

    @command()
    def pause(self, request: Request, pk: str) -> Response:
        """Begin no further block of tries; those under way are kept."""
        return self.show(asking.pause_evaluation(evaluation=self.take_row(), by=current_user(request)))

    @command(EvaluationGoOnIn)
    def resume(self, request: Request, pk: str) -> Response:
        """Let a paused one go on; one that failed tries again what could not be asked or graded."""
        evaluation, limits = self.get_object(), self._read_limits()
        return self.show(flow.resume_evaluation(evaluation=evaluation, by=current_user(request), limits=limits))

    @command(EvaluationGoOnIn)
    def replay(self, request: Request, pk: str) -> Response:
        """Ask the very prompts of a run once more, byte for byte, with the same sampling and seeds."""
        evaluation, limits = self.get_object(), self._read_limits()
        return self.show(flow.replay_evaluation(evaluation=evaluation, by=current_user(request), limits=limits))

    @command(RescoreIn, responses={201: RegradingOut}, filters=False)
    def rescore(self, request: Request, pk: str) -> Response:
        """Grade its answers anew, beside the grades they have; `GET regradings/{id}` says how far that is."""
        evaluation, body = self.get_object(), self.read_body(RescoreIn)
        made = flow.ask_regrading(
            project=evaluation.project,
            source=Regrading.Source.RUN,
            evaluation=evaluation,
            rule=take_rule(body),
            by=current_user(request),
            **body,
        )
        return Response(RegradingOut(made, context=self.get_serializer_context()).data, status=201)

    def _read_limits(self) -> RunLimits:
        return RunLimits(**self.read_body(EvaluationGoOnIn).get("limits", {}))

    @command()
    def cancel(self, request: Request, pk: str) -> Response:
        """Stop it for good; what was tried is kept."""
        return self.show(asking.cancel_evaluation(evaluation=self.take_row(), by=current_user(request)))


class ComparisonView(ApiView):
    """Two evaluations against each other."""

    rights: ClassVar = {"get": Right.EVALS_READ}

    @extend_schema(
        operation_id="comparisons_retrieve",
        parameters=[
            OpenApiParameter("a", int, required=True, description="The evaluation in question."),
            OpenApiParameter("b", int, required=True, description="What it is compared with."),
        ],
        responses=EvaluationComparisonOut,
    )
    def get(self, request: Request) -> Response:
        """The first minus the second, paired by item, with the interval and what so many items can show."""
        self.check_no_parameters("a", "b")
        rows = [_read_evaluation(request, name, request.query_params.get(name, "")) for name in ("a", "b")]
        return Response(EvaluationComparisonOut(compare_evaluations(*rows)).data)


class ComparedTogetherView(ApiView):
    """One evaluation against several."""

    rights: ClassVar = {"get": Right.EVALS_READ}

    @extend_schema(
        operation_id="comparisons_together_retrieve",
        parameters=[
            OpenApiParameter("a", int, required=True, description="The evaluation in question."),
            OpenApiParameter("b", str, required=True, description="Numbers of those it is compared with: 2,3,5."),
        ],
        responses=ComparedTogetherOut,
    )
    def get(self, request: Request) -> Response:
        """The first minus each of the others, each p corrected for all of them (Holm)."""
        self.check_no_parameters("a", "b")
        a = _read_evaluation(request, "a", request.query_params.get("a", ""))
        others = [_read_evaluation(request, "b", one) for one in request.query_params.get("b", "").split(",")]
        if len(others) > MOST_SCENARIOS or any(one.project_id != a.project_id or one.pk == a.pk for one in others):
            message = f"wanted at most {MOST_SCENARIOS} others of the project that {a.pk} is of"
            raise ValidationError({"b": [message]})
        rows = []
        for b, found in zip(others, compare_together([(a, one) for one in others]), strict=True):
            is_known = not isinstance(found, str)
            rows.append(
                {
                    "a": a.pk,
                    "b": b.pk,
                    "outcomes": found.outcomes if not isinstance(found, str) else None,
                    "step_scores": found.step_scores if not isinstance(found, str) else None,
                    "why": "" if is_known else found,
                    "length": compare_lengths(a, b) if is_known else "",
                }
            )
        return Response(ComparedTogetherOut({"results": rows}).data)


def _read_evaluation(request: Request, name: str, value: str) -> Evaluation:
    if not value.isdecimal() or len(value) > 18:
        raise ValidationError({name: [f"wanted the number of an evaluation, found {value[:40]!r}"]})
    return find_row(request, EVALUATION, int(value), field=name, right=Right.EVALS_READ)


class ExperimentViewSet(ResourceViewSet):
    """Evaluations compared in pairs, by questions that are asked together."""

    queryset = Experiment.objects.select_related("project").prefetch_related(
        "scenarios__candidate", "scenarios__reference"
    )
    serializer_class = ExperimentOut
    filterset_class = filter_by(Experiment, "experiment")
    rights: ClassVar = by_right({Right.EVALS_READ: "list retrieve scenarios", Right.EVALS_WRITE: "create"})

    @extend_schema(request=ExperimentIn, responses={201: ExperimentOut})
    def create(self, request: Request) -> Response:
        """Write down which evaluations are to be compared. They may still be under way."""
        project, body = self.read_placed(ExperimentIn)
        there = EVALUATION.filter(project=project).in_bulk(
            {one[side] for one in body["scenarios"] for side in ("candidate", "reference")}
        )
        asked = []
        for one in body["scenarios"]:
            for side in ("candidate", "reference"):
                if one[side] not in there:
                    raise refuse("scenarios", "evaluation", one[side])
            asked.append(AskedScenario(one["scenario"], there[one["candidate"]], there[one["reference"]]))
        made = make_experiment(
            project=project, experiment=body["experiment"], scenarios=asked, by=current_user(request)
        )
        return self.show(self.queryset.get(pk=made.pk), 201)

    @extend_schema(responses=ScenarioOut(many=True), filters=False)
    @action(detail=True, filterset_class=None, serializer_class=ScenarioOut)
    def scenarios(self, request: Request, pk: str) -> Response:
        """What each question was answered: item by item, each p corrected for all questions of the experiment."""
        experiment = self.get_object()
        self.check_no_parameters()
        page = self.paginate_queryset(experiment.scenarios.all())
        answers = {"answers": answer_scenarios(experiment)}
        return self.get_paginated_response(ScenarioOut(page, many=True, context=answers).data)
