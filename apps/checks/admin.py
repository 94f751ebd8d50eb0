"""Checks of projects."""

from apps.base.admin import show
from apps.checks.models import NamedCheck

show(NamedCheck, "name version project default_for created_at", filters="project default_for", search="name")
