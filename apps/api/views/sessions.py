"""Sessions and exchanges: what the gateway saw. An agent sees its own."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django.http import Http404, StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import ProjectFilterSet, filter_by
from apps.api.lookup import find_project_for
from apps.api.permissions import by_right, current_user
from apps.api.serializers.sessions import AskedOut, ExchangeDetailOut, ExchangeOut, SessionOut
from apps.api.views.base import ResourceViewSet
from apps.base.streaming import iterate_pages, stream
from apps.conversations.asked import read_asked
from apps.finding.search import MAX_DIGITS
from apps.inference.models import Exchange, Session
from apps.inference.selectors import read_conversations, read_public_id
from tentalis.core.canon import canonical_json
from tentalis.core.conversation_delta import Conversation, make_answer
from tentalis.core.packing import unpack_int32

FORMATS = ("jsonl", "chat")
EXPORTED_AT_ONCE = 100
WHICH = "Its number, its public id (`X-Tentalis-Exchange`), or the id of the answer's body: chatcmpl-…, msg_…, resp_…."
ID = OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, description=WHICH)


class OwnOfAgents(ResourceViewSet):
    """Rows with an `agent`: an agent sees those that name it."""

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        user = self.request.user
        if not getattr(user, "is_agent", False):
            return rows
        return rows.filter(agent=current_user(self.request).handle)


class SessionViewSet(OwnOfAgents):
    """Conversations seen by the gateway."""

    queryset = Session.objects.select_related("project")
    serializer_class = SessionOut
    filterset_class = filter_by(
        Session,
        "key",
        "agent",
        "end_user",
        worker=filters.CharFilter(field_name="worker_name"),
        is_closed=filters.BooleanFilter(field_name="closed_at", lookup_expr="isnull", exclude=True),
    )
    rights: ClassVar = by_right({Right.SESSIONS_READ: "list retrieve asked"})

    @extend_schema(
        parameters=[OpenApiParameter("project", str, required=True)],
        responses=AskedOut(many=True),
        operation_id="sessions_asked",
    )
    @action(detail=False)
    def asked(self, request: Request) -> Response:
        """What was asked first in each session of a project, personal data masked as the project says: work that
        `POST tasks/from-sessions` makes tasks of."""
        if not (slug := request.query_params.get("project")):
            raise ValidationError({"project": ["wanted a name, found none"]})
        project = find_project_for(request, slug, Right.SESSIONS_READ)
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        return self.get_paginated_response(AskedOut(read_asked(project, page), many=True).data)


class ExchangeFilterSet(ProjectFilterSet):
    session = filters.NumberFilter(field_name="session_id")
    task = filters.NumberFilter(field_name="task_id")
    worker = filters.CharFilter(field_name="worker_name")
    adapter = filters.CharFilter(field_name="adapter_name")
    public_id = filters.UUIDFilter()
    session_key = filters.CharFilter(field_name="session__key", label="Key of its session, as its caller named it.")
    end_user = filters.CharFilter(field_name="session__end_user", label="Who talked to the agent.")
    since = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte", label="From then on.")
    until = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt", label="Before then.")
    text = filters.CharFilter(method="that_say", label="Words in its answer or in what was newly said before it.")

    def that_say(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        spelled = json.dumps(value, ensure_ascii=False)[1:-1]  # as jsonb writes it
        return queryset.filter(Q(text__icontains=value) | Q(messages__icontains=spelled))

    class Meta:
        model = Exchange
        fields: ClassVar = ["model", "agent", "turn", "api", "status", "is_truncated", "is_mixed"]


class ExchangeViewSet(OwnOfAgents):
    """Requests and their answers, token for token."""

    queryset = Exchange.objects.select_related("project", "provider")
    serializer_class = ExchangeOut
    filterset_class = ExchangeFilterSet
    lookup_value_regex = r"[0-9a-z_-]{1,80}"
    rights: ClassVar = by_right({Right.SESSIONS_READ: "list retrieve export"})

    def get_object(self) -> Exchange:
        """By number, or by an id that the gateway's answers carry."""
        exchange: Exchange | None = self.get_queryset().filter(match_exchange(self.kwargs["pk"])).order_by("pk").first()
        if exchange is None:
            raise Http404
        self.check_object_permissions(self.request, exchange)
        return exchange

    @extend_schema(parameters=[ID], responses=ExchangeDetailOut)
    def retrieve(self, request: Request, pk: str) -> Response:
        """One exchange with its words, exact tokens and log-probs. A public id gives the first of its choices."""
        self.check_no_parameters()
        return Response(ExchangeDetailOut(read_exchange(self.get_object())).data)

    @extend_schema(
        parameters=[OpenApiParameter("format", str, enum=FORMATS, default="jsonl")],
        responses={(200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.BINARY, "One exchange a line.")},
    )
    @action(detail=False, pagination_class=None)
    def export(self, request: Request) -> StreamingHttpResponse:
        """Every exchange the filters leave, oldest first: `jsonl` as one exchange is shown, `chat` as
        `{"messages": […], "tools": […]}` with the answer last, of those that have one, as other tools train on it."""
        form = request.query_params.get("format", "jsonl")
        if form not in FORMATS:
            raise ValidationError({"format": [f"wanted one of {', '.join(FORMATS)}, found {form[:40]!r}"]})
        self.extra_parameters = {"format"}
        rows = self.filter_queryset(self.get_queryset())
        return stream(
            request._request, write_lines(rows, form), media_type="application/x-ndjson", filename="exchanges.jsonl"
        )


def write_lines(rows: QuerySet[Exchange], form: str) -> Iterator[bytes]:
    """A line an exchange; in `chat` none for what has no answer, or not its whole conversation."""
    for page in iterate_pages(rows, EXPORTED_AT_ONCE):
        conversations = read_conversations(page)
        for exchange in page:
            whole: Any = put_together(exchange, conversations.get(exchange.pk))
            if form == "jsonl":
                yield JSONRenderer().render(ExchangeDetailOut(whole).data) + b"\n"
            elif whole.is_whole and exchange.messages and exchange.status < 400 and not exchange.is_truncated:
                answer = make_answer(exchange.text, exchange.tool_calls)
                tools = {"tools": exchange.request["tools"]} if exchange.request.get("tools") else {}
                if answer is not None:
                    yield canonical_json({"messages": [*exchange.messages, answer], **tools}) + b"\n"


def match_exchange(text: str) -> Q:
    """By number, public id or the id of an answer's body. Raises Http404 for what is none of them."""
    if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
        return Q(pk=int(text))
    if (public_id := read_public_id(text)) is None:
        raise Http404
    return Q(public_id=public_id)


def read_exchange(exchange: Exchange) -> Exchange:
    """The row with its whole conversation in place of what is stored of it; `tokens` None where none were told."""
    return put_together(exchange, read_conversations([exchange]).get(exchange.pk))


def put_together(exchange: Exchange, conversation: Conversation | None) -> Exchange:
    """See `read_exchange`."""
    whole: Any = exchange
    whole.is_whole = conversation is not None and conversation.is_whole
    whole.tokens = None
    if conversation is not None:
        exchange.messages = [message for message in conversation.messages if isinstance(message, dict)]
        exchange.request = conversation.request
        if exchange.token_ids:
            whole.tokens = {
                "prompt_token_ids": unpack_int32(conversation.prompt_token_ids),
                "token_ids": exchange.unpack_token_ids(),
                "logprobs": exchange.unpack_logprobs() if exchange.logprobs else [],
                "sampled": exchange.unpack_sampled() if exchange.sampled else [],
            }
    return exchange
