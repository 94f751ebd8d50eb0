"""Health."""

from django.urls import path

from apps.base import views

urlpatterns = [
    path("healthz", views.show_alive, name="healthz"),
    path("readyz", views.show_ready, name="readyz"),
]
