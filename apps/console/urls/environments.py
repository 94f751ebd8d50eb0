"""Where tasks are."""

from django.urls import path

from apps.console.views import environments

urlpatterns = [
    path("environments/", environments.list_environments, name="environment-list"),
    path("environments/repos/tasks/", environments.list_repo_tasks, name="repo-task-list"),
    path("environments/repos/tasks/add/", environments.add_repo_tasks, name="repo-task-add"),
    path("environments/<slug:environment>/", environments.show_environment, name="environment"),
]
