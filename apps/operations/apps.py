"""How the installation itself is: figures, and alarms that reach a person."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "apps.operations"
    label = "operations"

    def ready(self) -> None:
        from apps.operations import metrics

        metrics.register()
