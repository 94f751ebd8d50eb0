"""Skills."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.permissions import by_right, current_user
from apps.api.serializers.knowledge import SkillChange, SkillIn, SkillOut
from apps.api.views.base import ResourceViewSet
from apps.skills.models import Skill
from apps.skills.services import switch_skill, write_skill


class SkillViewSet(ResourceViewSet):
    """Written procedures a worker may use. A text never changes: another one is the next version."""

    queryset = Skill.objects.select_related("project")
    serializer_class = SkillOut
    filterset_class = filter_by(Skill, "name", "version", "is_active")
    rights: ClassVar = by_right(
        {Right.SKILLS_READ: "list retrieve", Right.SKILLS_WRITE: "create partial_update destroy"}
    )

    @extend_schema(request=SkillIn, responses={201: SkillOut})
    def create(self, request: Request) -> Response:
        """Add a skill, or the next version of the one of this name."""
        project, body = self.read_placed(SkillIn)
        return self.show(write_skill(project=project, by=current_user(request), **body), 201)

    @extend_schema(request=SkillChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Put a version in or out of force."""
        skill = self.get_object()
        body = self.read_body(SkillChange)
        return self.show(switch_skill(skill=skill, by=current_user(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Take a version out of force. It stays readable: work was done by it."""
        switch_skill(skill=self.get_object(), is_active=False, by=current_user(request))
        return Response(status=204)
