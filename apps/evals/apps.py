"""Evals: the graders' names are asked for on floors below too."""

from django.apps import AppConfig


class EvalsConfig(AppConfig):
    name = "apps.evals"
    label = "evals"

    def ready(self) -> None:
        from apps.evals import graders  # noqa: F401  they register themselves
