"""Addresses that are told what happens."""

from django.urls import path

from apps.console.views import webhooks

urlpatterns = [
    path("webhooks/", webhooks.show_webhooks, name="webhooks"),
    path("webhooks/<int:webhook_id>/", webhooks.show_one, name="webhook"),
    path("webhooks/<int:webhook_id>/switch/", webhooks.switch, name="webhook-switch"),
    path("webhooks/<int:webhook_id>/secret/", webhooks.rotate, name="webhook-secret"),
    path("webhooks/<int:webhook_id>/test/", webhooks.try_out, name="webhook-test"),
    path("webhooks/<int:webhook_id>/delete/", webhooks.delete, name="webhook-delete"),
    path("webhooks/<int:webhook_id>/redeliver/", webhooks.redeliver_dead, name="webhook-redeliver-dead"),
    path(
        "webhooks/<int:webhook_id>/deliveries/<int:delivery_id>/redeliver/",
        webhooks.redeliver,
        name="webhook-redeliver",
    ),
]
