"""Paths of the console."""

from django.urls import URLPattern

app_name = "console"
urlpatterns: list[URLPattern] = []
