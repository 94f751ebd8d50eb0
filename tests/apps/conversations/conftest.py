"""A project that learns from its sessions, and its worker."""

from collections.abc import Callable

import pytest

from apps.accounts.models import Project
from apps.conversations.models import Turn
from apps.conversations.segmentation import cut_session
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import settle_turn
from apps.workers.models import Worker
from tests.apps.conversations.talk import Talk
from tests.factories import make_worker


@pytest.fixture
def helper(project: Project) -> Worker:
    project.session_policy = {"learn": True, "judge": False}
    project.save()
    return make_worker(project, "helper", Worker.Kind.CHAT)


@pytest.fixture
def talk(helper: Worker) -> Talk:
    return Talk(helper.project)


@pytest.fixture
def read(helper: Worker) -> Callable[[Talk], list[Turn]]:
    """Cut, hear and settle a session as its links do; its turns, in order."""

    def work(talk: Talk) -> list[Turn]:
        cut_session(talk.session.pk, by="test")
        for turn in Turn.objects.unread().filter(session=talk.session):
            hear_turn(turn.pk)
            settle_turn(turn.pk)
        return list(Turn.objects.filter(session=talk.session).order_by("number"))

    return work
