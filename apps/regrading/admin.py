"""New grades."""

from apps.base.admin import show
from apps.regrading.models import Regrade, Regrading

show(Regrading, "id project source evaluation state planned graded created_at", filters="source state project")
show(Regrade, "id regrading subject_id old new cause", search="=regrading__id")
