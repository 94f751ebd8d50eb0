"""What agents asked, and what was said."""

from apps.base.admin import show
from apps.supervision.models import Proposal

show(
    Proposal,
    "id project task kind tool state proposed_by decided_by decided_at",
    filters="state kind project",
    search="=id =task__id",
)
