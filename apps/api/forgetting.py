"""Forgetting what kept answers hold; without the REST framework, for every process of ours reads this as it starts."""

import json

from django.db.models import Q

from apps.accounts.models import Project
from apps.api.models import IdempotencyKey


def forget_answers(project: Project, end_user: str, text: str) -> int:
    """Empty the answers of one project that hold a text, or name an end user; how many.

    The keys stay: a request sent again is still not done twice.
    """
    quoted = json.dumps(end_user or text.strip(), ensure_ascii=False)
    held = Q(body__contains=quoted) if end_user else Q(body__icontains=quoted[1:-1])
    return IdempotencyKey.objects.filter(held, project=project).update(body="", location="", is_forgotten=True)
