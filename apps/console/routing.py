"""Paths of the live socket."""

from django.urls import path

from apps.console.consumers import LiveConsumer

websocket_urlpatterns = [path("ws/live/", LiveConsumer.as_asgi())]
