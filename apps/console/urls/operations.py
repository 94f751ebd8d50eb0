"""What runs, serves and needs a hand, and what feedback changed."""

from django.urls import path

from apps.console.views import canary, dashboard, datasets, sessions, suspicion, trace, training, upkeep, workers

urlpatterns = [
    path("", dashboard.show_dashboard, name="project"),
    path("runs/", training.list_runs, name="run-list"),
    path("runs/<int:run_id>/", training.show_run, name="run"),
    path("runs/<int:run_id>/cancel/", training.cancel_run, name="run-cancel"),
    path("runs/<int:run_id>/pause/", training.pause_run, name="run-pause"),
    path("runs/<int:run_id>/resume/", training.resume_run, name="run-resume"),
    path("adapters/", training.list_adapters, name="adapter-list"),
    path("adapters/<int:adapter_id>/", training.show_adapter, name="adapter"),
    path("adapters/<int:adapter_id>/promote/", training.promote_adapter, name="adapter-promote"),
    path("adapters/<int:adapter_id>/canary/", canary.start_canary, name="adapter-canary"),
    path("adapters/<int:adapter_id>/suspect/", suspicion.suspect, name="adapter-suspect"),
    path("adapters/<int:adapter_id>/release/", suspicion.release, name="adapter-release"),
    path("adapters/<int:adapter_id>/people/", trace.show_people, name="adapter-people"),
    path("adapters/<int:adapter_id>/moved/", trace.show_moved, name="adapter-moved"),
    path("feedback/<int:feedback_id>/", trace.show_feedback, name="feedback"),
    path("feedback/mine/", trace.show_my_feedback, name="my-feedback"),
    path("tasks/<int:task_id>/versions/", trace.show_versions, name="task-versions"),
    path("tasks/<int:task_id>/again/", trace.try_again, name="task-again"),
    path("compare/", trace.compare_attempts, name="attempt-compare"),
    path("workers/", workers.list_workers, name="worker-list"),
    path("new-worker/", workers.create_worker, name="worker-new"),
    path("workers/<str:name>/", workers.show_worker, name="worker"),
    path("workers/<str:name>/change/", workers.change_worker, name="worker-change"),
    path("workers/<str:name>/train/", training.train_now, name="train"),
    path("workers/<str:name>/roll-back/", training.roll_back, name="roll-back"),
    path("workers/<str:name>/stop-canary/", canary.stop_canary, name="canary-stop"),
    path("sessions/", sessions.list_sessions, name="session-list"),
    path("sessions/<int:session_id>/", sessions.show_session, name="session"),
    path("exchanges/<int:exchange_id>/", sessions.show_exchange, name="exchange"),
    path("exchanges/<int:exchange_id>/json/", sessions.download_exchange, name="exchange-json"),
    path("datasets/", datasets.list_datasets, name="dataset-list"),
    path("datasets/<int:dataset_id>/", datasets.show_dataset, name="dataset"),
    path("blockers/", upkeep.show_blockers, name="blockers"),
    path("dead-letters/", upkeep.list_dead_letters, name="dead-letters"),
    path("dead-letters/<int:segment_id>/replay/", upkeep.replay, name="replay"),
    path("audit/", upkeep.show_audit, name="audit"),
]
