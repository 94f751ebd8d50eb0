"""Webhooks: the addresses told what happens, their messages, and those that were given up."""

from typing import Any, ClassVar

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import RowFilterSet, filter_by
from apps.api.permissions import by_right, current_user
from apps.api.serializers.webhooks import (
    DeliveryOut,
    NewWebhookOut,
    RedeliveredOut,
    WebhookChange,
    WebhookIn,
    WebhookOut,
)
from apps.api.views.base import ResourceViewSet, command
from apps.webhooks import services
from apps.webhooks.models import Delivery, Webhook


class WebhookViewSet(ResourceViewSet):
    """Addresses that are told what happens, signed as Standard Webhooks 1.0 says."""

    queryset = Webhook.objects.select_related("project")
    serializer_class = WebhookOut
    filterset_class = filter_by(Webhook, "name", "is_active")
    secret_fields = frozenset({"secret"})
    takes_proof = frozenset({"create", "rotate"})
    rights: ClassVar = by_right(
        {
            Right.WEBHOOKS_READ: "list retrieve",
            Right.WEBHOOKS_WRITE: "create partial_update destroy rotate test redeliver",
        }
    )

    @extend_schema(request=WebhookIn, responses={201: NewWebhookOut})
    def create(self, request: Request) -> Response:
        """Tell an address what happens from now on. The secret is in this answer and nowhere else."""
        project, body = self.read_placed(WebhookIn)
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

    @command(responses=NewWebhookOut)
    def rotate(self, request: Request, pk: str) -> Response:
        """Give it a new secret. For a day messages are signed with the old one too."""
        return self._show_secret(*services.rotate_secret(webhook=self.take_row(), by=current_user(request)), 200)

    @command(responses={201: DeliveryOut})
    def test(self, request: Request, pk: str) -> Response:
        """Send it a message of the kind `webhook.test`."""
        webhook = self.take_row()
        delivery = services.send_test(webhook=webhook, by=current_user(request))
        delivery.refresh_from_db()
        return Response(DeliveryOut(delivery).data, status=201)

    @command(responses=RedeliveredOut)
    def redeliver(self, request: Request, pk: str) -> Response:
        """Send every message again that was given up."""
        webhook = self.take_row()
        count = services.redeliver_all(webhook=webhook, by=current_user(request))
        return Response(RedeliveredOut({"redelivered": count}).data)

    @staticmethod
    def _show_secret(webhook: Webhook, secret: str, status: int) -> Response:
        shown: Any = webhook
        shown.secret = secret
        return Response(NewWebhookOut(shown).data, status=status)


class DeliveryViewSet(ResourceViewSet):
    """Messages to webhooks; `?state=dead` are those that were given up."""

    queryset = Delivery.objects.select_related("webhook__project")
    serializer_class = DeliveryOut
    filterset_class = filter_by(
        Delivery, "webhook", "state", "kind", base=RowFilterSet, entry=filters.NumberFilter(field_name="entry_id")
    )
    project_path = "webhook__project"
    rights: ClassVar = by_right({Right.WEBHOOKS_READ: "list retrieve", Right.WEBHOOKS_WRITE: "redeliver"})

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        super().check_object_permissions(request, obj.webhook)

    @command()
    def redeliver(self, request: Request, pk: str) -> Response:
        """Send a message again, under the same id."""
        return self.show(services.redeliver(delivery=self.take_row(), by=current_user(request)))
