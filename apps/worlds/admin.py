"""Certificates of worlds."""

from apps.base.admin import show
from apps.worlds.models import WorldCertificate

show(WorldCertificate, "world version sha256 passed examined_by created_at", filters="world passed")
