"""Projects, members, tokens."""

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import archiving, invitations, services, tokens
from apps.accounts.models import ApiToken, Invitation, Member, Project, Role, User
from apps.accounts.rights import Right
from apps.api.filters import RowFilterSet, filter_by
from apps.api.lookup import find_project, find_project_for, refuse
from apps.api.permissions import by_right, current_token, current_user, visible_projects
from apps.api.serializers.accounts import (
    FavoursOut,
    InvitationIn,
    InvitationOut,
    JudgesChange,
    JudgesOut,
    MemberChange,
    MemberIn,
    MemberOut,
    NewInvitationOut,
    NewTokenOut,
    ProjectChange,
    ProjectIn,
    ProjectOut,
    TokenChange,
    TokenIn,
    TokenOut,
    WhyOut,
)
from apps.api.serializers.strict import NoFields
from apps.api.views.base import ResourceViewSet, command
from apps.base.errors import BadInputError, NotAllowedError
from apps.calibration.models import FavourScreen
from apps.feedback.favours import screen_project
from apps.feedback.judges import choose_judges, find_judges
from apps.rollouts.selectors import why_nothing_trains


class ProjectListFilterSet(filters.FilterSet):  # type: ignore[misc]
    is_archived = filters.BooleanFilter(
        field_name="archived_at", lookup_expr="isnull", exclude=True,
        label="true: those that are archived; else they are left out.",
    )  # fmt: skip


class ProjectViewSet(ResourceViewSet):
    """Projects: the team's space. Nothing crosses projects."""

    queryset = Project.objects.all()
    serializer_class = ProjectOut
    filterset_class = ProjectListFilterSet
    lookup_field = "slug"
    lookup_value_regex = r"[-a-zA-Z0-9_]{1,64}"
    project_path = "pk"
    takes_proof = frozenset({"destroy", "leave"})
    rights: ClassVar = by_right(
        {
            Right.PROJECTS_READ: "list retrieve judges",
            Right.METRICS_READ: "why",
            Right.PROJECTS_WRITE: "choose_judges create partial_update destroy archive unarchive",
            Right.AUDIT_READ: "favours",
            Right.PIPELINE_WRITE: "look_for_favours",
            Right.ACCOUNT_WRITE: "leave",
        }
    )

    def get_queryset(self) -> QuerySet[Any]:
        """Archived ones are listed only where they are asked for."""
        rows = super().get_queryset()
        asked = self.action != "list" or "is_archived" in self.request.query_params
        return rows if asked else rows.filter(archived_at=None)

    @extend_schema(request=ProjectIn, responses={201: ProjectOut})
    def create(self, request: Request) -> Response:
        """Make a project; you become its owner. Takes an admin of the installation, or somebody they let."""
        body = self.read_body(ProjectIn)
        if (token := current_token(request)) is not None and token.project_id:
            raise NotAllowedError("a token bound to a project makes no other")
        return self.show(services.create_project(by=current_user(request), **body), 201)

    @extend_schema(request=ProjectChange)
    def partial_update(self, request: Request, slug: str) -> Response:
        project = self.get_object()
        body = self.read_body(ProjectChange)
        return self.show(services.change_project(project=project, by=current_user(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, slug: str) -> Response:
        """Delete a project that holds no work."""
        services.delete_project(project=self.get_object(), by=current_user(request))
        return Response(status=204)

    @extend_schema(request=NoFields, responses=ProjectOut)
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def archive(self, request: Request, slug: str) -> Response:
        """Take no new task and no gateway call from now on, and start no training. All it holds stays."""
        return self.show(archiving.archive_project(project=self.take_row(), by=current_user(request)))

    @extend_schema(request=NoFields, responses=ProjectOut)
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def unarchive(self, request: Request, slug: str) -> Response:
        """Take an archived project up again, as it was."""
        return self.show(archiving.unarchive_project(project=self.take_row(), by=current_user(request)))

    @command(responses={204: None})
    def leave(self, request: Request, slug: str) -> Response:
        """Be a member no more. The last owner names another first."""
        self.read_body(NoFields)
        invitations.leave(project=self.get_object(), by=current_user(request))
        return Response(status=204)

    @extend_schema(responses=WhyOut)
    @action(detail=True, filter_backends=[], pagination_class=None)
    def why(self, request: Request, slug: str) -> Response:
        """Why nothing trains here."""
        return Response(WhyOut({"findings": why_nothing_trains(self.get_object())}).data)

    @extend_schema(responses=JudgesOut, operation_id="projects_judges_read")
    @action(detail=True, filter_backends=[], pagination_class=None)
    def judges(self, request: Request, slug: str) -> Response:
        """Who judges here, and how much of the work."""
        self.check_no_parameters()
        return Response(JudgesOut(find_judges(self.get_object())).data)

    @extend_schema(request=JudgesChange, responses=JudgesOut, operation_id="projects_judges_choose")
    @judges.mapping.patch
    def choose_judges(self, request: Request, slug: str) -> Response:
        """Say who judges the tasks that are worked from now on. The rest of the review policy stays."""
        project = self.get_object()
        body = self.read_body(JudgesChange)
        return Response(JudgesOut(choose_judges(project=project, by=current_user(request), **body)).data)

    @extend_schema(responses=FavoursOut, operation_id="projects_favours_read")
    @action(detail=True, filter_backends=[], pagination_class=None)
    def favours(self, request: Request, slug: str) -> Response:
        """Who favours whom beyond chance, as it was last looked at. It is a reason to look, not proof."""
        self.check_no_parameters()
        found = FavourScreen.objects.filter(project=self.get_object()).first()
        return Response(FavoursOut(found or FavourScreen()).data)

    @extend_schema(request=NoFields, responses=FavoursOut, operation_id="projects_favours_look")
    @favours.mapping.post
    def look_for_favours(self, request: Request, slug: str) -> Response:
        """Look now; it is looked once a day by itself."""
        project = self.get_object()
        self.read_body(NoFields)
        return Response(FavoursOut(screen_project(project=project, by=current_user(request))).data)


class MembershipViewSet(ResourceViewSet):
    """Who belongs to a project, or is asked to: named and taken back by who names its members."""

    takes_proof = frozenset({"create", "destroy"})
    rights: ClassVar = by_right({Right.MEMBERS_READ: "list retrieve", Right.MEMBERS_WRITE: "create destroy"})

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        self.take_back(self.get_object(), current_user(request))
        return Response(status=204)

    def take_back(self, row: Any, by: User) -> None:
        """End the membership, or the offer of one."""
        raise NotImplementedError


class MemberViewSet(MembershipViewSet):
    """Who belongs to a project, in which role."""

    queryset = Member.objects.select_related("project", "user")
    serializer_class = MemberOut
    filterset_class = filter_by(Member, "role")
    takes_proof = MembershipViewSet.takes_proof | {"partial_update"}
    rights: ClassVar = {**MembershipViewSet.rights, "partial_update": Right.MEMBERS_WRITE}

    @extend_schema(request=MemberIn, responses={201: MemberOut})
    def create(self, request: Request) -> Response:
        """Add an agent: one of your projects' by its name, or else a new one, whose name holds this project's. People
        are invited (`POST invitations`), except that an admin of the installation may add themselves."""
        body = self.read_body(MemberIn)
        by = current_user(request)
        project = find_project_for(request, body["project"], Right.MEMBERS_WRITE)
        if body["role"] == Role.AGENT:
            return self.show(services.add_agent(project=project, username=body["username"], by=by), 201)
        if body["username"] != by.username:
            raise BadInputError.at("role", "a person is invited, and is a member when they accept: POST invitations")
        return self.show(services.add_member(project=project, user=by, role=body["role"], by=by), 201)

    @extend_schema(request=MemberChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        member = self.get_object()
        role = self.read_body(MemberChange)["role"]
        return self.show(services.change_member(member=member, role=role, by=current_user(request)))

    def take_back(self, row: Any, by: User) -> None:
        services.remove_member(member=row, by=by)


class InvitationViewSet(MembershipViewSet):
    """Invitations to projects: yours, and those of projects whose members you name."""

    queryset = Invitation.objects.select_related("project", "invited_by")
    serializer_class = InvitationOut
    filterset_class = filter_by(Invitation, "state")
    secret_fields = frozenset({"link"})
    rights: ClassVar = {
        **MembershipViewSet.rights,
        "accept": Right.ACCOUNT_WRITE,
        "decline": Right.ACCOUNT_WRITE,
    }

    def get_queryset(self) -> QuerySet[Any]:
        if getattr(self, "swagger_fake_view", False):
            return Invitation.objects.none()
        rows = invitations.list_visible(current_user(self.request))
        token = current_token(self.request)
        return rows.filter(project=token.project_id) if token is not None and token.project_id else rows

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        """Which are whose is the queryset's question; who is invited has no role yet."""

    @extend_schema(request=InvitationIn, responses={201: NewInvitationOut})
    def create(self, request: Request) -> Response:
        """Offer a person a role, by name. The link is in this answer and nowhere else."""
        project, body = self.read_placed(InvitationIn)
        made, code = invitations.invite(project=project, by=current_user(request), **body)
        made.link = request.build_absolute_uri(f"/invitations/{code}/")  # type: ignore[attr-defined]
        return Response(NewInvitationOut(made).data, status=201)

    def take_back(self, row: Any, by: User) -> None:
        invitations.withdraw(invitation=row, by=by)

    @command(responses=MemberOut)
    def accept(self, request: Request, pk: str) -> Response:
        """Become a member."""
        return Response(MemberOut(invitations.accept(invitation=self.take_row(), by=current_user(request))).data)

    @command(responses={204: None})
    def decline(self, request: Request, pk: str) -> Response:
        """Say no."""
        self.read_body(NoFields)
        invitations.decline(invitation=self.get_object(), by=current_user(request))
        return Response(status=204)


class TokenViewSet(ResourceViewSet):
    """Your tokens, and those of the agents of projects you own."""

    queryset = ApiToken.objects.select_related("user", "project")
    serializer_class = TokenOut
    filterset_class = filter_by(
        ApiToken,
        "name",
        "key_id",
        base=RowFilterSet,
        is_revoked=filters.BooleanFilter(field_name="revoked_at", lookup_expr="isnull", exclude=True),
    )
    secret_fields = frozenset({"token"})
    takes_proof = frozenset({"create"})
    rights: ClassVar = by_right(
        {Right.TOKENS_READ: "list retrieve", Right.TOKENS_WRITE: "create partial_update destroy"}
    )

    def get_queryset(self) -> QuerySet[Any]:
        rows = ApiToken.objects.select_related("user", "project")
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        user = current_user(self.request)
        owned = Member.objects.filter(user=user, role=Role.OWNER).values("project")
        mine = Q(user=user) | Q(user__is_agent=True, project__in=owned)
        token = current_token(self.request)
        if token is not None and token.project_id:
            mine &= Q(project=token.project_id)
        return rows if user.is_superuser and not (token and token.project_id) else rows.filter(mine)

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        """Which tokens are whose is the queryset's question; a role decides nothing here."""

    @extend_schema(request=TokenIn, responses={201: NewTokenOut})
    def create(self, request: Request) -> Response:
        """Make a token. Its text is in this answer and nowhere else. One made with a token lives no longer than
        that, is revoked with it, and has no scope or limit beyond its own."""
        body = self.read_body(TokenIn)
        project = find_project(request, body["project"]) if "project" in body else None
        token, text = tokens.create_token(
            user=self._find_holder(request, body.get("username"), project),
            name=body["name"],
            scopes=self._narrow(request, body.get("scopes")),
            project=project or self._bound_to(request),
            expires_in_days=body.get("expires_in_days"),
            limits=self._narrow_limits(request, body.get("limits", {})),
            by=current_user(request),
            made_with=current_token(request),
        )
        token.token = text  # type: ignore[attr-defined]
        return Response(NewTokenOut(token).data, status=201)

    @extend_schema(request=TokenChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Give a token other limits."""
        token = self.get_object()
        body = self.read_body(TokenChange)
        made_with = current_token(request)
        return self.show(tokens.change_token(token=token, by=current_user(request), made_with=made_with, **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a token, and those made with it: they are refused from the next request on."""
        tokens.revoke_token(token=self.get_object(), by=current_user(request))
        return Response(status=204)

    @staticmethod
    def _find_holder(request: Request, username: str | None, project: Project | None) -> User:
        by = current_user(request)
        if username in (None, by.username):
            return by
        projects = visible_projects(request) if project is None else [project]
        user = User.objects.filter(username=username, memberships__project__in=projects).first()
        if user is None:
            raise refuse("username", "member", username)
        return user

    @staticmethod
    def _narrow(request: Request, scopes: list[str] | None) -> list[str]:
        """A token makes no token of more scopes than its own. Raises NotAllowedError where it would."""
        token = current_token(request)
        held = list(Right.values) if token is None else list(token.scopes)
        if excess := sorted(set(scopes or []) - set(held)):
            raise NotAllowedError(f"this token can make none with more scopes than its own: {', '.join(excess)}")
        return held if scopes is None else scopes

    @staticmethod
    def _narrow_limits(request: Request, limits: dict[str, Any]) -> dict[str, Any]:
        """A token makes no token that may ask for more than itself: what is left out is its own limit."""
        token = current_token(request)
        wanted = (dict(token.limits) if token else {}) | {
            name: value for name, value in limits.items() if value is not None
        }
        if wider := tokens.find_wider(wanted, token):
            raise NotAllowedError(f"this token can make none with wider limits than its own: {', '.join(wider)}")
        return wanted

    @staticmethod
    def _bound_to(request: Request) -> Project | None:
        token = current_token(request)
        return token.project if token is not None else None
