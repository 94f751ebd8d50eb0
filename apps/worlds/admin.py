"""Certificates of worlds, and admissions of tasks."""

from apps.base.admin import show
from apps.worlds.models import RepoTaskAdmission, WorldCertificate

show(WorldCertificate, "world version sha256 passed examined_by created_at", filters="world passed")
show(RepoTaskAdmission, "id name split state runs added_as asked_by created_at", filters="state split", search="name")
