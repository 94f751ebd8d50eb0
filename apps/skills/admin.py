"""What workers can look up."""

from apps.base.admin import show
from apps.skills.models import Skill

show(Skill, "name version project is_active created_at", filters="project is_active", search="name")
