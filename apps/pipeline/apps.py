"""How the jobs hang together: the data's way, the sweep, the timetable."""

from django.apps import AppConfig


class PipelineConfig(AppConfig):
    name = "apps.pipeline"
    label = "pipeline"

    def ready(self) -> None:
        from apps.pipeline import flow  # noqa: F401  the segments register themselves
