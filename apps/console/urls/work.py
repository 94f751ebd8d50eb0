"""Tasks and reviews."""

from django.urls import path

from apps.console.views import judging, regressions, review_bulk, reviews, tasks

urlpatterns = [
    path("tasks/", tasks.list_tasks, name="task-list"),
    path("tasks/new/", tasks.submit_task, name="task-new"),
    path("tasks/import/", tasks.import_tasks, name="task-import"),
    path("tasks/<int:task_id>/", tasks.show_task, name="task"),
    path("tasks/<int:task_id>/cancel/", tasks.cancel_task, name="task-cancel"),
    path("tasks/<int:task_id>/feedback/", judging.give_task_feedback, name="task-feedback"),
    path("tasks/<int:task_id>/feedback/preview/", judging.preview_feedback, name="feedback-preview"),
    path("tasks/<int:task_id>/compare/", judging.compare_attempts, name="task-compare"),
    path(
        "tasks/<int:task_id>/attempts/<int:index>/screenshots/<slug:sha256>/", tasks.show_screenshot, name="screenshot"
    ),
    path("reviews/", reviews.list_reviews, name="review-list"),
    path("reviews/next/", reviews.take_next_review, name="review-next"),
    path("bulk/", review_bulk.prepare_action, name="bulk-act"),
    path("reviews/bulk/", review_bulk.prepare_bulk, name="bulk-new"),
    path("reviews/bulk/<int:bulk_id>/", review_bulk.show_bulk, name="bulk"),
    path("reviews/bulk/<int:bulk_id>/cancel/", review_bulk.cancel_bulk, name="bulk-cancel"),
    path("reviews/bulk/<int:bulk_id>/undo/", review_bulk.undo_bulk, name="bulk-undo"),
    path("reviews/<int:review_id>/", reviews.show_review, name="review"),
    path("reviews/<int:review_id>/claim/", reviews.claim_review, name="review-claim"),
    path("reviews/<int:review_id>/hold/", judging.hold_review, name="review-hold"),
    path("reviews/<int:review_id>/draft/", judging.keep_draft, name="review-draft"),
    path("reviews/<int:review_id>/release/", reviews.release_review, name="review-release"),
    path("reviews/<int:review_id>/skip/", reviews.skip_review, name="review-skip"),
    path("reviews/<int:review_id>/assign/", reviews.assign_review, name="review-assign"),
    path("reviews/<int:review_id>/snooze/", reviews.snooze_review, name="review-snooze"),
    path("feedback/<int:feedback_id>/undo/", reviews.undo_feedback, name="feedback-undo"),
    path("feedback/<int:feedback_id>/keep/", regressions.keep_correction, name="feedback-keep"),
    path("feedback/<int:feedback_id>/retract/", reviews.retract_feedback, name="feedback-retract"),
    path("feedback/<int:feedback_id>/appeal/", reviews.appeal, name="feedback-appeal"),
]
