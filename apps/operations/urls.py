"""Figures."""

from django.urls import path

from apps.operations import views

urlpatterns = [path("metrics", views.show_metrics, name="metrics")]
