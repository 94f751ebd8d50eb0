"""Specs out, results in, attempts, heartbeats."""

from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "apps.training"
    label = "training"
