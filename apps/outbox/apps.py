"""Durable work: the outbox, claims with fences, retries and dead letters."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "apps.outbox"
    label = "outbox"

    def ready(self) -> None:
        from apps.outbox import watchdog

        watchdog.connect()
