"""Forgetting a person: their words, and the line of adapters that is theirs alone."""

import secrets

from django.db import transaction

from apps.accounts.models import Project, User
from apps.adapters import lines
from apps.conversations import services as conversations
from apps.conversations.models import Forgetting
from apps.rollouts import services as rollouts
from apps.rollouts.models import Batch
from apps.training import forgetting as training


def forget_person(*, project: Project, by: User, end_user: str = "", text: str = "") -> Forgetting:
    """Delete what is known of a person and end their own adapters; see `apps.conversations.forgetting`.

    Args:
        end_user: as sessions name them, exactly; or
        text: words that name them; lines of people whose name holds them end too.
    """
    with transaction.atomic():
        forgetting = conversations.forget_person(project=project, by=by, end_user=end_user, text=text)
        begun = Batch.objects.filter(project=project).exclude(end_user="").order_by()  # each line begins with one
        named = begun.filter(end_user=end_user) if end_user else begun.filter(end_user__icontains=text.strip())
        for name in sorted(set(named.values_list("end_user", flat=True))):
            stand_in = f"forgotten:{forgetting.pk}:{secrets.token_hex(16)}"
            training.end_line(project=project, end_user=name, stand_in=stand_in, by=by.handle)
            lines.end_line(project=project, end_user=name, stand_in=stand_in, by=by.handle)
            rollouts.end_line(project=project, end_user=name, stand_in=stand_in)
    return forgetting
