"""Who may do what: the one table of roles and rights. A right is also a token's scope, written `resource:verb`."""

from collections.abc import Mapping
from types import MappingProxyType

from django.db import models

from apps.accounts.models import Role


class Right(models.TextChoices):
    """Something a member may do in a project. Reading a resource and writing it are two rights.

    `gateway:use` is asking models through the gateway; `account:write` is accepting and leaving for oneself.
    """

    PROJECTS_READ = "projects:read"
    PROJECTS_WRITE = "projects:write"
    MEMBERS_READ = "members:read"
    MEMBERS_WRITE = "members:write"
    TOKENS_READ = "tokens:read"
    TOKENS_WRITE = "tokens:write"
    WORKERS_READ = "workers:read"
    WORKERS_WRITE = "workers:write"
    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"
    ATTEMPTS_READ = "attempts:read"
    ATTEMPTS_WRITE = "attempts:write"
    REVIEWS_READ = "reviews:read"
    REVIEWS_WRITE = "reviews:write"
    FEEDBACK_READ = "feedback:read"
    FEEDBACK_WRITE = "feedback:write"
    ROLLOUTS_READ = "rollouts:read"
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    ADAPTERS_READ = "adapters:read"
    ADAPTERS_WRITE = "adapters:write"
    AUDIT_READ = "audit:read"
    METRICS_READ = "metrics:read"
    PIPELINE_WRITE = "pipeline:write"
    SKILLS_READ = "skills:read"
    SKILLS_WRITE = "skills:write"
    SESSIONS_READ = "sessions:read"
    EVALS_READ = "evals:read"
    EVALS_WRITE = "evals:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"
    GATEWAY_USE = "gateway:use"
    ACCOUNT_WRITE = "account:write"


ALL_RIGHTS = frozenset(Right)
_OWN = frozenset({Right.TOKENS_READ, Right.TOKENS_WRITE, Right.ACCOUNT_WRITE})
_LOOK = frozenset(right for right in Right if right.endswith(":read")) - {Right.AUDIT_READ, Right.WEBHOOKS_READ} | _OWN

ROLE_RIGHTS: Mapping[Role, frozenset[Right]] = MappingProxyType(
    {
        Role.OWNER: ALL_RIGHTS,
        Role.MANAGER: ALL_RIGHTS - {Right.MEMBERS_WRITE, Right.PROJECTS_WRITE},
        Role.REVIEWER: _LOOK | {Right.REVIEWS_WRITE, Right.FEEDBACK_WRITE, Right.TASKS_WRITE, Right.GATEWAY_USE},
        Role.AUDITOR: _LOOK | {Right.AUDIT_READ, Right.WEBHOOKS_READ},
        Role.VIEWER: _LOOK,
        Role.AGENT: frozenset(
            {
                Right.PROJECTS_READ,
                Right.WORKERS_READ,
                Right.TASKS_READ,
                Right.TASKS_WRITE,
                Right.ATTEMPTS_READ,
                Right.ATTEMPTS_WRITE,
                Right.FEEDBACK_READ,
                Right.FEEDBACK_WRITE,
                Right.SESSIONS_READ,
                Right.SKILLS_READ,
                Right.GATEWAY_USE,
            }
        ),
    }
)

BEFORE_ANY_PROJECT = frozenset({Right.PROJECTS_WRITE, *_LOOK})
"""Rights a person has before any project stands: looking, and making a first project or token of their own."""
