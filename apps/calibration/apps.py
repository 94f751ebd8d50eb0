"""How far each judge, machine or person, can be trusted."""

from django.apps import AppConfig


class CalibrationConfig(AppConfig):
    name = "apps.calibration"
    label = "calibration"
