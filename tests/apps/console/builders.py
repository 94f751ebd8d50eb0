"""Who asks the console in its tests, and what an episode left there."""

import struct
from typing import Any

from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.tasks.models import Attempt, EpisodeTurn, Step
from apps.tasks.observations import keep_observed

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480) + b"rest of a picture"


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def draw_screenshots(attempt: Attempt, *marks: Any, picture: bytes = PNG) -> str:
    """A turn of the attempt for each mark, with a call, its step and a screenshot; the screenshot's sha256."""
    sha256 = keep_observed(attempt.pk, picture)
    for place, mark in enumerate(marks):
        seen = {"text": "a page", "screenshot": {"sha256": sha256, "width": 640, "height": 480}}
        EpisodeTurn.objects.update_or_create(
            attempt=attempt,
            index=place,
            defaults={
                "calls": [{"id": "c", "name": "click", "arguments": '{"element": 1}'}],
                "observations": [seen | ({"details": {"mark": mark}} if mark is not None else {})],
                "started_at": timezone.now(),
                "ended_at": timezone.now(),
            },
        )
        Step.objects.create(attempt=attempt, index=10 + place, kind="call", text="click", tool_result="a page")
    return sha256
