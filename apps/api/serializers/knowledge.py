"""Skills."""

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField, TrueFalseField
from apps.skills.models import Skill
from apps.skills.services import MAX_BODY_CHARS, MAX_DESCRIPTION_CHARS


class SkillOut(RowOut[Skill]):
    """A written procedure a worker may use: one version of it."""

    class Meta:
        model = Skill
        fields = "id project name version description body is_active created_at"


class SkillIn(StrictSerializer):
    """A new skill, or the next version of the one of this name."""

    project = TextField(max_length=64)
    name = TextField(max_length=100, help_text="Lower-case letters, digits and inner hyphens.")
    description = TextField(max_length=MAX_DESCRIPTION_CHARS)
    body = TextField(max_length=MAX_BODY_CHARS)


class SkillChange(StrictSerializer):
    """Whether a version is in force; another text is another version."""

    is_active = TrueFalseField()
