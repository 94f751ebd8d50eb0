"""Webhooks: the addresses told what happens, their messages, and those that were given up."""

from typing import Any, ClassVar

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import ProjectFilterSet
from apps.api.lookup import find_project_for
from apps.api.permissions import current_user
from apps.api.serializers.strict import NoFields
from apps.api.serializers.webhooks import (
    DeliveryOut,
    NewWebhookOut,
    RedeliveredOut,
    WebhookChange,
    WebhookIn,
    WebhookOut,
)
from apps.api.views.base import ResourceViewSet
from apps.webhooks import services
from apps.webhooks.models import Delivery, Webhook


class WebhookFilterSet(ProjectFilterSet):
    class Meta:
        model = Webhook
        fields: ClassVar = ["name", "is_active"]


class WebhookViewSet(ResourceViewSet):
    """Addresses that are told what happens, signed as Standard Webhooks 1.0 says."""

    queryset = Webhook.objects.select_related("project")
    serializer_class = WebhookOut
    filterset_class = WebhookFilterSet
    secret_fields = frozenset({"secret"})
    takes_proof = frozenset({"create", "rotate"})
    rights: ClassVar = {
        "list": Right.WEBHOOKS_READ,
        "retrieve": Right.WEBHOOKS_READ,
        "create": Right.WEBHOOKS_WRITE,
        "partial_update": Right.WEBHOOKS_WRITE,
        "destroy": Right.WEBHOOKS_WRITE,
        "rotate": Right.WEBHOOKS_WRITE,
        "test": Right.WEBHOOKS_WRITE,
        "redeliver": Right.WEBHOOKS_WRITE,
    }

    def retrieve(self, request: Request, pk: str) -> Response:
        return self.show(self.get_object())

    @extend_schema(request=WebhookIn, responses={201: NewWebhookOut})
    def create(self, request: Request) -> Response:
        """Tell an address what happens from now on. The secret is in this answer and nowhere else."""
        body = self.read_body(WebhookIn)
        project = find_project_for(request, body.pop("project"), Right.WEBHOOKS_WRITE)
        webhook, secret = services.create_webhook(project=project, by=current_user(request), **body)
        return self._show_secret(webhook, secret, 201)

    @extend_schema(request=WebhookChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        webhook = self.get_object()
        body = self.read_body(WebhookChange)
        return self.show(services.change_webhook(webhook=webhook, by=current_user(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Tell it nothing more; what was not sent is not sent."""
        services.delete_webhook(webhook=self.get_object(), by=current_user(request))
        return Response(status=204)

    @extend_schema(request=NoFields, responses=NewWebhookOut)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Give it a new secret. For a day messages are signed with the old one too."""
        webhook = self.get_object()
        self.read_body(NoFields)
        return self._show_secret(*services.rotate_secret(webhook=webhook, by=current_user(request)), 200)

    @extend_schema(request=NoFields, responses={201: DeliveryOut})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send it a message of the kind `webhook.test`."""
        webhook = self.get_object()
        self.read_body(NoFields)
        delivery = services.send_test(webhook=webhook, by=current_user(request))
        delivery.refresh_from_db()
        return Response(DeliveryOut(delivery).data, status=201)

    @extend_schema(request=NoFields, responses=RedeliveredOut)
    @action(detail=True, methods=["post"])
    def redeliver(self, request: Request, pk: str) -> Response:
        """Send every message again that was given up."""
        webhook = self.get_object()
        self.read_body(NoFields)
        count = services.redeliver_all(webhook=webhook, by=current_user(request))
        return Response(RedeliveredOut({"redelivered": count}).data)

    @staticmethod
    def _show_secret(webhook: Webhook, secret: str, status: int) -> Response:
        shown: Any = webhook
        shown.secret = secret
        return Response(NewWebhookOut(shown).data, status=status)


class DeliveryFilterSet(filters.FilterSet):  # type: ignore[misc]
    webhook = filters.NumberFilter(field_name="webhook_id")
    state = filters.ChoiceFilter(choices=Delivery.State.choices)
    entry = filters.NumberFilter(field_name="entry_id")

    class Meta:
        model = Delivery
        fields: ClassVar = ["kind"]


class DeliveryViewSet(ResourceViewSet):
    """Messages to webhooks; `?state=dead` are those that were given up."""

    queryset = Delivery.objects.select_related("webhook__project")
    serializer_class = DeliveryOut
    filterset_class = DeliveryFilterSet
    project_path = "webhook__project"
    rights: ClassVar = {
        "list": Right.WEBHOOKS_READ,
        "retrieve": Right.WEBHOOKS_READ,
        "redeliver": Right.WEBHOOKS_WRITE,
    }

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        super().check_object_permissions(request, obj.webhook)

    def retrieve(self, request: Request, pk: str) -> Response:
        return self.show(self.get_object())

    @extend_schema(request=NoFields)
    @action(detail=True, methods=["post"])
    def redeliver(self, request: Request, pk: str) -> Response:
        """Send a message again, under the same id."""
        delivery = self.get_object()
        self.read_body(NoFields)
        return self.show(services.redeliver(delivery=delivery, by=current_user(request)))
