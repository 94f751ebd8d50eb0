"""Scores: the scorers' names are asked for on floors below as well."""

from django.apps import AppConfig


class ScoringConfig(AppConfig):
    name = "apps.scoring"
    label = "scoring"

    def ready(self) -> None:
        from apps.scoring import scorers  # noqa: F401  they register themselves
