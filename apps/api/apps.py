"""The REST edge."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "apps.api"
    label = "api"

    def ready(self) -> None:
        from apps.api.forgetting import forget_answers
        from apps.erasure.erase import also_forget

        also_forget(forget_answers)
