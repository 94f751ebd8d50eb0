"""Servers that speak Anthropic's Messages API and nothing else."""

from collections.abc import Mapping

from apps.gateway.dialects.messages.request import describe_request
from apps.gateway.dialects.messages.upstream_answer import MessageEvents, read_message
from apps.gateway.dialects.messages.upstream_request import make_request
from apps.gateway.dialects.protocol import Body, Json


class MessagesUpstream:
    """Anthropic itself, or one that speaks like it."""

    name = "messages"
    path = "/messages"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    def describe(self, body: Body) -> Json:
        return describe_request(body)

    def from_chat(self, request: Body) -> Json:
        return make_request(request)

    def to_chat(self, answer: Body, *, created: int) -> Json:
        return read_message(answer, created=created)

    def make_stream(self, *, created: int) -> MessageEvents:
        return MessageEvents(created=created)
