"""The REST edge."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "apps.api"
    label = "api"

    def ready(self) -> None:
        from apps.api.idempotency import forget_answers
        from apps.pipeline.forgetting import also_forget

        also_forget(forget_answers)
