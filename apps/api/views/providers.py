"""Model servers."""

import dataclasses
from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by, filter_by_provider
from apps.api.lookup import find_project_for, refuse
from apps.api.permissions import by_right, current_user, right_of, visible_projects
from apps.api.serializers.providers import (
    ProbeOut,
    ProviderChange,
    ProviderGrantChange,
    ProviderGrantIn,
    ProviderGrantOut,
    ProviderIn,
    ProviderKindsOut,
    ProviderOut,
    ProviderTest,
    RotationOut,
)
from apps.api.serializers.strict import NoFields
from apps.api.views.base import ResourceViewSet, command
from apps.inference.grants import change_grant, grant_provider, revoke_grant, usable
from apps.inference.models import Provider, ProviderGrant
from apps.inference.probes import probe_provider
from apps.inference.provider_kinds import KINDS
from apps.inference.providers import change_provider, create_provider, delete_provider
from apps.inference.rotation import rotate_keys


class ProviderViewSet(ResourceViewSet):
    """Model servers: a project's own, and the shared ones that your projects may ask."""

    queryset = Provider.objects.select_related("project")
    serializer_class = ProviderOut
    filterset_class = filter_by(Provider, "name", "kind", "is_active")
    takes_proof = frozenset({"create", "partial_update", "destroy", "rotate_keys"})
    rights: ClassVar = by_right(
        {
            Right.WORKERS_READ: "list retrieve kinds",
            Right.WORKERS_WRITE: "create partial_update destroy test rotate_keys",
        }
    )

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows
        is_admin = current_user(self.request).is_superuser
        if right_of(self, self.request.method or "") != Right.WORKERS_READ and not is_admin:
            return rows
        seen = usable(visible_projects(self.request)) | (Q(project__isnull=True) if is_admin else Q(pk__in=()))
        return Provider.objects.select_related("project").filter(seen)

    @extend_schema(request=ProviderIn, responses={201: ProviderOut})
    def create(self, request: Request) -> Response:
        """Add a model server to a project or, as an admin, a shared one."""
        body = self.read_body(ProviderIn)
        slug = body.pop("project", None)
        project = find_project_for(request, slug, Right.WORKERS_WRITE) if slug is not None else None
        return self.show(create_provider(project=project, by=current_user(request), **body), 201)

    @extend_schema(request=ProviderChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        provider = self.get_object()
        body = self.read_body(ProviderChange)
        return self.show(change_provider(provider=provider, by=current_user(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove a model server that no worker uses."""
        delete_provider(provider=self.get_object(), by=current_user(request))
        return Response(status=204)

    @command(request=ProviderTest, responses=ProbeOut)
    def test(self, request: Request, pk: str) -> Response:
        """Ask it a few small questions, which cost what they cost, and say what they showed."""
        provider = self.get_object()
        body = self.read_body(ProviderTest)
        probe = probe_provider(provider=provider, by=current_user(request), **body)
        return Response(ProbeOut(dataclasses.asdict(probe)).data)

    @extend_schema(responses=ProviderKindsOut, parameters=[], filters=False)
    @action(detail=False, methods=["get"], filterset_class=None, pagination_class=None)
    def kinds(self, request: Request) -> Response:
        """The kinds of model servers there are."""
        self.check_no_parameters()
        return Response(ProviderKindsOut({"kinds": list(KINDS.values())}).data)

    @extend_schema(request=NoFields, responses=RotationOut)
    @action(detail=False, methods=["post"], url_path="rotate-keys")
    def rotate_keys(self, request: Request) -> Response:
        """Seal every stored secret anew with the newest key of the ring. Takes an admin of the installation."""
        self.read_body(NoFields)
        return Response(RotationOut(dataclasses.asdict(rotate_keys(by=current_user(request)))).data)


class ProviderGrantViewSet(ResourceViewSet):
    """Which projects may ask a shared model server, how much, and what they used."""

    queryset = ProviderGrant.objects.select_related("project", "provider")
    serializer_class = ProviderGrantOut
    filterset_class = filter_by(ProviderGrant, provider=filter_by_provider())
    takes_proof = frozenset({"create", "partial_update", "destroy"})
    rights: ClassVar = by_right(
        {Right.WORKERS_READ: "list retrieve", Right.WORKERS_WRITE: "create partial_update destroy"}
    )

    @extend_schema(request=ProviderGrantIn, responses={201: ProviderGrantOut})
    def create(self, request: Request) -> Response:
        """Let a project ask a shared model server. Takes an admin of the installation."""
        body = self.read_body(ProviderGrantIn)
        by = current_user(request)
        project = find_project_for(request, body.pop("project"), Right.WORKERS_WRITE)
        offered = usable([project]) | (Q(project__isnull=True) if by.is_superuser else Q(pk__in=()))
        provider = Provider.objects.filter(offered, pk=body["provider"]).first()
        if provider is None:
            raise refuse("provider", "model server", body["provider"])
        return self.show(grant_provider(**body | {"provider": provider, "project": project, "by": by}), 201)

    @extend_schema(request=ProviderGrantChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what the project may use of it. Takes an admin of the installation."""
        grant = self.get_object()
        body = self.read_body(ProviderGrantChange)
        return self.show(change_grant(grant=grant, by=current_user(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Take a grant back: the project asks the server no more. Takes an admin of the installation."""
        revoke_grant(grant=self.get_object(), by=current_user(request))
        return Response(status=204)
