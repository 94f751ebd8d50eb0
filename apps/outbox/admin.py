"""Segments: what is on its way, and what was given up."""

from apps.base.admin import show
from apps.outbox.models import Segment

show(
    Segment,
    "id kind subject_id state link queue attempts run_after finished_at",
    filters="state kind queue",
    search="=subject_id",
)
