"""Rollouts, batches, runs and adapters."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.adapters import services as adapters
from apps.adapters.canary import stop_canary
from apps.adapters.models import Adapter, Deployment, Shadow
from apps.adapters.shadows import stop_shadow
from apps.api.downloads import MEDIA_TYPES, Download, send_adapter, send_batch
from apps.api.filters import ProjectFilterSet, filter_by
from apps.api.lookup import find_project_for, find_worker
from apps.api.permissions import by_right, current_user
from apps.api.serializers.evaluations import AskedEvaluationsOut, InheritanceOut
from apps.api.serializers.judgement import ReasonIn
from apps.api.serializers.learning import (
    AdapterOut,
    BatchOut,
    CanaryIn,
    CanaryOut,
    DeploymentOut,
    ProvenanceOut,
    RetryIn,
    RolloutDetailOut,
    RolloutOut,
    RunChange,
    RunDetailOut,
    RunIn,
    RunMetricsOut,
    RunOut,
    ShadowOut,
    VerdictOut,
)
from apps.api.serializers.returns import ReturnOut
from apps.api.serializers.strict import NoFields
from apps.api.views.base import ResourceViewSet, command
from apps.base.errors import BadInputError, ConflictError
from apps.base.streaming import stream
from apps.evals.regressions import find_inheritance
from apps.inference.selectors import IncompleteConversationError
from apps.pipeline import canary_trials, flow, shadow_trials, trainings
from apps.reports.lineage import trace_lineage
from apps.rollouts.models import Batch, Rollout
from apps.rollouts.tokens import TokenPart, load_conversations, read_parts
from apps.training import naming
from apps.training.cost_benefit import find_return
from apps.training.models import TrainingRun
from apps.training.naming import MOST_TAG
from apps.workers.models import Worker

RUN = filters.NumberFilter(field_name="run_id")
BATCH = filters.NumberFilter(field_name="training_use__batch_id")


class RolloutViewSet(ResourceViewSet):
    """The ledger: each usable attempt is one rollout, each rollout trains at most once."""

    queryset = Rollout.objects.select_related("project", "worker", "adapter", "hint", "training_use")
    serializer_class = RolloutOut
    filterset_class = filter_by(Rollout, "worker", "task", "adapter", "reward_source", "is_usable", batch=BATCH)
    rights: ClassVar = by_right({Right.ROLLOUTS_READ: "list retrieve export"})

    @extend_schema(responses=RolloutDetailOut)
    def retrieve(self, request: Request, pk: str) -> Response:
        """One rollout with its exact tokens and log-probs."""
        rollout = self.get_object()
        rollout.tokens = read_rollout_tokens(rollout)
        return Response(RolloutDetailOut(rollout).data)

    @extend_schema(
        parameters=[OpenApiParameter("format", str, enum=list(MEDIA_TYPES), default="jsonl")],
        responses={
            (200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.BINARY, "One rollout a line."),
            (200, "application/vnd.apache.parquet"): OpenApiResponse(OpenApiTypes.BINARY, "One Parquet file."),
        },
    )
    @action(detail=False, pagination_class=None)
    def export(self, request: Request) -> StreamingHttpResponse:
        """Every usable rollout the filters leave, as the trainer reads them, oldest first."""
        name = request.query_params.get("format", "jsonl")
        if name not in MEDIA_TYPES:
            raise ValidationError({"format": [f"wanted one of {', '.join(MEDIA_TYPES)}, found {name[:40]!r}"]})
        self.extra_parameters = {"format"}
        rows = self.filter_queryset(self.get_queryset()).filter(is_usable=True)
        filters = {key: str(value) for key, value in request.query_params.items() if key != "format"}
        download = Download(rows, name, filters, current_user(request))
        return stream(request._request, download.send(), media_type=MEDIA_TYPES[name], filename=f"rollouts.{name}")


def read_rollout_tokens(rollout: Rollout) -> dict[str, Any] | None:
    """As the trainer reads them; None where there are none, or a part of the conversation was deleted."""
    exchange = rollout.attempt.exchange
    if exchange is None or not exchange.has_exact_tokens:
        return None
    conversations = load_conversations([rollout.attempt])
    try:
        *earlier, last = read_parts(rollout.attempt, conversations)
    except (IncompleteConversationError, ValueError):
        return None
    return {
        "model": exchange.model,
        "policy_version": exchange.policy_version,
        "messages": [] if rollout.attempt.is_private else conversations[last.exchange.pk].messages,
        **_write_sequence(last),
        "earlier": [_write_sequence(part) for part in earlier],
    }


def _write_sequence(part: TokenPart) -> dict[str, Any]:
    return {
        "start": part.start,
        "prompt_token_ids": part.joined.prompt,
        "token_ids": part.joined.tokens,
        "logprobs": part.joined.logprobs,
        "sampled": part.joined.sampled,
    }


class BatchViewSet(ResourceViewSet):
    """The rollouts of one run, together."""

    queryset = Batch.objects.select_related("project", "worker", "run")
    serializer_class = BatchOut
    filterset_class = filter_by(Batch, "worker", "state", "number", "end_user")
    rights: ClassVar = by_right({Right.ROLLOUTS_READ: "list retrieve export"})
    extra_problems: ClassVar = {"export": (409,)}

    @extend_schema(
        responses={(200, MEDIA_TYPES["jsonl"]): OpenApiResponse(OpenApiTypes.BINARY, "What trains, one a line.")},
        filters=False,
    )
    @action(detail=True, pagination_class=None, filterset_class=None)
    def export(self, request: Request, pk: str) -> StreamingHttpResponse:
        """What its run is trained on, byte for byte as the trainer reads it: rollouts, or pairs, or demonstrations."""
        batch = self.get_object()
        self.check_no_parameters()
        return send_batch(request, batch=batch, by=current_user(request))


class RunFilterSet(ProjectFilterSet):
    worker = filters.CharFilter(field_name="worker__name")
    state = filters.ChoiceFilter(choices=TrainingRun.State.choices)
    tag = filters.CharFilter(method="filter_tag", max_length=MOST_TAG)

    def filter_tag(self, rows: QuerySet[TrainingRun], name: str, value: str) -> QuerySet[TrainingRun]:
        return rows.filter(tags__contains=[value])

    class Meta:
        model = TrainingRun
        fields: ClassVar = ["backend", "recipe_hash"]


class RunViewSet(ResourceViewSet):
    """Trainings."""

    queryset = TrainingRun.objects.select_related("project", "worker__project", "parent", "batch")
    serializer_class = RunOut
    filterset_class = RunFilterSet
    rights: ClassVar = by_right(
        {
            Right.RUNS_READ: "list retrieve metrics cost",
            Right.RUNS_WRITE: "create partial_update cancel pause resume retry",
        }
    )

    def get_serializer_class(self) -> Any:
        return RunDetailOut if self.action == "retrieve" else super().get_serializer_class()

    @extend_schema(request=RunIn, responses={201: RunOut})
    def create(self, request: Request) -> Response:
        """Train now, with what the worker's batch holds."""
        body = self.read_body(RunIn)
        project = find_project_for(request, body["project"], Right.RUNS_WRITE)
        if "worker" in body:
            worker = find_worker(project, body["worker"])
        else:
            lines = Worker.objects.filter(project=project, is_active=True, learns_with=None)
            workers = list(lines.select_related("project")[:2])
            if len(workers) != 1:
                raise BadInputError.at(
                    "worker", f"wanted one active worker in {project.slug} to choose by itself; name one"
                )
            worker = workers[0]
        run = flow.close_batch(
            worker=worker,
            by=current_user(request),
            backend=body.get("backend"),
            recipe=body.get("recipe"),
            end_user=body.get("end_user", ""),
            name=body.get("name", ""),
        )
        return self.show(run, 201)

    @extend_schema(request=RunChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Give a run a name, a comment, tags."""
        run = self.get_object()
        return self.show(naming.describe_run(run=run, by=current_user(request), **self.read_body(RunChange)))

    @command()
    def cancel(self, request: Request, pk: str) -> Response:
        """Stop a training: at once while it waits, at its next update while it runs."""
        return self.show(trainings.cancel_run(run=self.take_row(), by=current_user(request)))

    @command()
    def pause(self, request: Request, pk: str) -> Response:
        """Stop a training so that it can go on: at once while it waits, at its next update while it runs."""
        return self.show(trainings.pause_run(run=self.take_row(), by=current_user(request)))

    @command()
    def resume(self, request: Request, pk: str) -> Response:
        """Let a paused training go on from its newest checkpoint, when its turn comes."""
        return self.show(trainings.resume_run(run=self.take_row(), by=current_user(request)))

    @command(request=RetryIn)
    def retry(self, request: Request, pk: str) -> Response:
        """Train again what failed, was refused or was cancelled, when its turn comes: on the same batch, from what
        serves then, with the same recipe or another."""
        run = self.get_object()
        return self.show(trainings.retry_run(run=run, by=current_user(request), **self.read_body(RetryIn)))

    @extend_schema(responses=RunMetricsOut)
    @action(detail=True)
    def metrics(self, request: Request, pk: str) -> Response:
        """The run's metrics, one mapping an update."""
        run = self.get_object()
        told = {"run": run.pk, "state": run.state, "attempt": run.attempt, "metrics": run.metrics}
        return Response(RunMetricsOut(told).data)

    @extend_schema(responses=ReturnOut)
    @action(detail=True)
    def cost(self, request: Request, pk: str) -> Response:
        """What the run and its data cost, beside what the gate measured that it brought."""
        return Response(ReturnOut(find_return(self.get_object())).data)


class AdapterViewSet(ResourceViewSet):
    """What was learnt: immutable weights, their verdicts, and what serves."""

    queryset = Adapter.objects.select_related("project", "worker__project", "worker__provider", "parent")
    serializer_class = AdapterOut
    filterset_class = filter_by(Adapter, "worker", "state", "name", "version", "end_user", "is_anchor", run=RUN)
    takes_proof = frozenset({"promote", "release", "start_canary", "raise_canary"})
    rights: ClassVar = by_right(
        {
            Right.ADAPTERS_READ: "list retrieve verdicts provenance download canary shadow",
            Right.ADAPTERS_WRITE: "promote quarantine release rollback compare start_canary raise_canary stop_canary "
            "start_shadow stop_shadow",
            Right.EVALS_READ: "regressions",
            Right.EVALS_WRITE: "ask_regressions",
        }
    )
    extra_problems: ClassVar = {"canary": (409,), "shadow": (409,), "download": (409, 422)}

    @extend_schema(responses=VerdictOut(many=True), filters=False)
    @action(detail=True, filterset_class=None, serializer_class=VerdictOut)
    def verdicts(self, request: Request, pk: str) -> Response:
        """What the promotion gate found, in words and numbers."""
        adapter = self.get_object()
        self.check_no_parameters()
        return self.show_page(adapter.verdicts.all(), VerdictOut)

    @extend_schema(responses=InheritanceOut, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None, serializer_class=InheritanceOut)
    def regressions(self, request: Request, pk: str) -> Response:
        """Corrections of answers before it, and which still hold by its newest tries at them."""
        adapter = self.get_object()
        self.check_no_parameters()
        return Response(InheritanceOut(find_inheritance(adapter)).data)

    @extend_schema(request=NoFields, responses={201: AskedEvaluationsOut}, filters=False)
    @regressions.mapping.post
    def ask_regressions(self, request: Request, pk: str) -> Response:
        """Ask it the corrections that it inherits, by its likeliest answers: one evaluation an environment."""
        made = flow.ask_regressions(adapter=self.take_row(), by=current_user(request))
        return Response(AskedEvaluationsOut({"results": made}, context=self.get_serializer_context()).data, status=201)

    @extend_schema(responses=ProvenanceOut)
    @action(detail=True)
    def provenance(self, request: Request, pk: str) -> Response:
        """Adapter, run, batch, rollouts, who judged them; and the same of each parent."""
        return Response(ProvenanceOut({"lineage": trace_lineage(self.get_object())}).data)

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    @action(detail=True)
    def download(self, request: Request, pk: str) -> StreamingHttpResponse | Response:
        """The adapter as a zip of its directory (PEFT's layout with our manifest), checked against its hashes."""
        adapter = self.get_object()
        return send_adapter(request, name=adapter.name, uri=adapter.uri, sha256=adapter.sha256)

    @command(responses=DeploymentOut)
    def promote(self, request: Request, pk: str) -> Response:
        """Put an adapter into service by your decision."""
        return Response(DeploymentOut(adapters.promote(adapter=self.take_row(), by=current_user(request))).data)

    @command(request=ReasonIn, responses=AdapterOut)
    def quarantine(self, request: Request, pk: str) -> Response:
        """Put an adapter that does not serve under suspicion: it cannot before somebody releases it."""
        adapter, reason = self.get_object(), self.read_body(ReasonIn)["reason"]
        return self.show(adapters.suspect(adapter=adapter, by=current_user(request), reason=reason))

    @command(request=ReasonIn, responses=AdapterOut)
    def release(self, request: Request, pk: str) -> Response:
        """Let an adapter out of quarantine: it counts as safe, and may be promoted."""
        adapter, reason = self.get_object(), self.read_body(ReasonIn)["reason"]
        return self.show(adapters.release(adapter=adapter, by=current_user(request), reason=reason))

    @command(responses=AdapterOut)
    def compare(self, request: Request, pk: str) -> Response:
        """Have people compare its answers blindly with those of what serves, where the gate could not decide by itself:
        their pairs wait in the review queue, and the gate goes on when they are done."""
        adapter = self.get_object()
        flow.ask_people(adapter=adapter, by=current_user(request))
        return self.show(Adapter.objects.get(pk=adapter.pk))

    @command(responses=DeploymentOut)
    def rollback(self, request: Request, pk: str) -> Response:
        """Take this adapter out of service: its worker, or its person, returns to what served before."""
        adapter = self.take_row()
        if not Deployment.objects.filter(worker=adapter.worker, adapter=adapter).exists():
            raise ConflictError(f"{adapter.name} does not serve: wanted state deployed, found {adapter.state}")
        deployment = adapters.roll_back(worker=adapter.worker, end_user=adapter.end_user, by=current_user(request))
        return Response(DeploymentOut(deployment).data)

    @extend_schema(responses=CanaryOut, operation_id="adapters_canary_read")
    @action(detail=True)
    def canary(self, request: Request, pk: str) -> Response:
        """How the trial of this adapter stands. 409 when it is on none."""
        self.check_no_parameters()
        return self._show_canary(self._find_trial(self.get_object()))

    @extend_schema(request=CanaryIn, responses={201: CanaryOut}, operation_id="adapters_canary_start")
    @canary.mapping.post
    def start_canary(self, request: Request, pk: str) -> Response:
        """Try an adapter on a share of its worker's new tasks."""
        adapter = self.get_object()
        percent = self.read_body(CanaryIn)["percent"]
        deployment = canary_trials.start_canary(adapter=adapter, percent=percent, by=current_user(request))
        return self._show_canary(deployment, 201)

    @extend_schema(request=CanaryIn, responses=CanaryOut, operation_id="adapters_canary_raise")
    @canary.mapping.patch
    def raise_canary(self, request: Request, pk: str) -> Response:
        """Give a trial another share of the new tasks; what was seen so far counts no more."""
        adapter = self.get_object()
        percent = self.read_body(CanaryIn)["percent"]
        deployment = canary_trials.change_share(
            deployment=self._find_trial(adapter), percent=percent, by=current_user(request)
        )
        return self._show_canary(deployment)

    @extend_schema(responses={204: None}, operation_id="adapters_canary_stop")
    @canary.mapping.delete
    def stop_canary(self, request: Request, pk: str) -> Response:
        """End a trial; everything goes to what serves."""
        stop_canary(deployment=self._find_trial(self.get_object()), by=current_user(request))
        return Response(status=204)

    @extend_schema(responses=ShadowOut, operation_id="adapters_shadow_read")
    @action(detail=True)
    def shadow(self, request: Request, pk: str) -> Response:
        """How this adapter does in the shadow of what serves. 409 when it is in none."""
        self.check_no_parameters()
        return self._show_shadow(self._find_shadow(self.get_object()))

    @extend_schema(request=CanaryIn, responses={201: ShadowOut}, operation_id="adapters_shadow_start")
    @shadow.mapping.post
    def start_shadow(self, request: Request, pk: str) -> Response:
        """Have an adapter answer a share of its worker's new tasks once more: scored, compared, shown to nobody."""
        adapter = self.get_object()
        percent = self.read_body(CanaryIn)["percent"]
        started = shadow_trials.start_shadow(adapter=adapter, percent=percent, by=current_user(request))
        return self._show_shadow(started, 201)

    @extend_schema(responses={204: None}, operation_id="adapters_shadow_stop")
    @shadow.mapping.delete
    def stop_shadow(self, request: Request, pk: str) -> Response:
        """Take it out of the shadow; what was found of it stays."""
        stop_shadow(shadow=self._find_shadow(self.get_object()), by=current_user(request))
        return Response(status=204)

    @staticmethod
    def _find_shadow(adapter: Adapter) -> Shadow:
        running = Shadow.objects.filter(adapter=adapter, state=Shadow.State.RUNNING)
        shadow = running.select_related("adapter", "worker__project").first()
        if shadow is None:
            raise ConflictError(f"{adapter.name} is in no shadow")
        return shadow

    @staticmethod
    def _show_shadow(shadow: Shadow, status: int = 200) -> Response:
        reading = shadow_trials.read_shadow(shadow)
        shown = {
            "worker": shadow.worker.name,
            "adapter": shadow.adapter.name,
            "percent": shadow.percent,
            "started_at": shadow.created_at,
            "attempts": shadow.attempts.count(),
            "outcome": reading.outcome,
            "words": reading.words,
        }
        return Response(ShadowOut(shown).data, status=status)

    @staticmethod
    def _find_trial(adapter: Adapter) -> Deployment:
        trials = Deployment.objects.select_related("canary", "adapter", "worker__project")
        deployment = trials.filter(canary=adapter).first()
        if deployment is None:
            raise ConflictError(f"{adapter.name} is on no trial")
        return deployment

    @staticmethod
    def _show_canary(deployment: Deployment, status: int = 200) -> Response:
        reading = canary_trials.read_canary(deployment)
        shown = {
            "worker": deployment.worker.name,
            "serving": deployment.adapter.name if deployment.adapter else None,
            "adapter": deployment.canary.name if deployment.canary else None,
            "percent": deployment.canary_percent,
            "started_at": deployment.canary_started_at,
            "outcome": reading.outcome,
            "words": reading.words,
        }
        return Response(CanaryOut(shown).data, status=status)
