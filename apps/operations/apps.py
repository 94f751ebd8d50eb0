"""How the installation itself is: figures, and alarms that reach a person."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "apps.operations"
    label = "operations"

    def ready(self) -> None:
        from apps.base import views
        from apps.operations import monitors, servers  # noqa: F401  monitors register themselves

        views.REMARKS.append(servers.say_now_away)
