"""Paths of the console."""

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from apps.console.views import dashboard, entry, reviews, tasks, training, upkeep

app_name = "console"

project_patterns = [
    path("", dashboard.show_dashboard, name="project"),
    path("tasks/", tasks.list_tasks, name="task-list"),
    path("tasks/new/", tasks.submit_task, name="task-new"),
    path("tasks/<int:task_id>/", tasks.show_task, name="task"),
    path("tasks/<int:task_id>/cancel/", tasks.cancel_task, name="task-cancel"),
    path("tasks/<int:task_id>/feedback/", tasks.give_task_feedback, name="task-feedback"),
    path("reviews/", reviews.list_reviews, name="review-list"),
    path("reviews/next/", reviews.take_next_review, name="review-next"),
    path("reviews/<int:review_id>/", reviews.show_review, name="review"),
    path("reviews/<int:review_id>/claim/", reviews.claim_review, name="review-claim"),
    path("reviews/<int:review_id>/release/", reviews.release_review, name="review-release"),
    path("reviews/<int:review_id>/skip/", reviews.skip_review, name="review-skip"),
    path("runs/", training.list_runs, name="run-list"),
    path("runs/<int:run_id>/", training.show_run, name="run"),
    path("runs/<int:run_id>/cancel/", training.cancel_run, name="run-cancel"),
    path("adapters/", training.list_adapters, name="adapter-list"),
    path("adapters/<int:adapter_id>/", training.show_adapter, name="adapter"),
    path("adapters/<int:adapter_id>/promote/", training.promote_adapter, name="adapter-promote"),
    path("workers/<str:name>/train/", training.train_now, name="train"),
    path("workers/<str:name>/roll-back/", training.roll_back, name="roll-back"),
    path("blockers/", upkeep.show_blockers, name="blockers"),
    path("dead-letters/", upkeep.list_dead_letters, name="dead-letters"),
    path("dead-letters/<int:segment_id>/replay/", upkeep.replay, name="replay"),
    path("audit/", upkeep.show_audit, name="audit"),
]

urlpatterns = [
    path("", entry.open_first_page, name="dashboard"),
    path("sign-in/", entry.SignInView.as_view(), name="sign-in"),
    path("sign-out/", LogoutView.as_view(), name="sign-out"),
    path("p/<slug:slug>/", include(project_patterns)),
]
