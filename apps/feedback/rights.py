"""Who may review."""

from apps.accounts.models import Role

REVIEWERS = (Role.OWNER, Role.MANAGER, Role.REVIEWER)
MANAGERS = (Role.OWNER, Role.MANAGER)
"""Who also assigns, judges in bulk, takes back others' words, and is given what takes an expert."""
