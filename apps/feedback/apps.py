"""Feedback: the names of its AI managers are asked for on floors below too."""

from django.apps import AppConfig


class FeedbackConfig(AppConfig):
    name = "apps.feedback"
    label = "feedback"

    def ready(self) -> None:
        from apps.feedback import managers  # noqa: F401  it registers itself
