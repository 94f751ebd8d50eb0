"""A session is one agent's: where several spoke under one key, each gets a session with what it said itself."""

from django.db import migrations, models

# what was cut already stays where it is; the first who spoke keeps the row
_PART = """
    WITH spoken AS (
        SELECT session_id, agent, min(created_at) AS began_at, max(created_at) AS seen_at
        FROM inference_exchange WHERE session_id IS NOT NULL GROUP BY session_id, agent
    ), parted AS (
        INSERT INTO inference_session
            (project_id, key, worker_name, agent, end_user, created_at, last_seen_at, closed_at)
        SELECT known.project_id, known.key, known.worker_name, spoken.agent, known.end_user, spoken.began_at,
               spoken.seen_at, coalesce(known.closed_at, spoken.seen_at)
        FROM spoken JOIN inference_session AS known ON known.id = spoken.session_id
        WHERE spoken.agent <> '' AND known.agent <> '' AND spoken.agent <> known.agent
        RETURNING id, project_id, key, agent
    )
    UPDATE inference_exchange AS one SET session_id = parted.id
    FROM parted JOIN inference_session AS known ON known.project_id = parted.project_id AND known.key = parted.key
    WHERE one.session_id = known.id AND one.agent = parted.agent
"""


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0008_likeliest_tokens"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="session", name="session_key_is_unique"),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.UniqueConstraint(fields=("project", "key", "agent"), name="session_key_is_the_agents"),
        ),
        migrations.RunSQL(_PART, migrations.RunSQL.noop),
    ]
