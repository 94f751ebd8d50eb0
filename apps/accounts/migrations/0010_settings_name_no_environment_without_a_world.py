"""Settings name only environments that can run: three that never had a world leave weights and review policies."""

from django.db import migrations

WITHOUT_A_WORLD = ("terminal", "swe", "gui")


def drop(apps, schema_editor):
    Project = apps.get_model("accounts", "Project")
    for project in Project.objects.only("weight_profiles", "review_policy").iterator(chunk_size=500):
        profiles = {name: one for name, one in project.weight_profiles.items() if name not in WITHOUT_A_WORLD}
        policy = dict(project.review_policy)
        if "environments" in policy:
            policy["environments"] = [name for name in policy["environments"] if name not in WITHOUT_A_WORLD]
            if not policy["environments"]:
                # it reviewed nothing that could be worked on; none named means all
                policy |= {"environments": [], "who": "none"}
        if (profiles, policy) != (project.weight_profiles, project.review_policy):
            Project.objects.filter(pk=project.pk).update(weight_profiles=profiles, review_policy=policy)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0009_own_work_is_held_out")]

    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
