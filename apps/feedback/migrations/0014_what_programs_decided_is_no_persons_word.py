"""A program of another package decides what agents propose under a handle of its own, and its words are an app's."""

from typing import Any

from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Replace

TRUST = 0.5


def trace_to_programs(apps: Any, schema_editor: Any) -> None:
    """Both were written `supervisor:<name>`, and the words as a person's."""
    told = apps.get_model("audit", "AuditEntry").objects.filter(
        kind="feedback.given", subject_type="feedback", actor__startswith="supervisor:"
    )
    apps.get_model("feedback", "Feedback").objects.filter(pk__in=told.values("subject_id"), source="human").update(
        source="outside",
        trust=TRUST,
        author=Replace(F("author"), Value("supervisor:"), Value("supervisor:program:")),
    )
    apps.get_model("supervision", "Proposal").objects.filter(decided_by__startswith="supervisor:").update(
        decided_by=Replace(F("decided_by"), Value("supervisor:"), Value("agent:program:"))
    )


class Migration(migrations.Migration):
    dependencies = [
        ("feedback", "0013_why_an_import_failed"),
        ("supervision", "0002_calls_of_our_own_agents_are_proposed"),
        ("audit", "0003_epochs"),
    ]

    operations = [migrations.RunPython(trace_to_programs, migrations.RunPython.noop)]
