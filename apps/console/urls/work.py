"""Tasks and reviews."""

from django.urls import path

from apps.console.views import reviews, tasks

urlpatterns = [
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
]
