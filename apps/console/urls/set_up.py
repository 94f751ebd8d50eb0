"""From a new project to its first review."""

from django.urls import path

from apps.console.views import set_up

urlpatterns = [
    path("connect/", set_up.show_connect, name="connect"),
    path("connect/token/", set_up.make_token, name="connect-token"),
    path("connect/servers/<int:provider_id>/test/", set_up.test_server, name="connect-server"),
    path("tasks/from-sessions/", set_up.take_from_sessions, name="task-from-sessions"),
    path("who-judges/", set_up.choose_judges, name="who-judges"),
]
