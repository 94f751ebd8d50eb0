"""Paths of the live socket."""

from django.urls import URLPattern

websocket_urlpatterns: list[URLPattern] = []
