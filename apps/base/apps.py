"""Error root, abstract models, system checks."""

from django.apps import AppConfig


class BaseConfig(AppConfig):
    name = "apps.base"
    label = "base"
