"""Paths of the older routes."""

from django.urls import path, re_path

from apps.api.views.bridge import (
    AssignView,
    BridgeHealthView,
    JudgementView,
    ResultView,
    SessionLogView,
    StatusView,
    TrainingStatusView,
)
from apps.api.views.docs import UnknownPathView

app_name = "bridge"

urlpatterns = [
    path("tasks/assign", AssignView.as_view(), name="assign"),
    path("tasks/result", ResultView.as_view(), name="result"),
    re_path(r"^tasks/(?P<task_id>[0-9]{1,40})/status$", StatusView.as_view(), name="status"),
    path("feedback", JudgementView.as_view(), name="feedback"),
    path("sessions/log", SessionLogView.as_view(), name="log"),
    path("training/status", TrainingStatusView.as_view(), name="training"),
    path("health", BridgeHealthView.as_view(), name="health"),
    re_path(r"^[\s\S]*\Z", UnknownPathView.as_view(), name="unknown"),
]
