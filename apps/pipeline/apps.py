"""How the jobs hang together: the data's way, the sweep, the timetable."""

from django.apps import AppConfig


class PipelineConfig(AppConfig):
    name = "apps.pipeline"
    label = "pipeline"

    def ready(self) -> None:
        from apps.pipeline import conversing, fates, jobs  # noqa: F401  with the flow: segments register themselves
