"""One's own console, and how a project is set up."""

from django.urls import path

from apps.console.views import own

account_urlpatterns = [
    path("preferences/", own.show_preferences, name="preferences"),
    path("preferences/theme/", own.choose_theme, name="theme"),
]

urlpatterns = [
    path("views/", own.keep_view, name="view-keep"),
    path("views/<int:view_id>/delete/", own.drop_view, name="view-drop"),
]
