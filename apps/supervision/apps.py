"""People at a running worker's side: what it wants to do next waits for their word."""

from django.apps import AppConfig


class SupervisionConfig(AppConfig):
    name = "apps.supervision"
    label = "supervision"
