"""Projects that use a shared model server today are granted it, so that nothing they do stops."""

from django.db import migrations

_GRANT = """
    INSERT INTO inference_providergrant (provider_id, project_id, granted_by, created_at)
    SELECT DISTINCT used.provider_id, used.project_id, 'system:upgrade', now()
    FROM (
        SELECT provider_id, project_id FROM workers_worker
        UNION SELECT agent_server_id, project_id FROM workers_worker
        UNION SELECT provider_id, project_id FROM scoring_judge
        UNION SELECT provider_id, project_id FROM inference_exchange
            WHERE provider_id IS NOT NULL AND created_at > now() - interval '90 days'
    ) AS used
    JOIN inference_provider AS provider ON provider.id = used.provider_id AND provider.project_id IS NULL
    ON CONFLICT DO NOTHING
"""
_TAKE_BACK = "DELETE FROM inference_providergrant WHERE granted_by = 'system:upgrade'"


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0012_shared_servers_are_granted"),
        ("scoring", "0003_reward_models_that_are_barred"),
        ("workers", "0005_learn_with_another_worker"),
    ]

    operations = [migrations.RunSQL(_GRANT, _TAKE_BACK)]
