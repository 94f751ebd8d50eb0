"""The worlds: their names are asked for on floors below them too."""

from django.apps import AppConfig


class WorldsConfig(AppConfig):
    name = "apps.worlds"
    label = "worlds"

    def ready(self) -> None:
        from apps.worlds import registry  # noqa: F401  it registers itself
